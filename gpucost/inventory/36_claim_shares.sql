-- reads: claim_holders
-- writes: claim_shares, what a pod holds by claims, one row per (pod, stretch without change, whether of slices): a device that several pods claim is split evenly among those that run
-- invariant: from_ms < to_ms; a pod's stretches cover its life without gap or overlap; per device and moment the parts of its pods add up to the device's
CREATE OR REPLACE TEMP TABLE claim_shares AS
WITH edges AS (
    SELECT node_id, device, held_from_ms AS at_ms FROM claim_holders UNION SELECT node_id, device, held_to_ms FROM claim_holders
),
pieces AS (
    SELECT node_id, device, at_ms AS from_ms, lead(at_ms) OVER (PARTITION BY node_id, device ORDER BY at_ms) AS to_ms FROM edges
),
parts AS (
    SELECT h.cluster, h.uid, h.sliced, h.device, p.from_ms, p.to_ms, h.part / count(*) OVER (PARTITION BY p.node_id, p.device, p.from_ms) AS gpus,
        count(*) OVER (PARTITION BY p.node_id, p.device, p.from_ms) > 1 AS shared
    FROM claim_holders AS h
    JOIN pieces AS p ON p.node_id = h.node_id AND p.device = h.device AND h.held_from_ms <= p.from_ms AND p.to_ms <= h.held_to_ms
),
moments AS (
    SELECT cluster, uid, at_ms AS from_ms, lead(at_ms) OVER (PARTITION BY cluster, uid ORDER BY at_ms) AS to_ms
    FROM (SELECT cluster, uid, from_ms AS at_ms FROM parts UNION SELECT cluster, uid, to_ms FROM parts)
),
held AS (
    SELECT m.cluster, m.uid, m.from_ms, m.to_ms, p.sliced, count(*) AS units, sum(p.gpus) AS gpus, bool_or(p.shared) AS shared
    FROM moments AS m JOIN parts AS p ON p.cluster = m.cluster AND p.uid = m.uid AND p.from_ms <= m.from_ms AND m.to_ms <= p.to_ms
    GROUP BY ALL
),
sets AS (
    SELECT cluster, uid, from_ms, to_ms, list((sliced, units, gpus, shared) ORDER BY sliced) AS holding FROM held GROUP BY ALL
),
changes AS (
    SELECT *, (holding IS DISTINCT FROM lag(holding) OVER w)::INTEGER AS is_new FROM sets WINDOW w AS (PARTITION BY cluster, uid ORDER BY from_ms)
),
runs AS (
    SELECT *, sum(is_new) OVER (PARTITION BY cluster, uid ORDER BY from_ms) AS run FROM changes
),
stretches AS (
    SELECT cluster, uid, run, min(from_ms) AS from_ms, max(to_ms) AS to_ms, any_value(holding) AS holding FROM runs GROUP BY ALL
),
listed AS (
    SELECT cluster, uid, from_ms, to_ms, unnest(holding) AS holding FROM stretches
)
SELECT cluster, uid, from_ms, to_ms, holding[1] AS sliced, holding[2] AS units, holding[3] AS gpus, holding[4] AS shared
FROM listed;
