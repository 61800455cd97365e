-- reads: state_intervals, device_series, blocks
-- writes: dead_targets, one row per kube-state-metrics target all of whose series ended at one scrape while another target of its cluster continued: until it, or a pod or node from its last scrape, has samples again; many_targets, the clusters with several targets
-- invariant: from_ms < to_ms; no other target reports its objects meanwhile; its objects are on at least two machines, or an exporter still names one, or objects that are not collected ended with them
CREATE OR REPLACE TEMP VIEW many_targets AS
SELECT cluster FROM state_intervals WHERE starts_with(metric, 'kube_')
GROUP BY cluster HAVING min(labels['instance']) <> max(labels['instance']);

-- only with: many_targets
-- otherwise: dead_targets (cluster VARCHAR, target VARCHAR, from_ms BIGINT, to_ms BIGINT)
CREATE OR REPLACE TEMP TABLE dead_targets AS
WITH samples AS MATERIALIZED (
    SELECT cluster, concat_ws(' ', labels['job'], labels['instance']) AS target, first_ms, last_ms, end_ms, metric = 'kube_family_samples' AS is_counted,
        namespace, pod, node, CASE metric WHEN 'kube_pod_info' THEN uid WHEN 'kube_node_info' THEN node END AS object
    FROM state_intervals
    WHERE starts_with(metric, 'kube_') AND NOT starts_with(metric, 'kube_state_metrics_')
        AND cluster IN (FROM many_targets)
),
in_order AS (
    SELECT cluster, target, first_ms AS next_ms, max(last_ms) OVER w AS last_ms, max(end_ms) OVER w AS end_ms
    FROM (SELECT DISTINCT cluster, target, first_ms, last_ms, end_ms FROM samples)
    WINDOW w AS (PARTITION BY cluster, target ORDER BY first_ms, last_ms ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
ended AS (
    SELECT * FROM in_order WHERE next_ms > last_ms + greatest(600000, 2.5 * (end_ms - last_ms))
    UNION ALL
    SELECT cluster, target, NULL, max(last_ms), max(end_ms) FROM samples GROUP BY ALL
),
alone AS (
    SELECT e.*, max(o.end_ms) AS heard_ms
    FROM ended AS e JOIN samples AS o ON o.cluster = e.cluster AND o.target <> e.target AND o.last_ms > e.end_ms + 600000
    GROUP BY ALL
    HAVING min(o.first_ms) <= e.end_ms + 600000
),
objects AS (
    SELECT a.*, s.object, s.namespace, s.pod, s.node FROM alone AS a JOIN samples AS s ON s.cluster = a.cluster AND s.target = a.target AND s.last_ms = a.last_ms
    WHERE s.object IS NOT NULL
),
returned AS (
    SELECT o.cluster, o.target, o.last_ms, min(greatest(s.first_ms, o.end_ms)) AS at_ms
    FROM objects AS o JOIN samples AS s ON s.cluster = o.cluster AND s.object = o.object AND s.last_ms > o.last_ms
    GROUP BY ALL
),
exported AS (
    SELECT DISTINCT o.cluster, o.target, o.last_ms
    FROM objects AS o
    JOIN device_series AS d ON d.cluster = o.cluster
        AND CASE WHEN o.pod IS NULL THEN o.node IN (d.host, d.node_label) ELSE d.namespace = o.namespace AND d.pod = o.pod END
    JOIN blocks AS b ON b.series_id = d.series_id AND b.hour = (o.end_ms + 600000) // 3600000
    WHERE b.hour::BIGINT * 3600000 + b.last_offset_ms > o.end_ms + 600000
)
SELECT o.cluster, o.target, o.end_ms AS from_ms, least(o.next_ms, any_value(r.at_ms), o.heard_ms) AS to_ms
FROM objects AS o LEFT JOIN returned AS r USING (cluster, target, last_ms)
GROUP BY o.cluster, o.target, o.end_ms, o.next_ms, o.last_ms, o.heard_ms
HAVING to_ms > from_ms + 600000 AND (count(DISTINCT o.node) > 1 OR (o.cluster, o.target, o.last_ms) IN (SELECT (cluster, target, last_ms) FROM exported)
    OR EXISTS (FROM samples AS s WHERE s.is_counted AND s.cluster = o.cluster AND s.target = o.target AND s.last_ms BETWEEN o.last_ms - 600000 AND o.last_ms));
