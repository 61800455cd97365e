-- reads: pool_consumers, report_rules, report_billed_amounts; $split_unallocated, null if unallocated cost is not shared
-- writes: shared_cost_pools, the amounts to share: unallocated cost by (cluster, GPU model, capacity type) with a null rule, and each rule's amount
-- invariant: the pools of unallocated cost add up to it
CREATE OR REPLACE TEMP TABLE shared_cost_pools AS
WITH pools AS (
    SELECT NULL AS rule, $split_unallocated::VARCHAR AS split, NULL AS owner, cluster, gpu_model, capacity_type, sum(unallocated_cost) AS amount
    FROM pool_consumers
    WHERE $split_unallocated::VARCHAR IS NOT NULL
    GROUP BY cluster, gpu_model, capacity_type
    UNION ALL
    SELECT r.rule, r.split, r.owner, NULL, NULL, NULL, sum(a.amount)
    FROM report_rules AS r JOIN report_billed_amounts AS a USING (rule)
    GROUP BY r.rule, r.split, r.owner
    UNION ALL
    SELECT r.rule, r.split, r.owner, NULL, NULL, NULL, sum(u.cost)
    FROM report_rules AS r JOIN pool_consumers AS u ON u.source = r.rule
    GROUP BY r.rule, r.split, r.owner
)
SELECT row_number() OVER () AS pool, * REPLACE (amount::DECIMAL(38, 9) AS amount) FROM pools WHERE amount <> 0;
