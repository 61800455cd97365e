-- reads: raw (CUR rows as text), the variable currency
-- writes: cur (view): the columns that the rules below read, typed, and what the row is charged for
-- invariant: one row per raw row; nothing is judged here
CREATE OR REPLACE TEMP VIEW cur AS
WITH typed AS (
    SELECT *,
           coalesce(line_item_line_item_type, 'Usage') AS line_type,
           TRY_CAST(line_item_usage_start_date AS TIMESTAMPTZ)::TIMESTAMP AS starts,
           TRY_CAST(line_item_usage_end_date AS TIMESTAMPTZ)::TIMESTAMP AS ends,
           TRY_CAST(line_item_unblended_cost AS DECIMAL(38, 12)) AS unblended,
           -- Net columns where filled, gross where a net column is there but empty.
           TRY_CAST(line_item_net_unblended_cost AS DECIMAL(38, 12)) AS net_unblended,
           TRY_CAST(coalesce(savings_plan_net_savings_plan_effective_cost, savings_plan_savings_plan_effective_cost)
                    AS DECIMAL(38, 12)) AS plan_cost,
           TRY_CAST(coalesce(reservation_net_effective_cost, reservation_effective_cost) AS DECIMAL(38, 12)) AS reservation_cost,
           TRY_CAST(savings_plan_total_commitment_to_date AS DECIMAL(38, 12)) AS committed,
           TRY_CAST(savings_plan_used_commitment AS DECIMAL(38, 12)) AS used,
           TRY_CAST(coalesce(reservation_net_unused_amortized_upfront_fee_for_billing_period,
                             reservation_unused_amortized_upfront_fee_for_billing_period) AS DECIMAL(38, 12)) AS unused_upfront,
           TRY_CAST(coalesce(reservation_net_unused_recurring_fee, reservation_unused_recurring_fee)
                    AS DECIMAL(38, 12)) AS unused_recurring,
           TRY_CAST(line_item_usage_amount AS DECIMAL(38, 12)) AS amount,
           TRY_CAST(pricing_public_on_demand_cost AS DECIMAL(38, 12)) AS on_demand_cost,
           coalesce(line_item_currency_code, getvariable('currency')) AS currency,
           CASE WHEN product IS NOT NULL THEN TRY_CAST(product AS JSON) END AS product_facts,
           CASE WHEN capacity_reservation_capacity_reservation_arn IS NOT NULL
                     OR contains(line_item_resource_id, 'capacity-reservation')
                THEN nullif(regexp_extract(concat_ws(' ', capacity_reservation_capacity_reservation_arn, line_item_resource_id),
                                           'cr-[0-9a-zA-Z]+'), '')
           END AS capacity_reservation,
           coalesce(nullif(regexp_extract(line_item_usage_type, ':([a-z][a-z0-9-]*\.[a-z0-9-]+)$', 1), ''),
                    product_instance_type) AS machine,
           regexp_matches(coalesce(line_item_usage_type, ''), '(^|-)(UnusedBox|UnusedDed)(:|$)') AS is_unused_capacity,
           regexp_matches(coalesce(line_item_usage_type, ''), '(^|-)(Host)?(BoxUsage|SpotUsage|DedicatedUsage|SchedUsage)(:|$)')
               AS is_machine,
           split_line_item_parent_resource_id IS NOT NULL AS is_split,
           CASE WHEN line_item_line_item_type = 'Fee'
                THEN regexp_matches(concat_ws(' ', capacity_reservation_capacity_reservation_type, line_item_usage_type,
                                              line_item_operation, line_item_line_item_description), 'capacity ?-?block', 'i')
                ELSE false
           END AS of_block
    FROM raw
)
SELECT *,
       is_machine AND NOT is_split AND line_type IN ('Usage', 'DiscountedUsage', 'SavingsPlanCoveredUsage')
           AND coalesce(line_item_product_code, 'AmazonEC2') = 'AmazonEC2' AS is_instance,
       is_unused_capacity AND NOT is_split AND line_type IN ('Usage', 'DiscountedUsage', 'SavingsPlanCoveredUsage') AS is_reserved_unused,
       -- Instance-hours of a row: AWS counts them in hours, whatever the length of the row.
       CASE WHEN lower(coalesce(pricing_unit, 'hrs')) LIKE 'h%' THEN amount::DOUBLE
            WHEN lower(pricing_unit) LIKE 'sec%' THEN amount::DOUBLE / 3600
       END AS hours
FROM typed;
