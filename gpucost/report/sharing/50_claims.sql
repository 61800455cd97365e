-- reads: report_pots, report_uses
-- writes: report_claims, one row per pot and use that takes a part of it
-- invariant: shared namespaces take no part of what is shared by rules; a pot of unallocated cost is claimed by those who held GPUs of its kind
CREATE OR REPLACE TEMP TABLE report_claims AS
SELECT p.pot, p.split, p.amount, u.team, u.node_id, u.allocation_id, u.slot, u.cost, u.gpu_ms
FROM report_pots AS p
JOIN report_uses AS u ON u.kind = 'allocated' AND p.rule IS NULL
    AND (u.cluster, u.gpu_model, u.capacity_type) IS NOT DISTINCT FROM (p.cluster, p.gpu_model, p.capacity_type)
UNION ALL
SELECT p.pot, p.split, p.amount, u.team, u.node_id, u.allocation_id, u.slot, u.cost, u.gpu_ms
FROM report_pots AS p
JOIN report_uses AS u ON u.kind = 'allocated' AND p.rule IS NOT NULL AND u.source IS NULL AND coalesce(u.team = p.owner, p.owner IS NULL);
