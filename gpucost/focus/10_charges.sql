-- reads: bill_rows, bills, billed_hours; $month the billing period
-- writes: focus_charges, the charges of machines with GPUs in the bills of the billing period, each with its machine's charge period
-- invariant: a charge is there once; where exports of two formats tell of a machine's time, only the one that prices it
CREATE OR REPLACE TEMP TABLE focus_charges AS
SELECT row_number() OVER (ORDER BY b.provider, b.source, r.charge_period_start, r.source_file, r.source_row, r.charge_key, r.bill_id) AS charge_id,
    b.provider, b.billing_period, coalesce(r.billing_account_id, nullif(b.billing_account_id, ''), r.sub_account_id, b.provider) AS payer,
    h.from_ms, h.to_ms, r.*
FROM bill_rows AS r
JOIN bills AS b USING (bill_id)
JOIN billed_hours AS h ON h.bill_id = r.bill_id AND h.instance_key = r.instance_key AND h.currency = r.billing_currency
    AND h.from_ms <= epoch_ms(r.charge_period_start) AND epoch_ms(r.charge_period_start) < h.to_ms
WHERE b.billing_period = $month AND r.kind = 'instance';
