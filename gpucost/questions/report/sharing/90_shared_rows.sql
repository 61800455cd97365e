-- reads: report_rules, shared_cost_pools, pool_consumers, pool_shares, nodes, allocations, allocation_traits, time_buckets, label_spans; variable filters
-- writes: shared_rows, the shared amounts by rule (null: unallocated cost); rows of kind 'unallocated' have the unshared rest, rows of kind 'shared' the amounts of teams without GPUs or without a team
-- invariant: without filters, sum(amount) over a rule's rows is the rule's amount from the bill, and 0 if the rule moves cost between namespaces; for unallocated cost it is the shared amount plus the rest
CREATE OR REPLACE TEMP TABLE shared_rows AS
WITH claimed AS (
    SELECT p.*, p.pool IN (SELECT pool FROM pool_shares) AS is_claimed FROM shared_cost_pools AS p
),
moved AS (
    SELECT 'allocated' AS kind, p.rule, s.team, s.node_id, s.allocation_id, s.time_bucket, s.amount
    FROM pool_shares AS s JOIN claimed AS p USING (pool)
    UNION ALL
    -- an owner without GPUs; billed cost without a team to charge
    SELECT 'shared', p.rule, p.owner, NULL, NULL, NULL, p.amount
    FROM claimed AS p JOIN report_rules AS r USING (rule)
    WHERE NOT p.is_claimed AND (p.owner IS NOT NULL OR r.of <> 'namespaces')
    UNION ALL
    -- namespaces whose cost went to others
    SELECT 'allocated', p.rule, u.team, u.node_id, u.allocation_id, u.time_bucket, -u.cost
    FROM claimed AS p JOIN pool_consumers AS u ON u.source = p.rule
    WHERE p.is_claimed OR p.owner IS NOT NULL
    UNION ALL
    SELECT 'unallocated', NULL, NULL, u.node_id, NULL, u.time_bucket, u.unallocated_cost
    FROM pool_consumers AS u JOIN claimed AS p
        ON p.rule IS NULL AND (u.cluster, u.gpu_model, u.capacity_type) IS NOT DISTINCT FROM (p.cluster, p.gpu_model, p.capacity_type)
    WHERE u.kind = 'unallocated' AND NOT p.is_claimed
)
SELECT m.kind, m.rule, m.team, m.amount, n.cluster, n.node, n.gpu_model, n.capacity_type, n.region, n.zone,
    a.namespace, a.workload, t.workload_type, a.pod, a.uid, a.account, a."user", a.partition, a.qos, CASE WHEN a.resource = 'reservation' THEN a.pod END AS reservation, s.month, s.day, s.hour, l.labels
FROM moved AS m
LEFT JOIN nodes AS n ON n.node_id = m.node_id
LEFT JOIN allocations AS a ON a.allocation_id = m.allocation_id
LEFT JOIN allocation_traits AS t ON t.allocation_id = m.allocation_id
LEFT JOIN time_buckets AS s ON s.from_ms = m.time_bucket
LEFT JOIN label_spans AS l ON l.node_id = m.node_id AND l.allocation_id IS NOT DISTINCT FROM m.allocation_id
    AND l.from_ms <= m.time_bucket AND m.time_bucket < l.to_ms
WHERE is_selected(n.cluster, a.namespace, m.team, a.workload, a."user", l.is_selected);
