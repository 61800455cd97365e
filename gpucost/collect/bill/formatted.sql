-- reads: mapped
-- writes: charges_read (view): the mapped rows with the columns that not every mapping has: `format`, null where the mapping does not tell formats apart by content, and what a line item is known by
-- invariant: the rows of mapped, in their order
CREATE OR REPLACE TEMP VIEW charges_read AS
FROM (SELECT NULL::VARCHAR AS format, NULL::VARCHAR AS line_item_id, NULL::UBIGINT AS row_digest, NULL::VARCHAR AS sku_price_id LIMIT 0)
UNION ALL BY NAME
FROM mapped;
