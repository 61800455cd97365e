-- reads: bill_rows, bills
-- writes: loose_discounts (view): rows of kind discount that name no machine, each with what it names instead: a commitment and the charge period of its fee, unused capacity, or a kind of usage
-- invariant: what discounts a volume, say, is none of them; is_beside of what discounts a kind of storage or traffic
CREATE OR REPLACE TEMP VIEW loose_discounts AS
SELECT b.provider, b.billing_period, r.bill_id, r.billing_currency AS currency,
    coalesce(commitment_of(r), CASE WHEN u.resource_id IS NOT NULL THEN r.resource_id END) AS commitment,
    CASE WHEN commitment IS NOT NULL THEN r.charge_period_start END AS starts, CASE WHEN commitment IS NOT NULL THEN r.charge_period_end END AS ends,
    coalesce(r.service_code, r.service_name) AS service, coalesce(r.sub_account_id, r.billing_account_id) AS account, r.sku_description,
    r.sku_description IS NULL AND coalesce(r.billing_account_id = account, false) AS is_payers,
    coalesce(r.service_category IN ('Storage', 'Networking'), false) AS is_beside, r.effective_cost, r.source_file, r.source_row
FROM bill_rows AS r
JOIN bills AS b USING (bill_id)
LEFT JOIN (SELECT DISTINCT bill_id, resource_id FROM bill_rows WHERE kind = 'reserved_unused') AS u ON u.bill_id = r.bill_id AND u.resource_id = r.resource_id
WHERE r.kind = 'discount' AND r.effective_cost <> 0 AND r.instance_key IS NULL
    -- not of a volume, say
    AND (r.resource_id IS NULL OR NOT is_beside AND (commitment_of(r) IS NOT NULL OR u.resource_id IS NOT NULL));
