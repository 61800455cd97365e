-- reads: facts
-- writes: label_spans, when a pod or a namespace carried which labels: each set holds until the next, the first since ever
-- invariant: spans of one object do not overlap
CREATE OR REPLACE TEMP TABLE label_spans AS
WITH sets AS (
    SELECT cluster, namespace, CASE WHEN metric = 'kube_pod_labels' THEN uid END AS uid, labels, first_ms
    FROM facts
    WHERE (metric = 'kube_pod_labels' AND uid IS NOT NULL) OR metric = 'kube_namespace_labels'
),
ordered AS (
    SELECT *,
        lag(first_ms) OVER w IS NULL AS is_first,
        coalesce(lead(first_ms) OVER w, 9223372036854775807) AS to_ms
    FROM sets
    WINDOW w AS (PARTITION BY cluster, namespace, uid ORDER BY first_ms)
)
SELECT cluster, namespace, uid, labels, CASE WHEN is_first THEN 0 ELSE first_ms END AS from_ms, to_ms
FROM ordered
WHERE first_ms < to_ms;
