-- reads: warnings, cost_rows, report_node_cells, nodes; $from, $to bound the period, $clusters filters (empty: all), $narrowed: only some pods are asked for; $parts are teams that are told of by themselves, or a null
-- writes: nothing; answers the warnings that concern the report, or each part of it, each once
-- invariant: a warning without a time or a cluster concerns every period and every cluster; with $narrowed one on a node, a kind of node or a namespace concerns the pods asked for only where they ran on it or in it
WITH used AS (
    SELECT DISTINCT n.cluster, n.node, coalesce(n.instance_type, n.gpu_model, 'unnamed type') AS kind_of_node,
        f.namespace, f.part
    FROM (SELECT DISTINCT node_id, namespace, part_of(team) AS part FROM cost_rows WHERE $narrowed) AS f JOIN nodes AS n USING (node_id)
),
-- node, kind of node and namespace in one list: what a warning's subject is called
names AS (
    SELECT DISTINCT part, cluster, unnest([
        ('over_allocated', node), ('unknown_capacity_type', node), ('unpriced_node', kind_of_node), ('stale_price', kind_of_node),
        ('basis_fallback', kind_of_node),
        ('team_overlap', namespace), ('pod_without_node', namespace)]) AS known
    FROM used
),
over_allocated AS (
    SELECT DISTINCT n.cluster, n.node
    FROM report_node_cells AS h JOIN nodes AS n USING (node_id)
    WHERE h.over_allocated_gpu_ms > 0
)
SELECT p.part, code, message, fix
FROM warnings AS w CROSS JOIN (SELECT unnest($parts::VARCHAR[]) AS part) AS p
WHERE coalesce(from_ms < $to, true) AND coalesce(to_ms > $from, true)
  AND (len($clusters::VARCHAR[]) = 0 OR cluster IS NULL OR list_contains($clusters::VARCHAR[], cluster))
  -- its time is from the first to the last, and may have been somewhere else in between
  AND (code <> 'over_allocated' OR (cluster, subject) IN (FROM over_allocated))
  AND (NOT $narrowed OR code NOT IN (
      'over_allocated', 'unknown_capacity_type', 'unpriced_node', 'stale_price', 'basis_fallback', 'team_overlap', 'pod_without_node',
      'unassigned_namespace')
    OR EXISTS (
      FROM names AS n
      WHERE n.part IS NOT DISTINCT FROM p.part AND (w.cluster IS NULL OR n.cluster = w.cluster) AND n.known[1] = w.code
        AND n.known[2] = CASE code WHEN 'pod_without_node' THEN split_part(w.subject, '/', 1) ELSE w.subject END))
GROUP BY p.part, code, message, fix
ORDER BY p.part, code, message, fix;
