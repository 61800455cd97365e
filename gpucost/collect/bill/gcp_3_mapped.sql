-- reads: gcp_rows, gcp_hours, gcp_fees
-- writes: mapped (view), one charge per row of the export; returns findings about the export: level, code, message, fix
-- invariant: sum(billed_cost) is Google's bill; sum(effective_cost) differs from it only by promotions and free tier: fees move between rows and stay whole
CREATE OR REPLACE TEMP VIEW mapped AS
WITH costs AS (
    SELECT
        r.* RENAME (kind AS told_kind),
        h.instance_hours,
        coalesce(f.is_fee, false) AS is_shared_fee,
        coalesce(f.is_without_fee AND NOT f.is_fee, false) AS lacks_fee,
        CASE WHEN f.is_fee THEN 0 ELSE coalesce(f.share, 0) END AS fee_share,
        r.cost + r.usage_credits + r.other_credits AS billed_cost,
        CASE WHEN f.is_fee THEN f.share ELSE r.cost + r.usage_credits + coalesce(f.share, 0) END AS effective_cost
    FROM gcp_rows AS r
    LEFT JOIN gcp_hours AS h USING (row_id)
    LEFT JOIN gcp_fees AS f USING (row_id)
)
SELECT
    'gcp' AS provider,
    CASE WHEN regexp_matches(invoice_month, '^\d{6}$') THEN invoice_month[1:4] || '-' || invoice_month[5:6] END AS billing_period,
    NULL::BOOLEAN AS is_invoiced,
    -- Google never changes a row, but appends others. So the cost is part of the key, and a correction is a separate
    -- charge next to the corrected one. The export time is not part of it: another export of the same bill has its own.
    hash(billing_account_id, service_id, sku_id, sku, start_at, end_at, project_id, global_name, resource_name, region, tags, cost_type,
        adjustment, subscription_id, consumption_model, invoice_month, round(cost, 6)) AS charge_key,
    start_at AS charge_period_start,
    end_at AS charge_period_end,
    CASE
        WHEN cost_type = 'tax' THEN 'Tax'
        WHEN told_kind = 'credit' THEN 'Credit'
        WHEN cost_type <> 'regular' THEN 'Adjustment'
        WHEN told_kind = 'commitment_fee' THEN 'Purchase'
        ELSE 'Usage'
    END AS charge_category,
    CASE WHEN adjustment LIKE '%CORRECTION' THEN 'Correction' END AS charge_class,
    CASE WHEN told_kind = 'commitment_fee' THEN 'Recurring' WHEN cost_type = 'regular' THEN 'Usage-Based' END AS charge_frequency,
    nullif(sku, '') AS charge_description,
    billed_cost,
    effective_cost,
    cost_at_list AS list_cost,
    cost_at_contract AS contracted_cost,
    currency AS billing_currency,
    billing_account_id,
    project_id AS sub_account_id,
    project_name AS sub_account_name,
    service AS service_name,
    CASE WHEN service IN ('Compute Engine', 'Kubernetes Engine') THEN 'Compute' WHEN told_kind = 'storage' THEN 'Storage'
        WHEN told_kind = 'network' THEN 'Networking' END AS service_category,
    nullif(region, '') AS region,
    nullif(zone, '') AS zone,
    global_name AS resource_id,
    resource_name,
    nullif(regexp_extract(global_name, '/([^/]+)/[^/]+$', 1), '') AS resource_type,
    sku_id,
    nullif(sku, '') AS sku_description,
    CASE WHEN told_kind IN ('instance', 'reserved_unused') THEN machine_type END AS instance_type,
    CASE
        WHEN told_kind IN ('tax', 'credit') THEN NULL
        WHEN is_spot THEN 'Dynamic'
        WHEN told_kind = 'commitment_fee' OR resource_cud <> 0 OR spend_cud <> 0 OR coalesce(consumption_model, 'Default') <> 'Default'
        THEN 'Committed'
        ELSE 'Standard'
    END AS pricing_category,
    CAST(pricing_amount AS DECIMAL(38, 12)) AS pricing_quantity,
    pricing_unit,
    CAST(amount AS DECIMAL(38, 12)) AS consumed_quantity,
    unit AS consumed_unit,
    subscription_id AS commitment_discount_id,
    CASE
        WHEN told_kind = 'commitment_fee' THEN CASE WHEN has_offset OR regexp_matches(lower(sku), 'dollar|spend|flex') THEN 'Spend' ELSE 'Usage' END
        WHEN resource_cud <> 0 THEN 'Usage'
        WHEN spend_cud <> 0 OR coalesce(consumption_model, 'Default') <> 'Default' THEN 'Spend'
    END AS commitment_discount_category,
    CASE
        WHEN told_kind = 'commitment_fee' OR resource_cud <> 0 OR spend_cud <> 0 OR coalesce(consumption_model, 'Default') <> 'Default'
        THEN 'Committed use discount'
    END AS commitment_discount_type,
    CASE
        WHEN told_kind = 'commitment_fee' THEN CASE WHEN effective_cost <> 0 THEN 'Unused' END
        WHEN resource_cud <> 0 OR spend_cud <> 0 OR coalesce(consumption_model, 'Default') <> 'Default' THEN 'Used'
    END AS commitment_discount_status,
    reservation_name AS capacity_reservation_id,
    CASE WHEN is_unused_reservation THEN 'Unused' WHEN reservation_name IS NOT NULL THEN 'Used' END AS capacity_reservation_status,
    tags,
    hash(tags) AS label_digest,
    instance_key,
    CASE WHEN told_kind = 'commitment_fee' AND effective_cost <> 0 THEN 'commitment_unused' ELSE told_kind END AS kind,
    instance_hours,
    CASE
        -- A commitment covers all or part of it, and its fee is not in the export: the hour's cost is unknown.
        WHEN lacks_fee AND cost <> 0 THEN 'fee_missing'
        WHEN is_shared_fee AND effective_cost <> billed_cost THEN 'fee_amortized'
        WHEN fee_share <> 0 THEN 'covered_usage'
        WHEN other_credits <> 0 THEN 'promotion'
        ELSE 'same'
    END AS cost_cause,
    CAST(list_price / coalesce(nullif(units_priced, 0), 1) AS DECIMAL(38, 12)) AS list_unit_price,
    CAST(contract_price / coalesce(nullif(units_priced, 0), 1) AS DECIMAL(38, 12)) AS contracted_unit_price,
    source_file,
    file_row_number + 1 AS source_row
FROM costs;

-- Findings about the export.
SELECT 'warning' AS level, 'no_resources' AS code,
    'the export contains no machine names (resource.name, resource.global_name): costs are loaded, but cannot price nodes' AS message,
    'export the detailed usage cost data, table gcp_billing_export_resource_v1_…' AS fix
FROM gcp_rows
HAVING count(*) > 0 AND count(global_name) = 0 AND count(resource_name) = 0 AND count(*) FILTER (service = 'Compute Engine') > 0
UNION ALL
SELECT 'warning', 'fee_missing',
    count(*) || ' charges are covered, completely or partly, by a commitment without a fee in the export: their costs are too low here, and their'
        || ' machines'' hours are priced as if no bill covered them',
    'load the whole month, including the project or billing account that pays for the commitment'
FROM mapped WHERE cost_cause = 'fee_missing'
HAVING count(*) > 0
UNION ALL
SELECT 'warning', 'machine_type_unknown',
    count(DISTINCT instance_key) || if(count(DISTINCT instance_key) = 1, ' machine has', ' machines have')
        || ' no machine type in system_labels: the hours of the usage windows count', NULL
FROM mapped WHERE kind = 'instance' AND instance_type IS NULL
HAVING count(*) > 0;
