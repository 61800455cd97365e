-- reads: warnings, cost_rows, report_node_cells, nodes; $from, $to bound the period, $clusters filters (empty: all), $narrowed: only some pods are selected; $parts are the teams with reports of their own, or a null
-- writes: nothing; returns the warnings that concern the report, or each part of it, each once
-- invariant: a warning without a time or a cluster concerns every period and every cluster; with $narrowed, a warning on a node, a kind of node or a namespace concerns the selected pods only if they ran on or in it
WITH used AS (
    SELECT DISTINCT n.cluster, n.node, coalesce(n.instance_type, n.gpu_model, 'unnamed type') AS kind_of_node,
        f.namespace, f.part
    FROM (SELECT DISTINCT node_id, namespace, part_of(team) AS part FROM cost_rows WHERE $narrowed) AS f JOIN nodes AS n USING (node_id)
),
-- node, kind of node and namespace in one list: the subjects of warnings
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
  -- a warning's interval runs from its first to its last occurrence; the report may lie in between, without one
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
