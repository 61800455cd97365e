-- reads: raw (FOCUS cost and usage rows as text), the variable currency; charges_read (the same rows, mapped)
-- writes: focus_facts: whether the file contains invoices, as in FOCUS since 1.2; focus_commitment (macro): the commitment of an id; focus_commitments: for each commitment, the cost on its usage, whether that includes its purchases, its total cost (null with only refunds here), and its refunds; mapped (view): charges; returns findings about the export: level, code, message, fix
-- invariant: one charge per row; billed and effective cost are the file's own, with two exceptions: purchases that usage already includes cost nothing, and refunds take back at most their commitment's cost here, if known
CREATE OR REPLACE TEMP TABLE focus_facts AS
SELECT count(invoice_id) > 0 AS tells_invoices
FROM raw;

-- Azure charges purchases to the order and usage to the ordered item.
CREATE OR REPLACE TEMP MACRO focus_commitment(id) AS regexp_extract(lower(id), '^(.*/(reservation|savingsplan)orders/[^/]+|.*)', 1);
CREATE OR REPLACE TEMP TABLE focus_commitments AS
SELECT commitment, sum(cost) FILTER (charge_category = 'Usage') AS used, sum(cost) FILTER (charge_category = 'Purchase' AND cost >= 0) AS bought,
       -sum(cost) FILTER (charge_category IN ('Purchase', 'Adjustment') AND cost < 0) AS returned,
       -- Usage includes a purchase if it costs as much; Azure's export has both, for a term whose usage spans many
       -- months.
       used > 0 AND (commitment LIKE '%/microsoft.%' OR used >= greatest(bought, 0)) AS is_borne,
       CASE WHEN is_borne THEN used ELSE bought + greatest(used, 0) END AS commitment_cost
FROM (
    SELECT focus_commitment(commitment_discount_id) AS commitment, charge_category, bill_decimal(effective_cost) AS cost
    FROM raw
)
GROUP BY commitment;

CREATE OR REPLACE TEMP VIEW mapped AS
WITH typed AS (
    SELECT *,
           bill_moment(charge_period_start) AS starts,
           bill_moment(charge_period_end) AS ends,
           bill_decimal(billed_cost) AS billed,
           bill_decimal(effective_cost) AS stated,
           CASE WHEN charge_category = 'Purchase' AND stated > 0 AND is_borne THEN 0
                WHEN charge_category IN ('Purchase', 'Adjustment') AND stated < 0 AND commitment_cost < returned
                    THEN (stated * (commitment_cost / returned))::DECIMAL(38, 12)
                ELSE stated END AS effective,
           lower(coalesce(consumed_unit, pricing_unit, '')) AS unit,
           coalesce(bill_decimal(consumed_quantity), bill_decimal(pricing_quantity)) AS quantity,
           lower(concat_ws(' ', x_usage_type, x_sku_meter_name, sku_meter, charge_description)) AS words,
           regexp_matches(unit, '^(1 )?h(ou)?rs?$|instance.?hours?') AS in_hours,
           TRY_CAST(sku_price_details AS JSON) AS price_details,
           TRY_CAST(x_sku_details AS JSON) AS sku_details,
           coalesce(
               x_gpucost_instance_type,
               x_instance_type,
               price_details ->> '$.InstanceType',
               sku_details ->> '$.InstanceType',
               -- Azure's, in the price's details since FOCUS 1.2.
               nullif(coalesce(price_details ->> '$.x_ServiceType', sku_details ->> '$.ServiceType'), ''),
               nullif(regexp_extract(x_usage_type, '(?:BoxUsage|SpotUsage|DedicatedUsage|UnusedBox|UnusedDed):(.+)$', 1), '')
           ) AS machine,
           coalesce(service_category, '') = 'Compute'
               AND (service_subcategory IN ('Virtual Machines', 'Servers')
                    OR regexp_matches(lower(coalesce(resource_type, '')), 'instance|virtual ?machine|bare ?metal|server')
                    OR regexp_matches(coalesce(resource_id, ''), '(^|[:/])i-[0-9a-f]+$|/instances/|/virtualmachines/', 'i')
                    OR coalesce(x_usage_type, '') ~ '.*(BoxUsage|SpotUsage|DedicatedUsage):.*') AS of_machine
    FROM raw LEFT JOIN focus_commitments ON commitment = focus_commitment(commitment_discount_id)
), told AS (
    SELECT *,
           CASE WHEN x_gpucost_charge_kind IN ('instance', 'discount', 'node_fee', 'other') THEN x_gpucost_charge_kind
                WHEN charge_category = 'Tax' THEN 'tax'
                WHEN charge_category = 'Credit' THEN 'credit'
                WHEN charge_category = 'Adjustment' AND billed < 0 THEN 'refund'
                WHEN lower(coalesce(service_name, '')) LIKE '%support%' THEN 'support'
                WHEN charge_category = 'Purchase' AND commitment_discount_id IS NOT NULL THEN 'commitment_fee'
                WHEN charge_category <> 'Usage' THEN 'other'
                WHEN capacity_reservation_status = 'Unused' OR coalesce(x_usage_type, '') ~ '.*(UnusedBox|UnusedDed).*'
                    THEN 'reserved_unused'
                WHEN commitment_discount_status = 'Unused' THEN 'commitment_unused'
                WHEN service_category = 'Storage' OR words LIKE '%ebs:%' OR words LIKE '%storage%' OR words LIKE '%snapshot%'
                    THEN 'storage'
                WHEN service_category = 'Networking' OR words LIKE '%data transfer%' OR words LIKE '%datatransfer%'
                     OR words LIKE '%egress%'
                    THEN 'network'
                WHEN of_machine AND in_hours AND words NOT LIKE '%license%' AND words NOT LIKE '%ip address%'
                     AND coalesce(resource_type, '') NOT IN ('Compute Fleet')
                    THEN 'instance'
                ELSE 'other'
           END AS kind
    FROM typed
)
SELECT focus_provider(service_provider_name, provider_name, publisher_name, invoice_issuer_name) AS provider,
       nullif(focus_provider(invoice_issuer_name, NULL, NULL, NULL), provider) AS issuer,
       strftime(bill_moment(billing_period_start), '%Y-%m') AS billing_period,
       CASE WHEN tells_invoices THEN invoice_id IS NOT NULL END AS is_invoiced,
       -- Identifies the charge without its amounts. Charges without a resource are distinguished by account.
       hash(starts, ends, charge_category, charge_class, service_name, sku_id, sku_price_id, charge_description, x_usage_type,
            x_operation, commitment_discount_id, commitment_discount_status,
            coalesce(resource_id, billing_account_id || ' ' || coalesce(sub_account_id, ''))) AS charge_key,
       starts AS charge_period_start,
       ends AS charge_period_end,
       charge_category, charge_class, charge_frequency, charge_description,
       billed AS billed_cost,
       effective AS effective_cost,
       bill_decimal(list_cost) AS list_cost,
       bill_decimal(contracted_cost) AS contracted_cost,
       coalesce(billing_currency, getvariable('currency')) AS billing_currency, billing_account_id,
       -- An Azure subscription, named as in Azure's own exports.
       CASE provider WHEN 'azure' THEN regexp_replace(lower(sub_account_id), '^\s*/subscriptions/', '') ELSE sub_account_id END AS sub_account_id,
       sub_account_name, service_name, service_category,
       region_id AS region,
       availability_zone AS zone,
       resource_id, resource_name, resource_type, sku_id,
       coalesce(sku_meter, x_sku_meter_name, x_usage_type) AS sku_meter,
       coalesce(charge_description, x_sku_meter_name, sku_meter) AS sku_description,
       CASE WHEN kind IN ('instance', 'reserved_unused') THEN machine END AS instance_type,
       pricing_category,
       bill_decimal(pricing_quantity) AS pricing_quantity,
       pricing_unit,
       bill_decimal(consumed_quantity) AS consumed_quantity,
       consumed_unit, commitment_discount_id, commitment_discount_category, commitment_discount_type, commitment_discount_status,
       capacity_reservation_id, capacity_reservation_status,
       TRY_CAST(TRY_CAST(tags AS JSON) AS MAP(VARCHAR, VARCHAR)) AS tags,
       TRY_CAST(TRY_CAST(x_cost_categories AS JSON) AS MAP(VARCHAR, VARCHAR)) AS cost_categories,
       hash(told.tags, x_cost_categories) AS label_digest,
       kind,
       -- As in Kubernetes' provider ids: i-…, project/zone/name, an Azure resource id; otherwise the resource's own id.
       CASE WHEN x_gpucost_instance_key IS NOT NULL THEN lower(x_gpucost_instance_key)
            WHEN kind IN ('instance', 'storage', 'network') AND of_machine
            THEN lower(CASE WHEN regexp_matches(resource_id, '(^|/)i-[0-9a-fA-F]+$')
                                THEN regexp_extract(resource_id, '(^|/)(i-[0-9a-fA-F]+)$', 2)
                            WHEN regexp_matches(resource_id, 'projects/[^/]+/(zones/[^/]+/)?instances/[^/]+$')
                                THEN concat_ws('/', regexp_extract(resource_id, 'projects/([^/]+)', 1),
                                               coalesce(nullif(regexp_extract(resource_id, 'zones/([^/]+)', 1), ''),
                                                        availability_zone),
                                               regexp_extract(resource_id, 'instances/([^/]+)$', 1))
                            ELSE azure_machine(lower(resource_id), nullif(lower(coalesce(price_details ->> '$.x_VMName', sku_details ->> '$.VMName')), ''))
                       END)
       END AS instance_key,
       CASE WHEN x_gpucost_charge_kind IS NOT NULL THEN TRY_CAST(x_gpucost_instance_hours AS DOUBLE)
            WHEN kind IN ('instance', 'reserved_unused') AND in_hours THEN quantity::DOUBLE END AS instance_hours,
       CASE WHEN kind = 'instance' AND effective = 0 AND coalesce(bill_decimal(list_cost), 1) <> 0
                 AND charge_class IS NULL AND commitment_discount_id IS NULL AND capacity_reservation_id IS NULL
                THEN 'zero_unexplained'
            WHEN effective = billed THEN 'same'
            WHEN charge_category = 'Purchase' AND effective = 0 THEN 'fee_amortized'
            WHEN kind = 'commitment_unused' THEN 'commitment_unused'
            WHEN kind = 'reserved_unused' THEN 'reserved_unused'
            WHEN commitment_discount_id IS NOT NULL THEN 'covered_usage'
            WHEN kind IN ('tax', 'credit', 'refund') THEN 'amortized_' || kind
            WHEN effective = round(effective) AND abs(effective - billed) < 1 THEN 'rounded_by_export'
            ELSE 'stated_by_export'
       END AS cost_cause,
       invoice_id,
       bill_decimal(list_unit_price) AS list_unit_price,
       bill_decimal(contracted_unit_price) AS contracted_unit_price,
       sku_price_id,
       sku_price_details,
       commitment_discount_name,
       bill_decimal(commitment_discount_quantity) AS commitment_discount_quantity,
       commitment_discount_unit,
       source_file,
       file_row_number + 1 AS source_row
FROM told
CROSS JOIN focus_facts;

-- Findings about the export.
SELECT 'warning' AS level, 'zero_unexplained' AS code,
       count(*) || ' charges of running instances cost nothing, and the file does not explain it (first: ' || min(resource_id) || ')' AS message,
       'contact the provider, or add the price to the price book' AS fix
FROM charges_read
WHERE cost_cause = 'zero_unexplained'
HAVING count(*) > 0
UNION ALL
SELECT 'warning', 'rounded_by_export',
       count(*) || ' effective costs are whole numbers, but their billed costs are not: the program that wrote the file rounded them',
       'get the file from the provider itself'
FROM charges_read
WHERE cost_cause = 'rounded_by_export'
HAVING count(*) > 0
UNION ALL
SELECT 'warning', 'commitment_alone',
       'purchases and refunds of ' || commitment || ' keep their effective cost: the usage that may include it is not in these files',
       'load them together with the files of that usage'
FROM focus_commitments
WHERE used IS NULL AND coalesce(bought, returned) > 0 AND commitment IS NOT NULL;
