-- reads: node_facts, state_intervals, catalog_instances
-- writes: node_hosts, one row per (GPU node, 'cpu' or 'memory'): its cores or bytes; none if neither the node nor the catalog has them
-- invariant: units > 0; empty with the cost basis `node`
INSERT INTO node_hosts BY NAME
WITH reported AS (
    SELECT n.node_id, f.resource AS part, max(f.value) AS units
    FROM node_facts AS n
    JOIN state_intervals AS f ON f.cluster = n.cluster AND f.node = n.node AND f.metric = 'kube_node_status_capacity'
        AND f.first_ms < n.up_to_ms AND n.up_from_ms <= f.last_ms
    WHERE is_host_resource(f.resource)
    GROUP BY ALL
),
listed AS (
    SELECT lower(instance_type) AS instance_type, 'cpu' AS part, max(vcpus)::DOUBLE AS units FROM catalog_instances GROUP BY ALL
    UNION ALL
    SELECT lower(instance_type), 'memory', max(memory_gib)::DOUBLE * 1073741824 FROM catalog_instances GROUP BY ALL
)
SELECT n.node_id, l.part, coalesce(r.units, l.units) AS units
FROM node_facts AS n
JOIN listed AS l ON l.instance_type = lower(n.instance_type) AND is_host_resource(l.part)
LEFT JOIN reported AS r ON r.node_id = n.node_id AND r.part = l.part
WHERE coalesce(r.units, l.units) > 0
UNION
SELECT node_id, part, units FROM reported WHERE units > 0;
