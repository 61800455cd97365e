-- reads: bill_rows, bills, loose_discounts
-- writes: discounted_charges, what discounts that name no machine may be taken off, of the bills that hold any: usage by kind, at its cost, and fees of commitments by charge period, as billed
-- invariant: no cost is after discounts; is_upfront of fees that are amortized over months
CREATE OR REPLACE TEMP TABLE discounted_charges AS
SELECT b.provider, b.billing_period, r.bill_id, r.billing_currency AS currency, bearer_of(r) AS commitment,
    CASE WHEN commitment_of(r) IS NOT NULL THEN r.charge_period_start END AS starts, CASE WHEN commitment_of(r) IS NOT NULL THEN r.charge_period_end END AS ends,
    coalesce(r.service_code, r.service_name) AS service, coalesce(r.sub_account_id, r.billing_account_id) AS account, r.sku_description,
    -- a block's fee is of its own bill's hours
    starts IS NOT NULL AND coalesce(r.charge_frequency = 'One-Time', false) AND r.capacity_reservation_type IS NULL AS is_upfront,
    sum(CASE WHEN starts IS NULL THEN r.effective_cost ELSE r.billed_cost END) AS cost
FROM bill_rows AS r
JOIN bills AS b USING (bill_id)
WHERE (b.provider, b.billing_period) IN (SELECT (provider, billing_period) FROM loose_discounts)
    AND r.kind NOT IN ('discount', 'credit', 'refund', 'tax', 'split') AND NOT coalesce(r.is_net, false)
    AND (commitment_of(r) IS NULL OR r.charge_category = 'Purchase')
GROUP BY ALL;
