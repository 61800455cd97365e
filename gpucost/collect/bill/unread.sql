-- reads: charges_read (the mapped rows of one format)
-- writes: nothing; answers the first row that lacks what every charge has, and what that is
-- invariant: a row that passes can be written to bill_rows
SELECT source_file, source_row,
       CASE WHEN charge_period_start IS NULL THEN 'the start of the charge'
            WHEN charge_period_end IS NULL THEN 'the end of the charge'
            WHEN billing_period IS NULL THEN 'the billing period'
            WHEN billed_cost IS NULL THEN 'the billed cost'
            WHEN effective_cost IS NULL THEN 'the effective cost'
            WHEN billing_currency IS NULL THEN 'the currency'
            WHEN charge_category IS NULL THEN 'the category of the charge'
            WHEN provider IS NULL THEN 'the provider'
            ELSE 'what the charge is'
       END AS what
FROM charges_read
WHERE charge_period_start IS NULL OR charge_period_end IS NULL OR billing_period IS NULL OR billed_cost IS NULL
   OR effective_cost IS NULL OR billing_currency IS NULL OR charge_category IS NULL OR provider IS NULL
   OR kind IS NULL OR cost_cause IS NULL OR charge_key IS NULL
ORDER BY source_file, source_row
LIMIT 1;
