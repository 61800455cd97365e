-- reads: allocated, incarnations
-- writes: warnings (stored), clusters whose pods are told apart without their uid
-- invariant: one row per cluster; none where every pod that held GPUs has a uid
INSERT INTO warnings BY NAME
SELECT 'no_uid' AS code, a.cluster, a.cluster AS subject, min(a.held_from_ms) AS from_ms, max(a.held_to_ms) AS to_ms,
    'cluster ' || a.cluster || ': ' || count(*) || CASE count(*) WHEN 1 THEN ' pod' ELSE ' pods' END
        || ' without the label uid: told apart by namespace, name, node and start, so one that follows another of its name may be taken for it' AS message,
    'keep uid on kube_pod_*: look for labeldrop and metric_relabel_configs in Prometheus'' scrape configuration' AS fix
FROM allocated AS a JOIN incarnations AS i ON i.cluster = a.cluster AND i.uid = a.uid AND i.is_given
GROUP BY a.cluster;
