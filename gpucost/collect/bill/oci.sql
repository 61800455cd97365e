-- reads: raw (an OCI cost report in either form as text), the variable currency
-- writes: mapped (view): charges
-- invariant: one charge per row; cost is OCI's billed cost, including overage; an hour of a machine is counted once, on the rows of its GPUs, or of its cores without GPUs
CREATE OR REPLACE TEMP VIEW mapped AS
WITH typed AS (
    SELECT coalesce(line_item_reference_no, oci_reference_number) AS line_item_id,
           row_digest,
           line_item_interval_usage_start IS NOT NULL AS is_classic,
           bill_moment(coalesce(line_item_interval_usage_start, charge_period_start)) AS starts,
           bill_moment(coalesce(line_item_interval_usage_end, charge_period_end)) AS ends,
           strftime(CASE WHEN is_classic THEN starts ELSE bill_moment(billing_period_start) END, '%Y-%m') AS billing_period,
           CASE WHEN is_classic THEN 'Usage' ELSE raw.charge_category END AS charge_category,
           CASE WHEN raw.charge_class = 'Correction' OR lower(line_item_is_correction) = 'true'
                     OR coalesce(line_item_backreference_no, oci_back_reference_number) IS NOT NULL THEN 'Correction' END AS charge_class,
           CASE WHEN is_classic THEN 'Usage-Based' ELSE raw.charge_frequency END AS charge_frequency,
           coalesce(product_description, charge_description) AS description,
           bill_decimal(coalesce(cost_my_cost, billed_cost)) AS cost,
           -- The report does not amortize.
           CASE WHEN effective_cost IS NULL THEN cost ELSE bill_decimal(effective_cost) END AS effective,
           bill_decimal(raw.list_cost) AS list_cost,
           coalesce(cost_currency_code, billing_currency, getvariable('currency')) AS currency,
           coalesce(cost_subscription_id, line_item_tenant_id, raw.billing_account_id) AS billing_account_id,
           coalesce(line_item_tenant_id, raw.sub_account_id) AS sub_account_id,
           sub_account_name,
           coalesce(product_compartment_name, oci_compartment_name) AS compartment,
           coalesce(product_service, service_name) AS service,
           service_category,
           coalesce(product_region, raw.region) AS region,
           coalesce(product_availability_domain, availability_zone) AS zone,
           coalesce(product_resource_id, raw.resource_id) AS resource_id,
           resource_name,
           coalesce(cost_product_sku, raw.sku_id) AS sku_id,
           coalesce(bill_decimal(usage_billed_quantity), bill_decimal(usage_quantity),
                    bill_decimal(pricing_quantity)) AS quantity,
           coalesce(cost_billing_unit_readable, usage_unit, pricing_unit) AS unit,
           pricing_category,
           commitment_discount_id, commitment_discount_category, commitment_discount_type, commitment_discount_name,
           invoice_id,
           bill_decimal(raw.list_unit_price) AS list_unit_price,
           bill_decimal(cost_unit_price) AS contracted_unit_price,
           sku_price_id,
           coalesce(TRY_CAST(TRY_CAST(raw.tags AS JSON) AS MAP(VARCHAR, VARCHAR)), tag_columns) AS tags,
           CASE WHEN is_classic THEN raw.label_digest ELSE hash(raw.tags) END AS label_digest,
           source_file,
           file_row_number
    FROM raw
), parted AS (
    SELECT *,
           lower(concat_ws(' ', service, description)) AS words,
           contains(resource_id, '.instance.') AS is_on_machine,
           -- Licenses are charged by cores, too, in addition to the machine.
           CASE WHEN NOT contains(lower(unit), 'hour') OR regexp_matches(words, 'windows|licen[sc]e|\brhel\b|red hat') THEN NULL
                WHEN regexp_matches(lower(concat_ws(' ', unit, description)), '\bgpus?\b') THEN 1
                WHEN regexp_matches(lower(concat_ws(' ', unit, description)), '\b[oe]cpus?\b') THEN 2
           END AS part,
           epoch(ends - starts) / 3600 AS span
    FROM typed
), told AS (
    SELECT *,
           CASE WHEN charge_category = 'Tax' THEN 'tax'
                WHEN charge_category = 'Credit' THEN 'credit'
                WHEN charge_category = 'Adjustment' AND cost < 0 THEN 'refund'
                WHEN words LIKE '%support%' AND NOT coalesce(is_on_machine, false) THEN 'support'
                WHEN charge_category = 'Purchase' AND commitment_discount_id IS NOT NULL THEN 'commitment_fee'
                WHEN charge_category <> 'Usage' THEN 'other'
                WHEN regexp_matches(words, 'outbound|data transfer|load balancer|fastconnect|\bvpn\b|network') THEN 'network'
                WHEN regexp_matches(words, 'storage|block volume|boot volume') THEN 'storage'
                WHEN is_on_machine AND regexp_matches(words, '^compute\b|\bcompute\b') THEN 'instance'
                ELSE 'other'
           END AS kind
    FROM parted
), clocked AS (
    SELECT *,
           kind = 'instance' AND part = min(part) OVER (PARTITION BY kind, resource_id) AS is_clock,
           -- Neither form contains a machine's number of GPUs or cores: use the maximum charged in an hour.
           max(CASE WHEN charge_class IS NULL THEN quantity::DOUBLE / nullif(span, 0) END) OVER (PARTITION BY kind, resource_id, part) AS units
    FROM told
)
SELECT 'oci' AS provider,
       billing_period,
       NULL::BOOLEAN AS is_invoiced,
       hash(starts, ends, charge_category, charge_class, service, sku_id, description, unit, compartment, commitment_discount_id,
            coalesce(resource_id, concat_ws(' ', billing_account_id, sub_account_id))) AS charge_key,
       starts AS charge_period_start,
       ends AS charge_period_end,
       charge_category, charge_class, charge_frequency,
       description AS charge_description,
       cost AS billed_cost,
       effective AS effective_cost,
       list_cost,
       currency AS billing_currency,
       billing_account_id, sub_account_id, sub_account_name,
       service AS service_name,
       coalesce(service_category, CASE kind WHEN 'instance' THEN 'Compute' WHEN 'storage' THEN 'Storage' WHEN 'network' THEN 'Networking' END)
           AS service_category,
       region, zone, resource_id, resource_name,
       nullif(regexp_extract(resource_id, '^ocid1\.([^.]+)\.', 1), '') AS resource_type,
       sku_id,
       description AS sku_description,
       pricing_category,
       quantity AS pricing_quantity,
       unit AS pricing_unit,
       quantity AS consumed_quantity,
       unit AS consumed_unit,
       commitment_discount_id, commitment_discount_category, commitment_discount_type, commitment_discount_name,
       map_from_entries(list_filter(map_entries(tags), lambda tag: coalesce(tag.value, '') <> '')) AS tags,
       label_digest,
       kind,
       CASE WHEN kind = 'instance' THEN lower(resource_id) END AS instance_key,
       CASE WHEN is_clock THEN quantity::DOUBLE / nullif(units, 0) END AS instance_hours,
       CASE WHEN effective = cost THEN 'same' ELSE 'stated_by_export' END AS cost_cause,
       line_item_id,
       row_digest,
       invoice_id,
       list_unit_price, contracted_unit_price, sku_price_id,
       source_file,
       file_row_number + 1 AS source_row
FROM clocked;
