-- reads: loose_discounts, borne_discounts
-- writes: amortized_discounts (stored): of rows of kind discount, what upfront fees bear, spread as these are
-- invariant: one row per row of a bill; its whole cost at most
DELETE FROM amortized_discounts;
INSERT INTO amortized_discounts BY NAME
SELECT d.bill_id, d.source_file, d.source_row, (d.effective_cost * b.upfront_share)::DECIMAL(38, 12) AS amortized_cost
FROM loose_discounts AS d
JOIN (FROM borne_discounts WHERE upfront_share > 0) AS b ON b.bill_id = d.bill_id AND b.currency = d.currency AND b.commitment IS NOT DISTINCT FROM d.commitment
    AND b.starts IS NOT DISTINCT FROM d.starts AND b.ends IS NOT DISTINCT FROM d.ends AND b.service IS NOT DISTINCT FROM d.service
    AND b.account IS NOT DISTINCT FROM d.account AND b.sku_description IS NOT DISTINCT FROM d.sku_description AND b.is_payers = d.is_payers AND b.is_beside = d.is_beside;
