-- reads: nodes, node_splits, request_gaps
-- writes: basis_spans, the spans of each node's life in which its price is split
-- invariant: spans of a node do not overlap, within its life; outside them the GPUs carry its whole price
CREATE OR REPLACE TEMP TABLE basis_spans AS
WITH edges AS (
    SELECT n.node_id, unnest([n.up_from_ms, n.up_to_ms]) AS at_ms FROM nodes AS n JOIN node_splits USING (node_id)
    UNION
    SELECT n.node_id, unnest([greatest(g.from_ms, n.up_from_ms), least(g.to_ms, n.up_to_ms)])
    FROM nodes AS n JOIN node_splits USING (node_id) JOIN request_gaps AS g ON g.cluster = n.cluster AND g.from_ms < n.up_to_ms AND n.up_from_ms < g.to_ms
),
pieces AS (
    SELECT node_id, at_ms AS from_ms, lead(at_ms) OVER (PARTITION BY node_id ORDER BY at_ms) AS to_ms FROM edges
)
SELECT p.node_id, p.from_ms, p.to_ms, s.gpu_fraction, s.cpu_fraction
FROM pieces AS p
JOIN node_splits AS s USING (node_id)
JOIN nodes AS n USING (node_id)
WHERE p.to_ms IS NOT NULL
    AND NOT EXISTS (FROM request_gaps AS g WHERE g.cluster = n.cluster AND g.from_ms <= p.from_ms AND p.from_ms < g.to_ms);
