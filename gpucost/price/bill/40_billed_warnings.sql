-- reads: billed_hours, billed_nodes, nodes, bills
-- writes: warnings (stored), code unexplained_zero: machines that a bill lists without all of their cost and without a reason; code old_bill: AWS bills loaded before today's kinds of rows; removes code billed_twice, which is written later
-- invariant: unexplained hours have no price from the bill
DELETE FROM warnings WHERE code IN ('unexplained_zero', 'old_bill', 'billed_twice');
-- only with: billed_hours, bills
INSERT INTO warnings BY NAME
SELECT 'unexplained_zero' AS code, CASE WHEN count(DISTINCT n.cluster) = 1 THEN any_value(n.cluster) END AS cluster,
    coalesce(h.instance_type, h.instance_key) AS subject, min(h.from_ms) AS from_ms, max(h.to_ms) AS to_ms,
    format('the bill of {}, {}, has {:.1f} hours of {} without their cost, or a part of it, and without a reason: priced as if no bill covered them',
        h.provider, h.billing_period, sum(h.instance_hours), coalesce(h.instance_type, 'machines')) AS message,
    'gpucost sql "from charges where cost_cause in (''zero_unexplained'', ''fee_missing'', ''reservation_cost_missing'', ''commitment_cost_missing'', ''dedicated_host'')" shows the rows' AS fix
FROM billed_hours AS h
LEFT JOIN billed_nodes AS b USING (instance_key)
LEFT JOIN nodes AS n USING (node_id)
WHERE h.is_unexplained
GROUP BY h.provider, h.billing_period, coalesce(h.instance_type, h.instance_key), h.instance_type;

-- Bills have load_bills since discounts, fees on machines and unused reservations are separate kinds.
-- only with: bills
INSERT INTO warnings BY NAME
SELECT 'old_bill' AS code, source AS subject, epoch_ms(month) AS from_ms, epoch_ms(month + INTERVAL 1 MONTH) AS to_ms,
    format('the bill of aws, {}, was loaded by an earlier gpucost: load it again to separate discounts, fees on machines and reservations',
        billing_period) AS message,
    'gpucost collect aws PATH' AS fix
FROM (SELECT DISTINCT source, billing_period, strptime(billing_period, '%Y-%m') AS month FROM bills WHERE provider = 'aws' AND load_bills IS NULL);
