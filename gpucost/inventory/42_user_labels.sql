-- reads: allocated, label_history, user_labels, slurm_users
-- writes: slurm_users, more rows: the user of an allocation without Slurm, from the label [labels] user at its start; warnings (stored), about clusters without that label
-- invariant: allocation_id is unique; the pod's label wins over the namespace's
-- only with: user_labels
INSERT INTO slurm_users BY NAME
SELECT a.allocation_id, coalesce(p.labels[c.label], n.labels[c.label]) AS "user"
FROM allocated AS a CROSS JOIN user_labels AS c
LEFT JOIN label_history AS p
    ON p.kind = 'pod' AND p.cluster = a.cluster AND p.name = a.uid AND p.from_ms <= a.held_from_ms AND a.held_from_ms < p.to_ms
LEFT JOIN label_history AS n
    ON n.kind = 'namespace' AND n.cluster = a.cluster AND n.name = a.namespace AND n.from_ms <= a.held_from_ms AND a.held_from_ms < n.to_ms
ANTI JOIN slurm_users AS u ON u.allocation_id = a.allocation_id;

-- only with: user_labels
INSERT INTO warnings BY NAME
SELECT 'user_label_not_exported' AS code, a.cluster, a.cluster AS subject, min(a.held_from_ms) AS from_ms, max(a.held_to_ms) AS to_ms,
    'no pod or namespace of cluster ' || a.cluster || ' exports ' || any_value(c.label) || ': its users are unknown' AS message,
    'kube-state-metrics --metric-labels-allowlist=pods=[' || any_value(c.name) || ']' AS fix
FROM allocated AS a CROSS JOIN user_labels AS c
WHERE a.cluster IN (SELECT cluster FROM label_history)
    AND a.cluster NOT IN (SELECT cluster FROM label_history WHERE kind <> 'node' AND labels[c.label] IS NOT NULL)
GROUP BY a.cluster;
