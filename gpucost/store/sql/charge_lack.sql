-- reads: nothing
-- writes: charge_lack(charge), what a mapped row lacks of what every charge has, in words; null where it lacks nothing
-- invariant: a row that lacks nothing can be written to bill_rows: what it is (kind, cost_cause, charge_key) every mapping says
CREATE OR REPLACE TEMP MACRO charge_lack(charge) AS CASE
    WHEN charge.charge_period_start IS NULL THEN 'the start of the charge'
    WHEN charge.charge_period_end IS NULL THEN 'the end of the charge'
    WHEN charge.billing_period IS NULL THEN 'the billing period'
    WHEN charge.billed_cost IS NULL THEN 'the billed cost'
    WHEN charge.effective_cost IS NULL THEN 'the effective cost'
    WHEN charge.billing_currency IS NULL THEN 'the currency'
    WHEN charge.charge_category IS NULL THEN 'the category of the charge'
    WHEN charge.provider IS NULL THEN 'the provider'
END;
