-- reads: bill_rows, bill_rows_before
-- writes: bill_rows_before (the table's temporary name), bill_lines, bill_details, bill_rows: rows of bills in two tables: columns that vary from row to row, and columns that many rows share
-- invariant: bill_rows, now a view of both, has the same rows as before
ALTER TABLE bill_rows RENAME TO bill_rows_before;

-- Rows with one batch_id were written together; detail_id refers to the details in that batch.
CREATE TABLE bill_lines AS
SELECT 0 AS batch_id, hash(*COLUMNS(* EXCLUDE (
        charge_key, charge_period_start, charge_period_end, billed_cost, effective_cost, list_cost, contracted_cost,
        pricing_quantity, consumed_quantity, instance_hours, split_cost, source_row, line_item_id, row_digest,
        list_unit_price, contracted_unit_price, commitment_discount_quantity, upfront_share))) AS detail_id,
        charge_key, charge_period_start, charge_period_end, billed_cost, effective_cost, list_cost, contracted_cost,
        pricing_quantity, consumed_quantity, instance_hours, split_cost, source_row, line_item_id, row_digest,
        list_unit_price, contracted_unit_price, commitment_discount_quantity, upfront_share
FROM bill_rows_before
ORDER BY bill_id, source_row;

CREATE TABLE bill_details AS
SELECT DISTINCT 0 AS batch_id, hash(*COLUMNS(* EXCLUDE (
        charge_key, charge_period_start, charge_period_end, billed_cost, effective_cost, list_cost, contracted_cost,
        pricing_quantity, consumed_quantity, instance_hours, split_cost, source_row, line_item_id, row_digest,
        list_unit_price, contracted_unit_price, commitment_discount_quantity, upfront_share))) AS detail_id, * EXCLUDE (
        charge_key, charge_period_start, charge_period_end, billed_cost, effective_cost, list_cost, contracted_cost,
        pricing_quantity, consumed_quantity, instance_hours, split_cost, source_row, line_item_id, row_digest,
        list_unit_price, contracted_unit_price, commitment_discount_quantity, upfront_share)
FROM bill_rows_before;

DROP TABLE bill_rows_before;

CREATE VIEW bill_rows AS
SELECT
    d.bill_id, l.charge_key, l.charge_period_start, l.charge_period_end, d.charge_category, d.charge_class,
    d.charge_frequency, d.charge_description, l.billed_cost, l.effective_cost, l.list_cost, l.contracted_cost,
    d.billing_currency, d.billing_account_id, d.sub_account_id, d.sub_account_name, d.service_name, d.service_category,
    d.region, d.zone, d.resource_id, d.resource_name, d.resource_type, d.sku_id, d.sku_description, d.instance_type,
    d.pricing_category, l.pricing_quantity, d.pricing_unit, l.consumed_quantity, d.consumed_unit, d.commitment_discount_id,
    d.commitment_discount_category, d.commitment_discount_type, d.commitment_discount_status, d.capacity_reservation_id,
    d.capacity_reservation_status, d.tags, d.kind, l.instance_hours, d.instance_key, d.cost_cause, d.split_parent_id,
    l.split_cost, d.source_file, l.source_row, l.line_item_id, l.row_digest, d.invoice_id, d.cost_categories,
    l.list_unit_price, l.contracted_unit_price, d.sku_meter, d.sku_price_id, d.sku_price_details, d.commitment_discount_name,
    l.commitment_discount_quantity, d.commitment_discount_unit, d.service_code, d.operating_system, d.tenancy,
    d.capacity_reservation_type, d.is_net, l.upfront_share
FROM bill_lines AS l
JOIN bill_details AS d USING (batch_id, detail_id);
