-- reads: nothing
-- writes: what rows of bills tell besides, and the discounts in what machines cost
-- invariant: what was loaded before has none of it: null

DROP VIEW charges;
ALTER TABLE bill_rows ADD COLUMN line_item_id VARCHAR;                  -- the export's own; null where it has none
ALTER TABLE bill_rows ADD COLUMN row_digest UBIGINT;                    -- of the columns of the export's row; null without a line item id
ALTER TABLE bill_rows ADD COLUMN invoice_id VARCHAR;
ALTER TABLE bill_rows ADD COLUMN cost_categories MAP(VARCHAR, VARCHAR); -- AWS cost categories, by name
ALTER TABLE bill_rows ADD COLUMN list_unit_price DECIMAL(38, 12);
ALTER TABLE bill_rows ADD COLUMN contracted_unit_price DECIMAL(38, 12);
ALTER TABLE bill_rows ADD COLUMN sku_price_id VARCHAR;
ALTER TABLE bill_rows ADD COLUMN sku_price_details VARCHAR;             -- JSON
ALTER TABLE bill_rows ADD COLUMN commitment_discount_name VARCHAR;
ALTER TABLE bill_rows ADD COLUMN commitment_discount_quantity DECIMAL(38, 12);
ALTER TABLE bill_rows ADD COLUMN commitment_discount_unit VARCHAR;

-- What loose files were, so that they are known before they are read again.
ALTER TABLE bills ADD COLUMN file_digests VARCHAR[];                    -- of each file of the load; null where a file held several
ALTER TABLE bills ADD COLUMN load_bills INTEGER;                        -- how many bills the load held

CREATE VIEW charges AS
SELECT b.provider, b.source, b.format, b.billing_period, b.is_final, r.*
FROM bill_rows AS r JOIN bills AS b USING (bill_id);

-- The part of effective_cost that rows of kind 'discount' took off (below 0), or other rows without hours added.
ALTER TABLE billed_hours ADD COLUMN discount_cost DECIMAL(38, 12) DEFAULT 0;

-- A machine as its bill spells it: keys are lower-case, a scale set's machine is its set and a number.
CREATE MACRO machine_name(instance_key, resource_id) AS
    CASE WHEN starts_with(instance_key, lower(resource_id)) THEN resource_id || instance_key[length(resource_id) + 1:] ELSE instance_key END;
