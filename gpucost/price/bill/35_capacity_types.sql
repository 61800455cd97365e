-- reads: billed_hours, billed_nodes, nodes
-- writes: nodes.capacity_type (stored), if the bill has it and metrics do not; warnings (stored): removes unknown_capacity_type of such nodes, and no_capacity_label of clusters without others
-- invariant: a known capacity type is never changed; a node whose capacity type is unknown keeps its warning
-- only with: billed_hours
UPDATE nodes SET capacity_type = b.capacity_type
FROM (
    SELECT n.node_id, arg_max(h.capacity_type, h.to_ms) AS capacity_type
    FROM billed_nodes AS n JOIN billed_hours AS h USING (instance_key)
    GROUP BY n.node_id
) AS b
WHERE nodes.node_id = b.node_id AND nodes.capacity_type = 'unknown';

DELETE FROM warnings
WHERE code = 'unknown_capacity_type'
    AND (cluster, subject, from_ms) IN (SELECT (cluster, node, up_from_ms) FROM nodes WHERE capacity_type <> 'unknown')
    OR (code = 'no_capacity_label' AND cluster NOT IN (SELECT cluster FROM nodes WHERE capacity_type = 'unknown'));
