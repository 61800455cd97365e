-- reads: billed_hours, billed_nodes
-- writes: nodes.capacity_type (stored), where metrics do not tell how a node was launched and its bill does
-- invariant: a known capacity type is never changed
UPDATE nodes SET capacity_type = b.capacity_type
FROM (
    SELECT n.node_id, arg_max(h.capacity_type, h.to_ms) AS capacity_type
    FROM billed_nodes AS n JOIN billed_hours AS h USING (instance_key)
    GROUP BY n.node_id
) AS b
WHERE nodes.node_id = b.node_id AND nodes.capacity_type = 'unknown';
