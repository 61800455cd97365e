-- reads: facts, incarnations
-- writes: facts, those of pods without uid: each once per pod that it speaks of, clipped to it
-- invariant: every fact about a pod of a known name has a uid
INSERT INTO facts
SELECT f.* REPLACE (
    coalesce(i.uid, f.namespace || '/' || f.pod) AS uid,
    greatest(f.first_ms, i.from_ms) - (f.first_ms - f.begin_ms) AS begin_ms,
    greatest(f.first_ms, i.from_ms) AS first_ms,
    least(f.last_ms, i.to_ms - 1) AS last_ms,
    least(f.last_ms, i.to_ms - 1) + (f.end_ms - f.last_ms) AS end_ms
)
FROM facts AS f
LEFT JOIN incarnations AS i
    ON i.cluster = f.cluster AND i.namespace = f.namespace AND i.pod = f.pod AND i.from_ms <= f.last_ms AND f.first_ms < i.to_ms
WHERE f.uid IS NULL AND f.namespace IS NOT NULL AND f.pod IS NOT NULL AND starts_with(f.metric, 'kube_pod_');
DELETE FROM facts WHERE uid IS NULL AND namespace IS NOT NULL AND pod IS NOT NULL AND starts_with(metric, 'kube_pod_');
