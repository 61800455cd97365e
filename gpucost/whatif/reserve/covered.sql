-- reads: charges; $from_ms, $to_ms the period
-- writes: commitment_charges, what charges of commitments say of the period: hours of instances that one covers, or its unused part
-- invariant: one row per (provider, region, instance type, commitment, charge period, status); an hour billed twice is none
CREATE OR REPLACE TEMP TABLE commitment_charges AS
SELECT lower(provider) AS provider, lower(region) AS region, lower(instance_type) AS instance_type, commitment_discount_id,
    any_value(commitment_discount_type) AS commitment_type,
    epoch_ms(charge_period_start) AS from_ms, epoch_ms(charge_period_end) AS to_ms,
    coalesce(commitment_discount_status = 'Unused', false) OR kind = 'commitment_unused' AS is_unused,
    coalesce(sum(instance_hours), 0) AS instance_hours, sum(effective_cost) AS effective_cost, any_value(billing_currency) AS currency
FROM charges
-- the unused part may be billed as a purchase
WHERE commitment_discount_id IS NOT NULL AND (charge_category = 'Usage' OR kind = 'commitment_unused')
    AND epoch_ms(charge_period_start) < $to_ms AND $from_ms < epoch_ms(charge_period_end)
GROUP BY ALL;
