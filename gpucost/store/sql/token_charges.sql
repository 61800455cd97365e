-- reads: token_details, bill_lines, bills
-- writes: token_charges (temporary view): rows of bills for bought tokens or throughput of models, and charges that come with them
-- invariant: a row of a bill is in it at most once; cost is after discounts; tokens are null if the row does not state
-- their number
CREATE OR REPLACE TEMP VIEW token_charges AS
SELECT d.bill_id, d.provider, b.issuer, d.vendor, d.model, d.token_kind,
    CASE WHEN d.token_kind IN ('prompt', 'cached', 'generation') AND d.kind <> 'discount' THEN
        CASE -- some of Azure's exports count units of the price, others tokens
            WHEN d.provider = 'azure' AND d.format <> 'focus' AND l.effective_cost <> 0 AND l.pricing_quantity <> 0
                AND l.effective_cost / nullif(l.pricing_quantity * coalesce(l.contracted_unit_price, l.list_unit_price), 0) < 1 / sqrt(d.pricing_size) THEN l.pricing_quantity::DOUBLE
            ELSE coalesce(l.consumed_quantity::DOUBLE * d.consumed_size, l.pricing_quantity::DOUBLE * d.pricing_size) END
    END AS tokens,
    l.effective_cost + (l.effective_cost * d.discount_rate)::DECIMAL(38, 12) AS cost, d.billing_currency,
    l.charge_period_start, l.charge_period_end, d.tags, d.cost_categories, d.sub_account_id, d.sub_account_name, d.billing_account_id, d.resource_name,
    d.billing_period, d.source_file, l.source_row
FROM bill_lines AS l
JOIN token_details AS d USING (batch_id, detail_id)
JOIN bills AS b USING (bill_id);
