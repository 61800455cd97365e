-- reads: the fleet's machines of a month, bound as one list per column; the terms of the contract
-- writes: cur, the month's charges as in an AWS CUR 2.0 export
-- invariant: one row per line item; unblended costs add up to the invoice; the same machines give the same rows
CREATE OR REPLACE TEMP TABLE cur AS
WITH machines AS (
    SELECT unnest($id::VARCHAR[]) AS id, unnest($instance_type::VARCHAR[]) AS instance_type, unnest($option::VARCHAR[]) AS option,
        unnest($zone::VARCHAR[]) AS zone, $main_account AS account, unnest($from_s::BIGINT[]) AS from_s, unnest($to_s::BIGINT[]) AS to_s
    UNION ALL
    SELECT id, instance_type, option, zone, account, epoch($from::TIMESTAMP)::BIGINT + after_s,
        coalesce(epoch($from::TIMESTAMP)::BIGINT + until_s, epoch($to::TIMESTAMP)::BIGINT)
    FROM (VALUES
        ('i-0aa17e3f9c2d4b601', 'm6i.2xlarge', 'on_demand', 'us-east-1a', $main_account, 0, NULL),
        ('i-0aa17e3f9c2d4b602', 'm6i.2xlarge', 'on_demand', 'us-east-1b', $main_account, 0, NULL),
        -- it never joined its cluster
        ('i-0dead51b3c0f2a771', 'p5.48xlarge', 'spot', 'us-east-1c', $main_account, 11 * 86400 + 40000, 11 * 86400 + 40840),
        -- a personal machine, also over a weekend
        ('i-0c0ffee19d2b6a443', 'g5.4xlarge', 'on_demand', 'us-east-1d', '777788889999', 6 * 86400 + 32400, 10 * 86400 + 34260),
        ('cr-0d4f81e2', 'p5.48xlarge', 'unused', 'us-east-1a', $main_account, 24 * 86400, 25 * 86400)
    ) AS others (id, instance_type, option, zone, account, after_s, until_s)
),
-- per node-hour, before the discount
prices AS (
    SELECT instance_type, on_demand::DECIMAL(12, 4) AS on_demand, spot::DECIMAL(12, 4) AS spot
    FROM (VALUES
        ('p4d.24xlarge', 21.96, 10.40), ('p5.48xlarge', 55.04, 23.60), ('g4dn.12xlarge', 3.91, 1.45), ('g5.12xlarge', 5.67, 2.30),
        ('g5.4xlarge', 1.624, 0.65), ('m6i.2xlarge', 0.384, 0.15)
    ) AS list (instance_type, on_demand, spot)
),
hours AS (
    SELECT *, to_timestamp(hour * 3600)::TIMESTAMP AS starts, to_timestamp(hour * 3600 + 3600)::TIMESTAMP AS ends,
        ((least(to_s, hour * 3600 + 3600) - greatest(from_s, hour * 3600)) / 3600)::DECIMAL(12, 8) AS amount
    FROM (SELECT *, unnest(range(from_s // 3600, (to_s - 1) // 3600 + 1)) AS hour FROM machines)
    JOIN prices USING (instance_type)
),
-- a plan covers machines in a random order that changes daily
lots AS (
    SELECT *, greatest(0, least(amount, $plan_commitment::DECIMAL(12, 4) / $plan_price::DECIMAL(12, 4) - coalesce(sum(amount) OVER (
            PARTITION BY starts ORDER BY md5(id || starts::DATE) ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)))::DECIMAL(12, 8) AS covered
    FROM hours
    WHERE option = 'on_demand' AND instance_type = $plan_type
),
days AS (
    SELECT id, instance_type, zone, account, starts::DATE AS day, sum(amount) AS amount FROM hours WHERE option <> 'unused' GROUP BY ALL
),
month_hours AS (
    SELECT unnest(range($from::TIMESTAMP, $to::TIMESTAMP, INTERVAL 1 HOUR)) AS starts
),
month_days AS (
    SELECT unnest(range($from::TIMESTAMP, $to::TIMESTAMP, INTERVAL 1 DAY)) AS starts
),
plan_hours AS (
    SELECT h.starts, round(coalesce(sum(l.covered), 0) * $plan_price::DECIMAL(12, 4), 4) AS used
    FROM month_hours AS h LEFT JOIN lots AS l USING (starts)
    GROUP BY h.starts
),
reserved AS (
    SELECT $reserved_count * (SELECT count(*) FROM month_hours) AS hours, (SELECT coalesce(sum(amount), 0) FROM hours WHERE option = 'reserved') AS used
),
usage AS (
    SELECT 'Usage' AS line_type, 'AmazonEC2' AS product, 'SpotUsage:' || instance_type AS usage_type, 'RunInstances:SV001' AS operation,
        id AS resource, account, zone, instance_type, starts, ends, amount, 'Hrs' AS unit, amount * on_demand AS list_cost,
        -- spot prices change daily
        amount * (spot * (1 + 0.04 * sin(day(starts) * 1.7 + ascii(right(zone, 1)))))::DECIMAL(12, 4) AS unblended,
        'spot ' || instance_type || ' instance-hour' AS description
    FROM hours WHERE option = 'spot'
    UNION ALL BY NAME
    SELECT 'Usage' AS line_type, 'AmazonEC2' AS product, 'BoxUsage:' || instance_type AS usage_type, 'RunInstances' AS operation,
        id AS resource, account, zone, instance_type, starts, ends, amount - coalesce(covered, 0) AS amount, 'Hrs' AS unit,
        (amount - coalesce(covered, 0)) * on_demand AS list_cost, (amount - coalesce(covered, 0)) * on_demand AS unblended,
        'on demand ' || instance_type || ' instance-hour' AS description
    FROM hours LEFT JOIN (SELECT id, starts, covered FROM lots) USING (id, starts)
    WHERE option = 'on_demand' AND amount > coalesce(covered, 0)
    UNION ALL BY NAME
    SELECT 'SavingsPlanCoveredUsage' AS line_type, 'AmazonEC2' AS product, 'BoxUsage:' || instance_type AS usage_type,
        'RunInstances' AS operation, id AS resource, account, zone, instance_type, starts, ends, covered AS amount, 'Hrs' AS unit,
        covered * on_demand AS list_cost, covered * on_demand AS unblended, $plan AS plan, covered * $plan_price::DECIMAL(12, 4) AS plan_cost,
        instance_type || ' instance-hour covered by a savings plan' AS description
    FROM lots WHERE covered > 0
    UNION ALL BY NAME
    SELECT 'DiscountedUsage' AS line_type, 'AmazonEC2' AS product, 'BoxUsage:' || instance_type AS usage_type, 'RunInstances' AS operation,
        id AS resource, account, zone, instance_type, starts, ends, amount, 'Hrs' AS unit, amount * on_demand AS list_cost, 0 AS unblended,
        $reservation AS reservation, amount * ($reserved_upfront::DECIMAL(12, 4) / 8760 + $reserved_price::DECIMAL(12, 4))::DECIMAL(12, 4) AS reservation_cost,
        $capacity_reservation AS capacity_reservation, instance_type || ' instance-hour, reserved' AS description
    FROM hours WHERE option = 'reserved'
    UNION ALL BY NAME
    -- capacity reserved for a postponed launch
    SELECT 'Usage' AS line_type, 'AmazonEC2' AS product, 'UnusedBox:' || instance_type AS usage_type, 'RunInstances' AS operation,
        id AS resource, account, zone, instance_type, starts, ends, amount, 'Hrs' AS unit, amount * on_demand AS list_cost,
        amount * on_demand AS unblended, id AS capacity_reservation, 'unused reservation of ' || instance_type AS description
    FROM hours WHERE option = 'unused'
    UNION ALL BY NAME
    SELECT 'Usage' AS line_type, 'AmazonEC2' AS product, 'EBS:VolumeUsage.gp3' AS usage_type, 'CreateVolume-Gp3' AS operation,
        replace(id, 'i-', 'vol-') AS resource, account, zone, day AS starts, day + INTERVAL 1 DAY AS ends,
        (amount * 500 / 720)::DECIMAL(12, 8) AS amount, 'GB-Mo' AS unit, (amount * 500 / 720 * 0.08)::DECIMAL(12, 8) AS list_cost,
        (amount * 500 / 720 * 0.08)::DECIMAL(12, 8) AS unblended, 'gp3 storage' AS description
    FROM days
    UNION ALL BY NAME
    SELECT 'Usage' AS line_type, 'AmazonEC2' AS product, 'DataTransfer-Out-Bytes' AS usage_type, 'RunInstances' AS operation, id AS resource,
        account, zone, day AS starts, day + INTERVAL 1 DAY AS ends, amount, 'GB' AS unit, amount * 0.09 AS list_cost,
        (amount * 0.09)::DECIMAL(12, 8) AS unblended, 'data transfer out' AS description
    FROM days
    UNION ALL BY NAME
    SELECT 'Usage' AS line_type, 'AmazonEC2' AS product, 'NatGateway-Bytes' AS usage_type, 'NatGateway' AS operation,
        'arn:aws:ec2:us-east-1:' || $main_account || ':natgateway/nat-0f2a' AS resource, $main_account AS account, starts,
        starts + INTERVAL 1 DAY AS ends, 410 + day(starts) AS amount, 'GB' AS unit, 0.045 * (410 + day(starts)) AS list_cost,
        (0.045 * (410 + day(starts)))::DECIMAL(12, 8) AS unblended, 'NAT gateway' AS description
    FROM month_days
    UNION ALL BY NAME
    SELECT 'Usage' AS line_type, 'AmazonEKS' AS product, 'USE1-AmazonEKS-Hours:perCluster' AS usage_type, 'CreateOperation' AS operation,
        'arn:aws:eks:us-east-1:' || $main_account || ':cluster/demo' AS resource, $main_account AS account, starts,
        starts + INTERVAL 1 DAY AS ends, 24 AS amount, 'Hours' AS unit, 2.4 AS list_cost, 2.4 AS unblended, 'EKS control plane' AS description
    FROM month_days
    UNION ALL BY NAME
    SELECT 'SavingsPlanRecurringFee' AS line_type, 'ComputeSavingsPlans' AS product, 'ComputeSP:1yrNoUpfront' AS usage_type,
        $payer AS account, starts, starts + INTERVAL 1 HOUR AS ends, 1 AS amount, $plan_commitment::DECIMAL(12, 4) AS unblended, $plan AS plan,
        $plan_commitment::DECIMAL(12, 4) AS committed, used, 'savings plan, 1 year, no upfront' AS description
    FROM plan_hours
    UNION ALL BY NAME
    SELECT 'Fee' AS line_type, 'AmazonEC2' AS product, 'HeavyUsage:' || $reserved_type AS usage_type, 'RunInstances' AS operation,
        $payer AS account, $from::TIMESTAMP AS starts, $from::TIMESTAMP + INTERVAL 1 HOUR AS ends, $reserved_count AS amount,
        $reserved_count * $reserved_upfront::DECIMAL(12, 4) AS unblended, $reservation AS reservation,
        'upfront fee of reserved ' || $reserved_type || ', 1 year' AS description
    UNION ALL BY NAME
    SELECT 'RIFee' AS line_type, 'AmazonEC2' AS product, 'HeavyUsage:' || $reserved_type AS usage_type, 'RunInstances' AS operation,
        $payer AS account, $from::TIMESTAMP AS starts, $to::TIMESTAMP AS ends, hours AS amount, 'Hrs' AS unit,
        hours * $reserved_price::DECIMAL(12, 4) AS unblended, $reservation AS reservation,
        (hours - used) * ($reserved_upfront::DECIMAL(12, 4) / 8760)::DECIMAL(12, 4) AS unused_upfront,
        (hours - used) * $reserved_price::DECIMAL(12, 4) AS unused_recurring, 'recurring fee of reserved ' || $reserved_type AS description
    FROM reserved
),
charges AS (
    FROM usage
    UNION ALL BY NAME
    SELECT 'SavingsPlanNegation' AS line_type, product, usage_type, operation, resource, account, zone, starts, ends, amount, unit,
        -unblended AS unblended, plan, 'taken back: the savings plan pays' AS description
    FROM usage WHERE line_type = 'SavingsPlanCoveredUsage'
    UNION ALL BY NAME
    -- the enterprise agreement discounts payments, not usage covered by a commitment
    SELECT 'EdpDiscount' AS line_type, product, usage_type, operation, resource, account, zone, starts, ends, amount, unit,
        unblended * -$discount::DECIMAL(4, 2) AS unblended, plan, reservation, 'enterprise discount' AS description
    FROM usage WHERE line_type <> 'SavingsPlanCoveredUsage' AND unblended <> 0
    UNION ALL BY NAME
    SELECT 'Credit' AS line_type, 'AmazonEC2' AS product, '' AS usage_type, $payer AS account, $from::TIMESTAMP AS starts,
        $to::TIMESTAMP AS ends, -750.00 AS unblended, 'migration credit' AS description
    UNION ALL BY NAME
    SELECT 'Refund' AS line_type, 'AmazonEC2' AS product, 'NatGateway-Bytes' AS usage_type, $main_account AS account, $from::TIMESTAMP AS starts,
        $to::TIMESTAMP AS ends, -64.20 AS unblended, 'refund after an outage of the NAT gateway' AS description
    UNION ALL BY NAME
    SELECT 'Fee' AS line_type, 'AWSSupportBusiness' AS product, 'Dollar' AS usage_type, $payer AS account, $from::TIMESTAMP AS starts,
        $to::TIMESTAMP AS ends, (0.03 * sum(unblended))::DECIMAL(12, 2) AS unblended, 'business support' AS description
    FROM usage WHERE line_type <> 'SavingsPlanCoveredUsage'
),
taxed AS (
    FROM charges
    UNION ALL BY NAME
    SELECT 'Tax' AS line_type, product, '' AS usage_type, account, $from::TIMESTAMP AS starts, $to::TIMESTAMP AS ends,
        (0.02 * sum(unblended))::DECIMAL(12, 2) AS unblended, 'sales tax' AS description
    FROM charges WHERE line_type NOT IN ('Credit', 'Refund') GROUP BY product, account
)
SELECT md5(concat_ws('|', line_type, product, usage_type, resource, account, starts, ends)) AS identity_line_item_id,
    strftime(starts, '%Y-%m-%dT%H:%M:%SZ/') || strftime(ends, '%Y-%m-%dT%H:%M:%SZ') AS identity_time_interval,
    $invoice AS bill_invoice_id, 'AWS' AS bill_billing_entity, 'Anniversary' AS bill_bill_type, $payer AS bill_payer_account_id,
    $from::TIMESTAMP AS bill_billing_period_start_date, $to::TIMESTAMP AS bill_billing_period_end_date,
    account AS line_item_usage_account_id, line_type AS line_item_line_item_type, starts AS line_item_usage_start_date,
    ends AS line_item_usage_end_date, product AS line_item_product_code, usage_type AS line_item_usage_type, operation AS line_item_operation,
    zone AS line_item_availability_zone, resource AS line_item_resource_id, amount::DOUBLE AS line_item_usage_amount,
    'USD' AS line_item_currency_code, unblended::DECIMAL(20, 10) AS line_item_unblended_cost, description AS line_item_line_item_description,
    CASE WHEN line_type = 'Tax' THEN 'SalesTax' END AS line_item_tax_type,
    instance_type AS product_instance_type, 'us-east-1' AS product_region, unit AS pricing_unit,
    list_cost::DECIMAL(20, 10) AS pricing_public_on_demand_cost, CASE WHEN usage_type LIKE 'SpotUsage%' THEN 'Spot' END AS pricing_purchase_option,
    reservation AS reservation_reservation_a_r_n, reservation_cost::DECIMAL(20, 10) AS reservation_effective_cost,
    unused_upfront::DECIMAL(20, 10) AS reservation_unused_amortized_upfront_fee_for_billing_period,
    unused_recurring::DECIMAL(20, 10) AS reservation_unused_recurring_fee,
    plan AS savings_plan_savings_plan_a_r_n, plan_cost::DECIMAL(20, 10) AS savings_plan_savings_plan_effective_cost,
    committed::DECIMAL(20, 10) AS savings_plan_total_commitment_to_date, used::DECIMAL(20, 10) AS savings_plan_used_commitment,
    'arn:aws:ec2:us-east-1:' || $main_account || ':capacity-reservation/' || capacity_reservation AS capacity_reservation_capacity_reservation_arn
FROM taxed
ORDER BY line_item_usage_start_date, identity_line_item_id;
