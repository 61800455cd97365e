-- reads: azure_rows
-- writes: azure_bases: the cost basis of each file, 'actual', 'amortized', or 'cost' if unknown; mapped (view), one charge per row of the export; returns findings about the export: level, code, message, fix
-- invariant: amortized cost is effective, actual cost is billed; in an amortized export, usage paid by a commitment is not billed
CREATE OR REPLACE TEMP TABLE azure_bases AS
WITH files AS (
    -- An amortized export has the unused rest of commitments, and covered usage has its share of their cost; an actual
    -- one has their purchases, and covered usage costs nothing. The file name decides only if the content does not.
    SELECT
        source_file,
        regexp_extract(source_file, '^(.*[/\\])?', 0) AS directory,
        CASE
            WHEN bool_or(charge_type LIKE 'unused%') THEN 'amortized'
            WHEN bool_or(charge_type IN ('purchase', 'refund') AND is_committed) THEN 'actual'
            WHEN bool_or(charge_type = 'usage' AND is_committed AND cost <> 0) THEN 'amortized'
            WHEN bool_or(charge_type = 'usage' AND is_committed AND cost = 0 AND quantity > 0) THEN 'actual'
            WHEN source_file ILIKE '%amortized%' THEN 'amortized'
        END AS told
    FROM azure_rows GROUP BY source_file
)
-- An export consists of several files in a directory: a part without commitments has the basis of the others.
SELECT
    source_file,
    coalesce(told, CASE WHEN count(DISTINCT told) OVER (PARTITION BY directory) = 1
        THEN max(told) OVER (PARTITION BY directory) END, 'cost') AS basis
FROM files;

CREATE OR REPLACE TEMP VIEW mapped AS
SELECT
    'azure' AS provider,
    'azure-' || b.basis AS format,
    r.billing_period,
    NULL::BOOLEAN AS is_invoiced,
    hash(r.subscription_id, r.day, r.meter_id, r.meter_category, r.meter_subcategory, r.meter_name, r.product_name, r.resource_key, r.vm_name,
        r.charge_type, r.pricing_model, r.benefit_id, r.unit) AS charge_key,
    r.day AS charge_period_start,
    r.day + INTERVAL 1 DAY AS charge_period_end,
    CASE
        WHEN r.kind = 'tax' THEN 'Tax'
        WHEN r.kind = 'credit' THEN 'Credit'
        WHEN r.charge_type = 'purchase' THEN 'Purchase'
        WHEN r.charge_type = 'refund' THEN CASE WHEN r.kind = 'commitment_fee' THEN 'Purchase' ELSE 'Adjustment' END
        WHEN r.charge_type LIKE '%adjustment' THEN 'Adjustment'
        ELSE 'Usage'
    END AS charge_category,
    CASE WHEN r.charge_type = 'refund' THEN 'Correction' END AS charge_class,
    CASE lower(r.frequency) WHEN 'onetime' THEN 'One-Time' WHEN 'recurring' THEN 'Recurring' WHEN 'usagebased' THEN 'Usage-Based' END AS charge_frequency,
    nullif(concat_ws(' - ', nullif(r.product_name, ''), nullif(r.meter_name, '')), '') AS charge_description,
    CASE WHEN b.basis = 'amortized' AND r.is_of_commitment THEN 0 WHEN r.is_blank THEN 0 ELSE r.cost END AS billed_cost,
    CASE WHEN r.is_blank THEN 0 ELSE r.cost END AS effective_cost,
    r.payg_cost AS list_cost,
    NULL::DECIMAL(38, 12) AS contracted_cost,
    upper(r.currency) AS billing_currency,
    r.billing_account_id,
    r.subscription_id AS sub_account_id,
    r.subscription_name AS sub_account_name,
    nullif(r.meter_category, '') AS service_name,
    nullif(r.service_family, '') AS service_category,
    r.region,
    r.zone,
    r.resource_id,
    coalesce(r.resource_name, nullif(regexp_extract(r.resource_id, '([^/]+)$', 1), '')) AS resource_name,
    coalesce(r.resource_type, nullif(regexp_extract(r.resource_id, '/providers/([^/]+/[^/]+)/', 1, 'i'), '')) AS resource_type,
    r.meter_id AS sku_id,
    nullif(r.meter_name, '') AS sku_meter,
    nullif(concat_ws(' ', nullif(r.meter_subcategory, ''), nullif(r.meter_name, '')), '') AS sku_description,
    CASE WHEN r.kind IN ('instance', 'commitment_unused', 'reserved_unused') THEN r.vm_size END AS instance_type,
    CASE
        WHEN r.kind IN ('tax', 'credit') THEN NULL
        WHEN r.is_spot THEN 'Dynamic'
        WHEN r.is_of_commitment THEN 'Committed'
        ELSE 'Standard'
    END AS pricing_category,
    CAST(r.quantity AS DECIMAL(38, 12)) AS pricing_quantity,
    r.unit AS pricing_unit,
    CAST(r.quantity AS DECIMAL(38, 12)) AS consumed_quantity,
    r.unit AS consumed_unit,
    r.benefit_id AS commitment_discount_id,
    CASE WHEN r.is_of_commitment THEN CASE WHEN r.pricing_model = 'savingsplan' OR r.charge_type = 'unusedsavingsplan' THEN 'Spend' ELSE 'Usage' END END
        AS commitment_discount_category,
    CASE WHEN r.is_of_commitment THEN CASE WHEN r.pricing_model = 'savingsplan' OR r.charge_type = 'unusedsavingsplan' THEN 'Savings Plan' ELSE 'Reservation' END END
        AS commitment_discount_type,
    CASE WHEN r.kind = 'commitment_unused' THEN 'Unused' WHEN r.is_of_commitment AND r.charge_type = 'usage' THEN 'Used' END
        AS commitment_discount_status,
    CASE WHEN r.kind = 'reserved_unused' THEN r.resource_id END AS capacity_reservation_id,
    CASE WHEN r.kind = 'reserved_unused' THEN 'Unused' END AS capacity_reservation_status,
    r.tags,
    hash(r.tags) AS label_digest,
    r.instance_key,
    r.kind,
    r.instance_hours,
    CASE
        WHEN b.basis = 'amortized' AND r.kind = 'commitment_unused' AND r.cost <> 0 THEN 'commitment_unused'
        WHEN b.basis = 'amortized' AND r.is_of_commitment AND r.cost <> 0 THEN 'covered_usage'
        -- Actual cost charges nothing for covered machines, like an export without prices: that is not a price.
        WHEN r.kind = 'instance' AND coalesce(r.cost, 0) = 0 AND lower(r.meter_category) NOT LIKE '%licen%' THEN 'zero_unexplained'
        ELSE 'same'
    END AS cost_cause,
    r.invoice_id,
    r.list_price AS list_unit_price,
    r.contract_price AS contracted_unit_price,
    r.product_id AS sku_price_id,
    r.benefit_name AS commitment_discount_name,
    CASE WHEN r.is_of_commitment AND r.charge_type IN ('usage', 'unusedreservation') THEN CAST(r.quantity AS DECIMAL(38, 12)) END
        AS commitment_discount_quantity,
    CASE WHEN r.is_of_commitment AND r.charge_type IN ('usage', 'unusedreservation') THEN r.unit END AS commitment_discount_unit,
    r.source_file,
    r.file_row_number + 1 AS source_row
FROM azure_rows AS r JOIN azure_bases AS b USING (source_file);

-- Findings about the export.
SELECT 'warning' AS level, 'actual_only' AS code,
    count(*) || ' charges of machines cost nothing, because commitments cover them: actual cost alone cannot price these machines' AS message,
    'also export amortized cost and load it: it replaces the actual cost of those days' AS fix
FROM mapped WHERE format = 'azure-actual' AND commitment_discount_status = 'Used' AND cost_cause = 'zero_unexplained'
HAVING count(*) > 0
UNION ALL
SELECT 'warning', 'no_cost', count(*) || ' rows have no cost; they count as 0', NULL FROM azure_rows WHERE is_blank HAVING count(*) > 0
UNION ALL
SELECT 'note', 'scale_set',
    count(*) || ' charges name only a scale set: their cost is spread over the hours of its nodes', NULL
FROM mapped WHERE kind = 'instance' AND regexp_matches(instance_key, '/virtualmachinescalesets/[^/]+$') HAVING count(*) > 0
UNION ALL
SELECT 'note', 'no_quantity',
    count(*) || ' charges of machines have no quantity: they count for the hours that their nodes were up', NULL
FROM mapped WHERE kind = 'instance' AND instance_hours IS NULL AND effective_cost <> 0 AND NOT coalesce(service_name ILIKE '%licen%', false)
HAVING count(*) > 0;
