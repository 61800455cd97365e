-- reads: state_intervals, nodes, unit_shares, node_segments, allocation_segments
-- writes: unavailable, one row per segment of a node of which GPUs could not have been held: not ready, cordoned, or not allocatable
-- invariant: 0 <= gpu_ms <= the segment's GPU time that nobody held
CREATE OR REPLACE TEMP TABLE unavailable AS
WITH closed AS (
    SELECT n.node_id, '' AS cause, n.gpu_count AS gpus, f.first_ms AS from_ms, f.end_ms AS to_ms
    FROM state_intervals AS f
    JOIN nodes AS n ON n.cluster = f.cluster AND n.node = f.node AND f.first_ms < n.up_to_ms AND n.up_from_ms < f.end_ms
    WHERE (f.metric = 'kube_node_spec_unschedulable' AND f.value = 1)
        OR (f.metric = 'kube_node_status_condition' AND f.labels['condition'] = 'Ready' AND f.labels['status'] = 'true' AND f.value = 0)
),
short AS (
    SELECT n.node_id, f.resource AS cause, greatest(0, c.value - f.value) * u.offered_share AS gpus,
        greatest(f.first_ms, c.first_ms) AS from_ms, least(f.end_ms, c.end_ms) AS to_ms
    FROM state_intervals AS f
    JOIN state_intervals AS c ON c.cluster = f.cluster AND c.node = f.node AND c.resource = f.resource AND c.metric = 'kube_node_status_capacity'
        AND c.first_ms < f.end_ms AND f.first_ms < c.end_ms AND f.value < c.value
    JOIN nodes AS n ON n.cluster = f.cluster AND n.node = f.node AND f.first_ms < n.up_to_ms AND n.up_from_ms < f.end_ms
    JOIN unit_shares AS u ON u.node_id = n.node_id AND u.resource = f.resource AND u.from_ms <= f.first_ms AND f.first_ms < u.to_ms
    WHERE f.metric = 'kube_node_status_allocatable'
),
spells AS (
    SELECT DISTINCT * FROM closed UNION SELECT DISTINCT * FROM short
),
-- one cause said twice is one absence; several causes (cordoned, this resource, that one) add up to what there is at most
edges AS (
    SELECT node_id, from_ms AS at_ms FROM spells UNION SELECT node_id, to_ms FROM spells
    -- where pods come and go what is free changes: at each moment it is all that can be absent
    UNION SELECT node_id, from_ms FROM allocation_segments SEMI JOIN spells USING (node_id)
    UNION SELECT node_id, to_ms FROM allocation_segments SEMI JOIN spells USING (node_id)
),
stretches AS (
    SELECT node_id, at_ms AS from_ms, lead(at_ms) OVER (PARTITION BY node_id ORDER BY at_ms) AS to_ms FROM edges
),
causes AS (
    SELECT t.node_id, t.from_ms, t.to_ms, s.cause, max(s.gpus) AS gpus
    FROM stretches AS t JOIN spells AS s ON s.node_id = t.node_id AND s.from_ms <= t.from_ms AND t.to_ms <= s.to_ms
    GROUP BY ALL
),
absent AS (
    SELECT node_id, from_ms, to_ms, sum(gpus) AS gpus FROM causes GROUP BY ALL
),
parts AS (
    SELECT l.node_id, l.from_ms AS segment_from_ms, l.gpu_count, a.gpus,
        greatest(l.from_ms, a.from_ms) AS from_ms, least(l.to_ms, a.to_ms) AS to_ms
    FROM absent AS a JOIN node_segments AS l ON l.node_id = a.node_id AND l.is_collected AND l.from_ms < a.to_ms AND a.from_ms < l.to_ms
),
free AS (
    SELECT p.node_id, p.segment_from_ms, p.gpus * (p.to_ms - p.from_ms) AS absent_gpu_ms,
        greatest(0, p.gpu_count * (p.to_ms - p.from_ms)
            - coalesce(sum(h.gpus * (least(h.to_ms, p.to_ms) - greatest(h.from_ms, p.from_ms))), 0)) AS free_gpu_ms
    FROM parts AS p
    LEFT JOIN allocation_segments AS h ON h.node_id = p.node_id AND h.segment_from_ms = p.segment_from_ms AND h.from_ms < p.to_ms AND p.from_ms < h.to_ms
    GROUP BY p.node_id, p.segment_from_ms, p.gpus, p.gpu_count, p.from_ms, p.to_ms
)
SELECT node_id, segment_from_ms, sum(least(absent_gpu_ms, free_gpu_ms)) AS gpu_ms FROM free GROUP BY ALL;
