-- reads: nothing
-- writes: charge_lack(charge), what a mapped row lacks of what every charge has, in words, null where it lacks nothing; charge_detail, what tells charges of one charge key apart that name no resource, where their line items have ids, else null
-- invariant: what a row is (kind, cost_cause, charge_key) every mapping says; amounts of money are not in charge_detail: a charge that is restated keeps it
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

CREATE OR REPLACE TEMP MACRO charge_detail(line_item_id, resource_id, tags, zone, sku_id, sku_price_id, description, quantity) AS
    CASE WHEN line_item_id IS NOT NULL AND resource_id IS NULL
         THEN hash(CAST(tags AS VARCHAR), zone, sku_id, sku_price_id, description, quantity) END;
