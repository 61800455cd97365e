-- reads: facts, claim_series
-- writes: claim_pods, which pods use which resource claim, as kube-state-metrics tells it
-- invariant: one row per (cluster, uid, namespace, claim)
CREATE OR REPLACE TEMP TABLE claim_pods AS
SELECT DISTINCT f.cluster, f.labels[s.uid] AS uid, f.namespace, f.labels[s.claim] AS claim
FROM facts AS f JOIN claim_series AS s ON s.metric = f.metric AND s.kind = 'pod'
WHERE f.labels[s.uid] IS NOT NULL AND f.labels[s.claim] <> '' AND f.value > 0;
