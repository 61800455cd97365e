-- reads: cur_costs, cur_facts, moved_costs, discount_shares, raw, charges_read (the same rows, mapped), bill_details
-- writes: mapped (view): charges; returns findings about the export: level, code, message, fix
-- invariant: one charge per row; billed cost is the unblended cost, which sums to the invoice; effective cost follows the rules below
CREATE OR REPLACE TEMP VIEW mapped AS
WITH ruled AS (
    SELECT c.*, n.has_net, n.tells_invoices, b.share,
           CASE WHEN b.share IS NULL THEN NULL WHEN line_type = 'Refund' THEN 'fee_amortized' WHEN host_pool IS NULL THEN 'capacity_block'
                ELSE 'dedicated_host' END AS cause,
           CASE
               -- Split rows determine shares; their parent's row already has their cost.
               WHEN is_split THEN 0
               -- The cost of a Capacity Block's fee is on the reserved hours, a host's on its instances, a refund's on
               -- the refunded rows.
               WHEN b.share IS NOT NULL THEN b.share
               -- Discounts that net costs of other rows include are not subtracted again.
               WHEN is_discount THEN coalesce(net, (gross * coalesce(d.share, 1))::DECIMAL(38, 12))
               ELSE amortized
           END AS effective,
           CASE WHEN is_split THEN 0 ELSE unblended END AS billed,
           CASE WHEN line_item_usage_type LIKE '%Bytes%' OR line_item_usage_type LIKE '%NatGateway%'
                     OR line_item_usage_type LIKE '%IPv4%' OR line_item_usage_type LIKE '%ElasticIP%'
                     OR line_item_usage_type LIKE '%VpcEndpoint%' OR line_item_usage_type LIKE '%LoadBalancer%'
                     OR line_item_usage_type LIKE '%LCUUsage%' OR product_product_family ILIKE 'data transfer'
                    THEN 'network'
                WHEN line_item_usage_type LIKE '%EBS:%' OR line_item_usage_type LIKE '%TimedStorage%'
                     OR product_product_family ILIKE 'storage%'
                    THEN 'storage'
           END AS beside
    FROM cur_costs AS c
    CROSS JOIN cur_facts AS n
    LEFT JOIN moved_costs AS b USING (source_file, file_row_number)
    LEFT JOIN discount_shares AS d USING (source_file, file_row_number)
), told AS (
    SELECT *,
           CASE WHEN is_split THEN 'split'
                WHEN line_type = 'Tax' THEN 'tax'
                WHEN line_type = 'Refund' THEN 'refund'
                WHEN line_type = 'Credit' THEN 'credit'
                WHEN is_discount THEN 'discount'
                WHEN line_item_product_code ILIKE '%support%' THEN 'support'
                WHEN line_type IN ('SavingsPlanRecurringFee', 'RIFee') AND effective <> 0 THEN 'commitment_unused'
                WHEN line_type IN ('SavingsPlanRecurringFee', 'RIFee', 'SavingsPlanUpfrontFee', 'SavingsPlanNegation')
                     OR (line_type = 'Fee' AND (of_block OR commitment IS NOT NULL))
                    THEN 'commitment_fee'
                WHEN is_reserved_unused THEN 'reserved_unused'
                WHEN is_instance THEN 'instance'
                WHEN is_node_fee THEN 'node_fee'
                WHEN is_managed THEN 'managed'
                ELSE coalesce(beside, 'other')
           END AS kind
    FROM ruled
)
SELECT 'aws' AS provider,
       -- Midnight UTC is in the stated month.
       coalesce(nullif(regexp_extract(bill_billing_period_start_date, '^([0-9]{4}-(0[1-9]|1[0-2]))-0[1-9][T ]00:00:00([.]0+)?Z$', 1), ''),
                strftime(coalesce(bill_moment(bill_billing_period_start_date), starts), '%Y-%m')) AS billing_period,
       -- AWS assigns invoice ids when it closes the month.
       CASE WHEN tells_invoices THEN bill_invoice_id IS NOT NULL END AS is_invoiced,
       -- Identifies the charge without its amounts. Line item ids differ between deliveries of a bill, so they cannot.
       hash(starts, ends, line_type, line_item_product_code, line_item_usage_type, line_item_operation, line_item_tax_type,
            reservation_reservation_a_r_n, savings_plan_savings_plan_a_r_n,
            coalesce(line_item_resource_id, line_item_usage_account_id)) AS charge_key,
       starts AS charge_period_start,
       ends AS charge_period_end,
       CASE WHEN line_type = 'Tax' THEN 'Tax'
            WHEN line_type = 'Refund' THEN 'Adjustment'
            WHEN NOT is_split AND (line_type = 'Credit' OR is_discount) THEN 'Credit'
            WHEN line_type IN ('Fee', 'RIFee', 'SavingsPlanRecurringFee', 'SavingsPlanUpfrontFee') THEN 'Purchase'
            ELSE 'Usage'
       END AS charge_category,
       CASE WHEN line_type IN ('RIFee', 'SavingsPlanRecurringFee') THEN 'Recurring'
            WHEN line_type IN ('Fee', 'SavingsPlanUpfrontFee', 'Tax', 'Refund') THEN 'One-Time'
            ELSE 'Usage-Based'
       END AS charge_frequency,
       line_item_line_item_description AS charge_description,
       billed AS billed_cost,
       effective AS effective_cost,
       on_demand_cost AS list_cost,
       currency AS billing_currency,
       bill_payer_account_id AS billing_account_id,
       line_item_usage_account_id AS sub_account_id,
       line_item_usage_account_name AS sub_account_name,
       coalesce(product_product_name, product_facts ->> '$.product_name', line_item_product_code) AS service_name,
       CASE WHEN kind IN ('instance', 'reserved_unused') OR (kind = 'discount' AND is_machine) THEN 'Compute'
            WHEN kind = 'storage' OR (kind = 'discount' AND beside = 'storage') THEN 'Storage'
            WHEN kind = 'network' OR (kind = 'discount' AND beside = 'network') THEN 'Networking'
       END AS service_category,
       coalesce(product_region, product_facts ->> '$.region', nullif(regexp_replace(line_item_availability_zone, '[a-z]$', ''), ''))
           AS region,
       CASE WHEN regexp_extract(line_item_availability_zone, '[0-9][a-z]$') <> '' THEN line_item_availability_zone END AS zone,
       line_item_resource_id AS resource_id,
       product_sku AS sku_id,
       line_item_usage_type AS sku_description,
       CASE WHEN kind IN ('instance', 'reserved_unused', 'node_fee', 'managed') THEN machine END AS instance_type,
       CASE WHEN line_item_usage_type LIKE '%SpotUsage%' OR pricing_term = 'Spot' OR pricing_purchase_option = 'Spot' THEN 'Dynamic'
            WHEN line_type IN ('DiscountedUsage', 'SavingsPlanCoveredUsage') THEN 'Committed'
            WHEN line_type = 'Usage' THEN 'Standard'
       END AS pricing_category,
       amount AS pricing_quantity,
       pricing_unit,
       CASE WHEN line_type IN ('Usage', 'DiscountedUsage', 'SavingsPlanCoveredUsage') THEN amount END AS consumed_quantity,
       CASE WHEN line_type IN ('Usage', 'DiscountedUsage', 'SavingsPlanCoveredUsage') THEN pricing_unit END AS consumed_unit,
       commitment AS commitment_discount_id,
       CASE WHEN line_type LIKE 'SavingsPlan%' THEN 'Spend'
            WHEN line_type IN ('DiscountedUsage', 'RIFee') THEN 'Usage' END AS commitment_discount_category,
       CASE WHEN line_type LIKE 'SavingsPlan%' THEN 'Savings Plan'
            WHEN line_type IN ('DiscountedUsage', 'RIFee') THEN 'Reserved Instance' END AS commitment_discount_type,
       CASE WHEN line_type IN ('DiscountedUsage', 'SavingsPlanCoveredUsage') THEN 'Used'
            WHEN kind = 'commitment_unused' THEN 'Unused' END AS commitment_discount_status,
       capacity_reservation AS capacity_reservation_id,
       CASE WHEN of_block OR cause = 'capacity_block' THEN 'capacity_block' END AS capacity_reservation_type,
       CASE WHEN kind = 'reserved_unused' THEN 'Unused'
            WHEN kind = 'instance' AND capacity_reservation IS NOT NULL THEN 'Used' END AS capacity_reservation_status,
       -- CUR 2.0 has tags in a map, prefixed with their origin: user_team is team, as in the columns of other versions.
       coalesce(cur_map(coalesce(nullif(resource_tags, '{}'), told.tags), false, '^(resourceTags/)?(user[_:])?'), tag_columns) AS tags,
       -- CUR 2.0 has cost categories in a map or among its tags; other versions have a column for each.
       coalesce(cur_map(nullif(cost_category, '{}'), false, '^$'), cur_map(told.tags, true, '^costCategory/'), cost_category_columns)
           AS cost_categories,
       hash(label_digest, resource_tags, cost_category, told.tags) AS label_digest,
       kind,
       -- Volumes and traffic charged to a machine's id also belong to the machine, with their own kind.
       instance AS instance_key,
       CASE WHEN kind IN ('instance', 'reserved_unused') THEN hours END AS instance_hours,
       CASE WHEN kind = 'split' THEN 'split'
            WHEN line_type = 'DiscountedUsage' AND coalesce(net_reservation_cost, reservation_cost) IS NULL THEN 'reservation_cost_missing'
            WHEN line_type = 'SavingsPlanCoveredUsage' AND coalesce(net_plan_cost, plan_cost) IS NULL THEN 'commitment_cost_missing'
            WHEN line_type = 'SavingsPlanRecurringFee' AND committed IS NULL THEN 'commitment_cost_missing'
            WHEN line_type = 'RIFee' AND coalesce(unused_upfront, unused_recurring, net_unused_upfront, net_unused_recurring) IS NULL THEN 'commitment_cost_missing'
            WHEN cause IS NOT NULL THEN cause
            WHEN kind = 'instance' AND effective = 0
                THEN CASE WHEN line_item_line_item_description ILIKE '%free tier%' THEN 'free_tier'
                          WHEN host_pool IS NOT NULL THEN 'dedicated_host'
                          ELSE 'zero_unexplained' END
            WHEN line_type IN ('SavingsPlanCoveredUsage', 'SavingsPlanNegation', 'DiscountedUsage') THEN 'covered_usage'
            WHEN line_type IN ('SavingsPlanRecurringFee', 'SavingsPlanUpfrontFee', 'RIFee') OR (line_type = 'Fee' AND effective = 0
                 AND billed <> 0) THEN 'fee_amortized'
            WHEN effective = billed THEN 'same'
            WHEN has_net THEN 'discount_spread'
            ELSE 'same'
       END AS cost_cause,
       is_net,
       CASE line_type
           WHEN 'DiscountedUsage' THEN reservation_upfront / nullif(reservation_cost, 0)
           WHEN 'RIFee' THEN unused_upfront / nullif(unused_upfront + unused_recurring, 0)
           WHEN 'SavingsPlanRecurringFee'
               THEN bill_decimal(savings_plan_amortized_upfront_commitment_for_billing_period) / nullif(plan_fee, 0)
       END AS upfront_share,
       line_item_product_code AS service_code,
       CASE WHEN kind = 'instance'
            THEN coalesce(product_operating_system, product_facts ->> '$.operating_system',
                          CASE regexp_extract(line_item_operation, '^RunInstances:?(.*)$', 1) WHEN '' THEN 'Linux' WHEN '0002' THEN 'Windows'
                               WHEN '0010' THEN 'RHEL' WHEN '000g' THEN 'SUSE' END)
       END AS operating_system,
       CASE WHEN kind = 'instance'
            THEN CASE WHEN contains(line_item_usage_type, 'DedicatedUsage') THEN 'dedicated'
                      WHEN host_pool IS NOT NULL THEN 'host' ELSE 'shared' END
       END AS tenancy,
       split_line_item_parent_resource_id AS split_parent_id,
       bill_decimal(coalesce(split_line_item_net_split_cost, split_line_item_split_cost)) AS split_cost,
       identity_line_item_id AS line_item_id,
       row_digest,
       bill_invoice_id AS invoice_id,
       bill_decimal(pricing_public_on_demand_rate) AS list_unit_price,
       -- The contracted unit price without commitments: covered usage has on-demand rates, reserved usage has a rate of
       -- zero.
       CASE WHEN line_type IN ('Usage', 'SavingsPlanCoveredUsage')
            THEN bill_decimal(coalesce(line_item_net_unblended_rate, line_item_unblended_rate))
       END AS contracted_unit_price,
       pricing_rate_code AS sku_price_id,
       CASE line_type WHEN 'SavingsPlanCoveredUsage' THEN plan_cost WHEN 'DiscountedUsage' THEN amount END
           AS commitment_discount_quantity,
       CASE line_type WHEN 'SavingsPlanCoveredUsage' THEN currency WHEN 'DiscountedUsage' THEN pricing_unit END
           AS commitment_discount_unit,
       source_file,
       file_row_number + 1 AS source_row
FROM told;

-- Findings about the export.
SELECT 'warning' AS level, 'reservation_cost_missing' AS code,
       count(*) || ' rows of reserved usage have no reservation cost, such as ' || min(resource_id)
           || ': their unblended cost is used instead (' || sum(effective_cost)::DECIMAL(38, 2) || ' ' || min(billing_currency) || ')' AS message,
       'export the column reservation/EffectiveCost (CUR 2.0: reservation_effective_cost)' AS fix
FROM charges_read
WHERE cost_cause = 'reservation_cost_missing'
HAVING count(*) > 0
UNION ALL
SELECT 'warning', 'commitment_cost_missing',
       count(*) || ' rows of savings plans or reservation fees have no amortized cost: fees count as fully used',
       'export the savingsPlan and reservation columns'
FROM charges_read
WHERE cost_cause = 'commitment_cost_missing'
HAVING count(*) > 0
UNION ALL
SELECT 'warning', 'zero_unexplained',
       count(*) || ' rows of running instances cost nothing, and the export does not explain it (first: ' || min(resource_id) || ')',
       'these hours are priced by the next source: price book, spot history or list price'
-- The fee of a block can be in the bill of another month.
FROM charges_read ANTI JOIN (FROM bill_details WHERE kind = 'commitment_fee' AND capacity_reservation_type = 'capacity_block') USING (capacity_reservation_id)
WHERE cost_cause = 'zero_unexplained'
HAVING count(*) > 0
UNION ALL
SELECT 'warning', 'block_fee_alone',
       'a Capacity Block fee of ' || effective_cost::DECIMAL(38, 2) || ' ' || billing_currency || ' (' || source_file || ', row ' || source_row
           || ') covers hours that are not in this bill',
       'those hours are in the bill of another month'
FROM charges_read
WHERE capacity_reservation_type = 'capacity_block' AND kind = 'commitment_fee' AND abs(effective_cost) >= 0.005
UNION ALL
SELECT 'warning', 'commitment_alone',
       'refunds of ' || commitment_discount_id || ' keep their effective cost: the cost of the commitment, which may be less, is not in these files',
       'load them together with the files of its fees and usage'
FROM charges_read SEMI JOIN (FROM bill_details WHERE kind = 'refund') USING (commitment_discount_id)
GROUP BY commitment_discount_id
HAVING bool_and(kind = 'refund' AND coalesce(sku_description NOT LIKE '%NoUpfront%', true))
UNION ALL
SELECT 'warning', 'no_line_type',
       'the export has no line item types: every row counts as plain usage',
       'export the column lineItem/LineItemType (CUR 2.0: line_item_line_item_type)'
FROM raw
HAVING count(*) > 0 AND count(line_item_line_item_type) = 0
UNION ALL
SELECT 'note', 'list_cost_unread',
       count(*) || ' public on-demand costs are not numbers (such as ' || min(pricing_public_on_demand_cost) || ') and are left out',
       NULL
FROM raw
WHERE pricing_public_on_demand_cost IS NOT NULL AND bill_decimal(pricing_public_on_demand_cost) IS NULL
HAVING count(*) > 0
UNION ALL
SELECT 'note', 'no_resource_ids',
       'the export has no resource ids: its charges cannot price nodes',
       'export resource ids (CUR: "Include resource IDs")'
FROM raw
HAVING count(*) > 0 AND count(line_item_resource_id) = 0;
