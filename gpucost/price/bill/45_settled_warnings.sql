-- reads: nodes
-- writes: warnings (stored): takes back unknown_capacity_type of nodes whose bill told it
-- invariant: a node whose capacity type is unknown keeps its warning
DELETE FROM warnings
WHERE code = 'unknown_capacity_type'
    AND (cluster, subject, from_ms) IN (SELECT (cluster, node, up_from_ms) FROM nodes WHERE capacity_type <> 'unknown');
