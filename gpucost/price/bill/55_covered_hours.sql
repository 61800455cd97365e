-- reads: billed_hours, billed_nodes, nodes, coverage_gaps, bill_rows, bills
-- writes: billed_accounts, the accounts whose bills contain a cluster's nodes; covered_hours, for clusters with coverage gaps the hours that the bills of all their accounts cover so far
-- invariant: one row per (cluster, provider, account), and per (cluster, hour)
CREATE OR REPLACE TEMP TABLE billed_accounts AS
SELECT DISTINCT n.cluster, h.provider, h.account
FROM billed_hours AS h JOIN billed_nodes AS b USING (instance_key) JOIN nodes AS n USING (node_id);

CREATE OR REPLACE TEMP TABLE covered_hours AS
WITH accounts AS (
    FROM billed_accounts WHERE cluster IN (SELECT cluster FROM coverage_gaps WHERE kind IN ('not_collected', 'bridged'))
),
-- fees and taxes are of a whole month, even if the bill has only some of its hours so far
covered AS (
    SELECT a.cluster, a.provider, a.account, epoch_ms(min(r.charge_period_start)) // 3600000 AS from_hour, epoch_ms(max(r.charge_period_end)) // 3600000 AS to_hour
    FROM bill_rows AS r
    JOIN bills AS b USING (bill_id)
    JOIN accounts AS a ON a.provider = b.provider AND a.account IS NOT DISTINCT FROM coalesce(r.sub_account_id, r.billing_account_id)
    WHERE r.charge_category = 'Usage' AND r.kind IN ('instance', 'storage', 'network', 'other')
        AND r.charge_period_end <= r.charge_period_start + INTERVAL 1 DAY
    GROUP BY a.cluster, a.provider, a.account, b.billing_period
),
hours AS (
    SELECT cluster, provider, account, unnest(range(from_hour, to_hour)) AS hour FROM covered
)
SELECT h.cluster, h.hour
FROM hours AS h
GROUP BY h.cluster, h.hour
HAVING count(DISTINCT (h.provider, h.account)) >= (SELECT count(*) FROM accounts AS a WHERE a.cluster = h.cluster);
