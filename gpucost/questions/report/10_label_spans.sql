-- reads: label_history, state_intervals, allocations, nodes; variables report_from_ms, report_to_ms bound the period; $names lists the names of each label in kube-state-metrics, or 'priority_class', with their dimensions in $dimensions; $wanted lists the values of each that pass (empty: all)
-- writes: label_spans, one row per (allocation, span of unchanged values), and per (node, span) for time without an allocation: the values by dimension, and whether they pass
-- invariant: spans of a holder cover all time without overlap, and change at an hour's start, only while it holds; a pod's label decides, then its namespace's, then its node's; with a filter, no time without an allocation passes
CREATE OR REPLACE TEMP TABLE label_spans AS
WITH valued AS (
    SELECT kind, cluster, name, from_ms, list_transform($names::VARCHAR[][], lambda spellings: list_filter(list_transform(spellings, lambda label: labels[label]), lambda val: val IS NOT NULL)[1]) AS vals FROM label_history
),
changed AS (
    FROM valued QUALIFY vals IS DISTINCT FROM lag(vals) OVER (PARTITION BY kind, cluster, name ORDER BY from_ms)
),
spans AS (
    SELECT *, lead(from_ms) OVER (PARTITION BY kind, cluster, name ORDER BY from_ms) AS to_ms FROM changed
),
classes AS (
    SELECT cluster, uid, max(labels['priority_class']) AS priority_class FROM state_intervals WHERE metric = 'kube_pod_info' GROUP BY ALL
),
holders AS (
    SELECT node_id, allocation_id, cluster, namespace, uid, held_from_ms AS from_ms, held_to_ms AS to_ms FROM allocations
    UNION ALL
    SELECT node_id, NULL, cluster, NULL, NULL, up_from_ms, up_to_ms FROM nodes
),
pieces AS (
    SELECT h.node_id, h.allocation_id, h.from_ms // 3600000 * 3600000 AS held_from_ms, h.to_ms AS held_to_ms,
        greatest(p.from_ms, n.from_ms, d.from_ms, 0) AS from_ms,
        least(p.to_ms, n.to_ms, d.to_ms, 9223372036854775807) AS to_ms,
        list_transform(range(1, len($names::VARCHAR[][]) + 1), lambda i:
            CASE WHEN $names[i][1] = 'priority_class' THEN c.priority_class ELSE coalesce(p.vals[i], n.vals[i], d.vals[i]) END) AS vals
    FROM holders AS h
    LEFT JOIN spans AS p ON p.kind = 'pod' AND p.cluster = h.cluster AND p.name = h.uid
    LEFT JOIN spans AS n ON n.kind = 'namespace' AND n.cluster = h.cluster AND n.name = h.namespace
    LEFT JOIN spans AS d ON d.kind = 'node' AND d.cluster = h.cluster AND d.name = h.node_id::VARCHAR
    LEFT JOIN classes AS c ON c.cluster = h.cluster AND c.uid = h.uid
    WHERE h.from_ms < getvariable('report_to_ms') AND getvariable('report_from_ms') < h.to_ms
)
SELECT node_id, allocation_id, map($dimensions::VARCHAR[], vals) AS labels,
    -- values hold from the next hour's start on
    CASE WHEN lag(from_ms) OVER w IS NOT NULL THEN (from_ms + 3599999) // 3600000 * 3600000 ELSE 0 END AS from_ms,
    coalesce((lead(from_ms) OVER w + 3599999) // 3600000 * 3600000, 9223372036854775807) AS to_ms,
    len(list_filter(range(1, len(vals) + 1), lambda i: passes($wanted[i], vals[i]) IS NOT TRUE)) = 0
        AND (allocation_id IS NOT NULL OR len(flatten($wanted::VARCHAR[][])) = 0) AS is_selected
FROM pieces
WHERE from_ms < to_ms AND from_ms < held_to_ms AND held_from_ms < to_ms
WINDOW w AS (PARTITION BY node_id, allocation_id ORDER BY from_ms);
