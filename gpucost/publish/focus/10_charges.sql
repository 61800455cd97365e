-- reads: bill_rows, machine_riders, bills, billed_hours, api_charges; $month the billing period
-- writes: focus_charges, the charges of machines with GPUs in the bills of the billing period, each with its machine's charge period, and the charges for bought tokens in the same form
-- invariant: each charge is in it once; if exports of two formats cover a machine's time, only the pricing export counts
CREATE OR REPLACE TEMP TABLE focus_charges AS
WITH charges AS (
    SELECT h.from_ms, h.to_ms, r.*
    FROM bill_rows AS r
    JOIN billed_hours AS h ON h.bill_id = r.bill_id AND h.instance_key = r.instance_key AND h.currency = r.billing_currency
        AND h.from_ms <= epoch_ms(r.charge_period_start) AND epoch_ms(r.charge_period_start) < h.to_ms
    WHERE r.kind = 'instance'
    UNION ALL BY NAME
    -- discounts and fees on a machine have periods of their own: an hour, or the month
    SELECT epoch_ms(r.charge_period_start) AS from_ms, epoch_ms(r.charge_period_end) AS to_ms, r.* EXCLUDE (batch_id, detail_id)
    FROM machine_riders AS r
    SEMI JOIN billed_hours AS h ON h.bill_id = r.bill_id AND h.instance_key = r.instance_key AND h.currency = r.billing_currency
        AND h.from_ms < epoch_ms(r.charge_period_end) AND epoch_ms(r.charge_period_start) < h.to_ms
    UNION ALL BY NAME
    SELECT a.start_ms AS from_ms, a.end_ms AS to_ms, r.* REPLACE ('api' AS kind, 'api ' || a.charge_id AS instance_key)
    FROM api_charges AS a JOIN bill_rows AS r USING (bill_id, source_file, source_row)
    WHERE NOT a.is_repeated
)
SELECT row_number() OVER (ORDER BY b.provider, b.source, c.charge_period_start, c.source_file, c.source_row, c.charge_key, c.bill_id) AS charge_id,
    b.provider, b.billing_period, coalesce(c.billing_account_id, nullif(b.billing_account_id, ''), c.sub_account_id, b.provider) AS payer, c.*
FROM charges AS c JOIN bills AS b USING (bill_id)
WHERE b.billing_period = $month;
