-- reads: cost_rows, billed_nodes, billed_hours, bill_rows, bills; $from_ms, $to_ms bound the period
-- writes: explained_bill_rows, the charges behind the billed prices of the selected pods' nodes, numbered by machine in order of time
-- invariant: charges superseded by another export of the same time are left out; cost is in the report's currency, null without a rate
CREATE OR REPLACE TEMP TABLE explained_bill_rows AS
WITH machines AS (
    SELECT DISTINCT instance_key FROM billed_nodes WHERE node_id IN (SELECT node_id FROM cost_rows WHERE kind = 'allocated')
),
periods AS (
    SELECT h.bill_id, h.instance_key, h.from_ms, h.to_ms, h.rate
    FROM billed_hours AS h SEMI JOIN machines USING (instance_key)
    WHERE h.from_ms < $to_ms AND $from_ms < h.to_ms
)
SELECT r.instance_key, machine_name(r.instance_key, r.resource_id) AS machine, b.provider, b.billing_period, r.source_file, r.source_row, epoch_ms(r.charge_period_start) AS from_ms,
    epoch_ms(r.charge_period_end) AS to_ms, coalesce(r.charge_description, r.sku_description) AS description,
    r.instance_hours, r.effective_cost, r.billing_currency AS currency, (r.effective_cost * p.rate)::DECIMAL(38, 9) AS cost,
    row_number() OVER (PARTITION BY r.instance_key ORDER BY r.charge_period_start, r.source_file, r.source_row) AS number
FROM bill_rows AS r
JOIN bills AS b USING (bill_id)
JOIN periods AS p
    ON p.bill_id = r.bill_id AND p.instance_key = r.instance_key
    AND p.from_ms <= epoch_ms(r.charge_period_start) AND epoch_ms(r.charge_period_start) < p.to_ms
WHERE r.kind IN ('instance', 'node_fee');
