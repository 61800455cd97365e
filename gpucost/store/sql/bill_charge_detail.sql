-- reads: nothing
-- writes: the macro charge_detail: what tells charges of one charge key apart that name no resource, where their line items have ids; else null
-- invariant: amounts of money are not in it: a charge that is restated keeps it
CREATE OR REPLACE TEMP MACRO charge_detail(line_item_id, resource_id, tags, zone, sku_id, sku_price_id, description, quantity) AS
    CASE WHEN line_item_id IS NOT NULL AND resource_id IS NULL
         THEN hash(CAST(tags AS VARCHAR), zone, sku_id, sku_price_id, description, quantity) END;
