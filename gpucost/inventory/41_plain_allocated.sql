-- reads: plain_hosts, node_devices, node_facts, series, blocks, collected, settings
-- writes: plain_samples, one row per run of samples of a device of a plain host: the user in its label, from its first sample to the end of the last; node_stops (stored), collected time without samples of a plain host that is too long to bridge; plain_holdings, one row per (device, user, span of samples with that user); allocated, pods, allocation_devices: the same
-- invariant: a sample is valid until the device's next one, or for one scrape interval if that is over 2.5 away; a device has one user at a time, also across bridged gaps; held_from_ms < held_to_ms; uid names host, user and device
-- only with: plain_hosts
CREATE OR REPLACE TEMP TABLE plain_samples AS
WITH readings AS (
    SELECT d.node_id, d.device_id, concat_ws('/', d.uuid, nullif(d.gpu_instance_id, '')) AS device, d.profile, nullif(s.labels[h.user_label], '') AS "user",
        -- an exporter that never names a user does not contradict others
        count("user") OVER (PARTITION BY d.device_id, d.target_id) > 0 AS has_users, b.hour::BIGINT * 3600000 AS hour_ms,
        b.samples, b.first_offset_ms, b.last_offset_ms, b.step_ms, b.offsets_ms, coalesce(b.gap_ms, d.end_ms - d.last_ms) AS gap_ms
    FROM plain_hosts AS h JOIN node_devices AS d USING (node_id) JOIN series AS s USING (series_id) JOIN blocks AS b USING (series_id)
),
judged AS (
    -- the only series in its hour, without a pause: one run
    SELECT *, count(*) OVER (PARTITION BY device_id, has_users, hour_ms) = 1
        AND last_offset_ms - first_offset_ms - (samples - 1) * gap_ms <= 600000 AS is_run
    FROM readings
),
told AS (
    SELECT *, CASE WHEN is_run THEN [first_offset_ms, last_offset_ms]
        ELSE sample_offsets(offsets_ms, samples, first_offset_ms, step_ms) END AS moments
    FROM judged
),
runs AS (
    SELECT node_id, device_id, device, profile, "user", has_users, gap_ms,
        hour_ms + unnest(moments[:CASE WHEN is_run THEN 1 ELSE len(moments) END]) AS from_ms,
        hour_ms + unnest(moments[CASE WHEN is_run THEN 2 ELSE 1 END:]) AS last_ms
    FROM told
)
SELECT *, valid_until(last_ms, lead(from_ms) OVER w, gap_ms) AS to_ms
FROM runs
WINDOW w AS (PARTITION BY device_id, has_users ORDER BY from_ms, last_ms);

INSERT INTO node_stops BY NAME
WITH silences AS (
    SELECT node_id, max(to_ms) OVER (PARTITION BY node_id ORDER BY from_ms ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS from_ms, from_ms AS to_ms
    FROM plain_samples
)
SELECT s.node_id, greatest(s.from_ms, t.from_ms) AS from_ms, least(s.to_ms, t.to_ms) AS to_ms, 'silent' AS reason
FROM silences AS s
CROSS JOIN settings AS c
JOIN node_facts AS n USING (node_id)
JOIN collected AS t ON t.cluster = n.cluster AND t.from_ms < s.to_ms AND s.from_ms < t.to_ms
WHERE s.to_ms - s.from_ms > c.max_bridge_ms;

CREATE OR REPLACE TEMP TABLE plain_holdings AS
WITH marked AS (
    SELECT p.*, coalesce("user" IS DISTINCT FROM lag("user") OVER w OR from_ms - lag(to_ms) OVER w > c.max_bridge_ms, true) AS begins
    FROM plain_samples AS p CROSS JOIN settings AS c
    WHERE has_users
    WINDOW w AS (PARTITION BY device_id ORDER BY from_ms, last_ms)
),
numbered AS (
    SELECT *, sum(begins::INTEGER) OVER (PARTITION BY device_id ORDER BY from_ms, last_ms) AS number FROM marked
)
SELECT hash(s.device_id, min(s.from_ms)) AS allocation_id, s.device_id, n.cluster, s."user" AS namespace, n.node AS pod,
    concat_ws('/', n.node, s."user", s.device) AS uid, n.node_id, 'plain_gpu' AS resource, 1::DOUBLE AS units,
    coalesce(compute_slices(max(s.profile)) / n.mig_slices, 1) AS gpus,
    min(s.from_ms) AS held_from_ms, max(s.to_ms) AS held_to_ms, 'Host' AS workload_kind, 'Host/' || n.node AS workload
FROM numbered AS s JOIN node_facts AS n USING (node_id)
WHERE s."user" IS NOT NULL
GROUP BY s.device_id, s.number, s."user", s.device, n.cluster, n.node, n.node_id, n.mig_slices;

INSERT INTO allocated BY NAME SELECT * EXCLUDE (device_id) FROM plain_holdings;
INSERT INTO allocation_devices BY NAME SELECT allocation_id, device_id, gpus AS weight FROM plain_holdings;
INSERT INTO pods BY NAME
SELECT cluster, namespace, pod, uid, true AS asks_gpus, pod AS node, false AS failed, min(held_from_ms) AS held_from_ms, max(held_to_ms) AS held_to_ms
FROM plain_holdings
GROUP BY ALL;
