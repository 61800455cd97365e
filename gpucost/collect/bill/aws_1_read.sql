-- reads: raw (CUR rows as text), the variable currency
-- writes: cur_map(value, is_category, prefix), non-empty entries of a map, cost categories or others, by key without prefix, the last of equal keys; cur (view): the typed columns that the rules below read, and the subject of each row; cur_costs (view): cur and each row's cost with commitments amortized, gross, and net of discounts if exported
-- invariant: one row per raw row; net is null if its column is empty: discounts are then separate rows
CREATE OR REPLACE TEMP MACRO cur_map(value, is_category, prefix) AS list_reduce(list_transform(
    list_filter(map_entries(TRY_CAST(TRY_CAST(value AS JSON) AS MAP(VARCHAR, VARCHAR))),
                lambda entry: coalesce(entry.value, '') <> '' AND starts_with(entry.key, 'costCategory/') = is_category),
    lambda entry: MAP {regexp_replace(entry.key, prefix, ''): entry.value}),
    lambda entries, entry: map_concat(entries, entry), MAP {});

CREATE OR REPLACE TEMP VIEW cur AS
WITH typed AS (
    SELECT *,
           coalesce(line_item_line_item_type, 'Usage') AS line_type,
           bill_moment(line_item_usage_start_date) AS starts,
           bill_moment(line_item_usage_end_date) AS ends,
           bill_decimal(line_item_unblended_cost) AS unblended,
           bill_decimal(line_item_net_unblended_cost) AS net_unblended,
           bill_decimal(savings_plan_savings_plan_effective_cost) AS plan_cost,
           bill_decimal(savings_plan_net_savings_plan_effective_cost) AS net_plan_cost,
           bill_decimal(reservation_effective_cost) AS reservation_cost,
           bill_decimal(reservation_net_effective_cost) AS net_reservation_cost,
           coalesce(bill_decimal(reservation_amortized_upfront_cost_for_usage),
                    reservation_cost - bill_decimal(reservation_recurring_fee_for_usage)) AS reservation_upfront,
           bill_decimal(savings_plan_total_commitment_to_date) AS committed,
           bill_decimal(savings_plan_used_commitment) AS used,
           -- The hourly cost of a plan, gross and net of discounts.
           coalesce(bill_decimal(savings_plan_recurring_commitment_for_billing_period), 0)
               + coalesce(bill_decimal(savings_plan_amortized_upfront_commitment_for_billing_period), 0) AS plan_fee,
           coalesce(bill_decimal(savings_plan_net_recurring_commitment_for_billing_period), 0)
               + coalesce(bill_decimal(savings_plan_net_amortized_upfront_commitment_for_billing_period), 0) AS net_plan_fee,
           bill_decimal(reservation_unused_amortized_upfront_fee_for_billing_period) AS unused_upfront,
           bill_decimal(reservation_net_unused_amortized_upfront_fee_for_billing_period) AS net_unused_upfront,
           bill_decimal(reservation_unused_recurring_fee) AS unused_recurring,
           bill_decimal(reservation_net_unused_recurring_fee) AS net_unused_recurring,
           bill_decimal(line_item_usage_amount) AS amount,
           bill_decimal(pricing_public_on_demand_cost) AS on_demand_cost,
           coalesce(line_item_currency_code, getvariable('currency')) AS currency,
           CASE WHEN product IS NOT NULL THEN TRY_CAST(product AS JSON) END AS product_facts,
           CASE WHEN capacity_reservation_capacity_reservation_arn IS NOT NULL
                     OR contains(line_item_resource_id, 'capacity-reservation')
                THEN nullif(regexp_extract(concat_ws(' ', capacity_reservation_capacity_reservation_arn, line_item_resource_id),
                                           'cr-[0-9a-zA-Z]+'), '')
           END AS capacity_reservation,
           -- SageMaker's ml.p5.48xlarge is a p5.48xlarge; the fee of EKS Auto Mode ends in -management-hours.
           coalesce(nullif(regexp_extract(line_item_usage_type, ':(?:ml\.)?([a-z][a-z0-9-]*\.(?:metal-)?[a-z0-9]+)(?:-[a-z]+-hours)?$', 1), ''),
                    regexp_replace(product_instance_type, '^ml\.', '')) AS machine,
           -- On an unchanged column, a function is computed once per dictionary value.
           nullif(CASE WHEN split_line_item_parent_resource_id IS NULL
                       THEN regexp_extract(line_item_resource_id, '(^|[/-])(i-[0-9a-f]+)$', 2)
                       ELSE regexp_extract(split_line_item_parent_resource_id, '(^|[/-])(i-[0-9a-f]+)$', 2) END, '') AS instance,
           coalesce(savings_plan_savings_plan_a_r_n, reservation_reservation_a_r_n,
                    CASE WHEN contains(line_item_resource_id, ':savingsplan/') OR contains(line_item_resource_id, ':reserved-instances/')
                         THEN line_item_resource_id END)
               AS commitment,
           line_item_line_item_type IN ('EdpDiscount', 'PrivateRateDiscount', 'BundledDiscount', 'RiVolumeDiscount', 'SppDiscount',
                                        'DistributorDiscount', 'Discount') AS is_discount,
           coalesce(regexp_extract(line_item_usage_type, '(^|-)(UnusedBox|UnusedDed)(:|$)') <> '', false) AS is_unused_capacity,
           coalesce(regexp_extract(line_item_usage_type, '(^|-)(Host)?(BoxUsage|SpotUsage|DedicatedUsage|SchedUsage)(:|$)') <> '', false)
               AS is_machine,
           -- A Dedicated Host and its instances: an export does not contain the host of an instance.
           CASE WHEN regexp_matches(line_item_usage_type, '(^|-)Host(Box)?Usage:')
                THEN concat_ws(' ', line_item_usage_account_id, line_item_availability_zone,
                               regexp_extract(line_item_usage_type, ':([a-z0-9-]+)', 1), starts, ends)
           END AS host_pool,
           split_line_item_parent_resource_id IS NOT NULL AS is_split,
           -- A block's hours may have its type; its fee and the discounts on it have one of these.
           CASE WHEN line_item_line_item_type = 'Fee' OR suffix(line_item_line_item_type, 'Discount')
                THEN regexp_matches(concat_ws(' ', capacity_reservation_capacity_reservation_type, line_item_usage_type,
                                              line_item_operation, line_item_line_item_description), 'capacity[ -]?block', 'i')
                ELSE coalesce(regexp_matches(capacity_reservation_capacity_reservation_type, 'capacity[ -]?block', 'i'), false)
           END AS of_block
    FROM raw
), judged AS (
    SELECT *,
           NOT is_split AND line_type IN ('Usage', 'DiscountedUsage', 'SavingsPlanCoveredUsage') AS is_usage,
           -- HyperPod's machines are Kubernetes nodes; an export with machine ids prices them like other nodes.
           (line_item_product_code IS NULL OR line_item_product_code = 'AmazonEC2') AND is_machine
               OR line_item_product_code = 'AmazonSageMaker' AND instance IS NOT NULL AND contains(line_item_usage_type, 'Cluster:ml.')
               AS is_node,
           -- Accelerators without a node: SageMaker's jobs, endpoints and notebooks, and fees without a machine.
           CASE WHEN line_item_product_code = 'AmazonSageMaker' AND contains(line_item_usage_type, 'ml.')
                     OR contains(line_item_usage_type, 'EKS-Auto:')
                THEN coalesce(regexp_matches(machine, '^(p|g|gr|trn|inf|dl)[0-9]'), false)
                ELSE false
           END AS has_accelerators
    FROM typed
)
SELECT *,
       is_node AND is_usage AS is_instance,
       is_unused_capacity AND is_usage AS is_reserved_unused,
       contains(line_item_usage_type, 'EKS-Auto:') AND instance IS NOT NULL AND is_usage AS is_node_fee,
       has_accelerators AND (is_usage OR line_type = 'Fee') AS is_managed,
       -- Instance-hours of a row: AWS counts in hours, for rows of any length.
       CASE WHEN pricing_unit IS NULL OR lower(pricing_unit) LIKE 'h%' THEN amount::DOUBLE
            WHEN lower(pricing_unit) LIKE 'sec%' THEN amount::DOUBLE / 3600
       END AS hours
FROM judged;

CREATE OR REPLACE TEMP VIEW cur_costs AS
SELECT *,
       CASE line_type
           -- Covered usage has the cost of its commitment. An empty cost is reported, see cost_cause.
           WHEN 'SavingsPlanCoveredUsage' THEN coalesce(plan_cost, unblended)
           WHEN 'DiscountedUsage' THEN coalesce(reservation_cost, unblended)
           -- The negation reverses the on-demand amount of covered usage, which is not its cost.
           WHEN 'SavingsPlanNegation' THEN 0
           -- An upfront fee is amortized on covered usage and recurring fees.
           WHEN 'SavingsPlanUpfrontFee' THEN 0
           -- The unused part of a commitment.
           WHEN 'SavingsPlanRecurringFee' THEN coalesce(committed, 0) - coalesce(used, 0)
           WHEN 'RIFee' THEN coalesce(unused_upfront, 0) + coalesce(unused_recurring, 0)
           -- A fee for a reservation or plan is amortized on other rows; other fees stay.
           WHEN 'Fee' THEN CASE WHEN commitment IS NULL THEN unblended ELSE 0 END
           ELSE unblended
       END AS gross,
       CASE line_type
           WHEN 'SavingsPlanCoveredUsage' THEN net_plan_cost
           WHEN 'DiscountedUsage' THEN net_reservation_cost
           WHEN 'SavingsPlanNegation' THEN 0
           WHEN 'SavingsPlanUpfrontFee' THEN 0
           -- The net unused part has no column: use the net share of the whole fee.
           WHEN 'SavingsPlanRecurringFee'
               THEN CASE WHEN plan_fee > 0 AND net_plan_fee > 0 THEN gross * (net_plan_fee / plan_fee)
                         WHEN unblended > 0 THEN gross * (net_unblended / unblended) END
           WHEN 'RIFee'
               THEN CASE WHEN coalesce(net_unused_upfront, net_unused_recurring) IS NOT NULL
                         THEN coalesce(net_unused_upfront, unused_upfront, 0) + coalesce(net_unused_recurring, unused_recurring, 0) END
           WHEN 'Fee' THEN CASE WHEN commitment IS NULL THEN net_unblended ELSE 0 END
           ELSE net_unblended
       END::DECIMAL(38, 12) AS net,
       coalesce(net, gross) AS amortized,
       -- A discount applies to rows that share these values.
       (bill_payer_account_id, bill_billing_period_start_date, coalesce(commitment, line_item_product_code)) AS discounted,
       -- The row costs nothing, net or gross, if it is amortized elsewhere; its own column decides whether it has a net
       -- cost.
       net IS NOT NULL AND (line_type NOT IN ('SavingsPlanNegation', 'SavingsPlanUpfrontFee', 'Fee') OR net_unblended IS NOT NULL) AS is_net
FROM cur;
