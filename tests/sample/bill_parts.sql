-- The bill of the fixture from cur, a bill of many days as one month: from_s and to_s are seconds since $start. Charges of a
-- whole month have no to_s, and a row for each of their days; charges once a month have no from_s either.
WITH lines AS (
    SELECT *, line_item_usage_start_date = $start::TIMESTAMP AND line_item_usage_end_date = $end::TIMESTAMP AS is_whole,
        line_item_usage_type LIKE 'HeavyUsage%' AS is_reservation,
        if(line_item_usage_type LIKE 'HeavyUsage%' OR line_item_line_item_type IN ('Credit', 'Refund'), NULL,
            line_item_usage_start_date::DATE) AS day
    FROM cur
),
days AS (
    SELECT unnest(range($start::TIMESTAMP, $end::TIMESTAMP, INTERVAL 1 DAY))::DATE AS day
),
reserved_days AS (
    SELECT d.day, coalesce(sum(l.line_item_usage_amount), 0) AS used
    FROM days AS d LEFT JOIN lines AS l ON l.day = d.day AND l.line_item_line_item_type = 'DiscountedUsage'
    GROUP BY d.day
),
plain AS (
    SELECT * FROM lines WHERE NOT is_whole AND NOT is_reservation
    UNION ALL BY NAME
    -- upfront fees, their discounts, credits, refunds: once a month
    SELECT * FROM lines WHERE (is_reservation AND NOT is_whole) OR line_item_line_item_type IN ('Credit', 'Refund')
    UNION ALL BY NAME
    -- the recurring fee of reservations and its discount
    SELECT l.* REPLACE (
            d.day AS day, l.line_item_usage_amount / n.days AS line_item_usage_amount,
            l.line_item_unblended_cost / n.days AS line_item_unblended_cost,
            l.reservation_unused_amortized_upfront_fee_for_billing_period / u.unused * (l.line_item_usage_amount / n.days - d.used)
                AS reservation_unused_amortized_upfront_fee_for_billing_period,
            l.reservation_unused_recurring_fee / u.unused * (l.line_item_usage_amount / n.days - d.used)
                AS reservation_unused_recurring_fee)
    FROM lines AS l, reserved_days AS d, (SELECT count(*) AS days FROM days) AS n,
        (SELECT 48 * count(*) - sum(used) AS unused FROM reserved_days) AS u
    WHERE l.is_reservation AND l.is_whole
),
support AS (
    SELECT * FROM plain
    UNION ALL BY NAME
    SELECT l.* REPLACE (p.day AS day, p.cost AS line_item_unblended_cost)
    FROM lines AS l, (
        SELECT day, round(0.03 * sum(line_item_unblended_cost), 2) AS cost FROM plain
        WHERE line_item_line_item_type IN ('Usage', 'DiscountedUsage', 'SavingsPlanRecurringFee', 'Fee', 'RIFee') GROUP BY day
    ) AS p
    WHERE l.line_item_product_code = 'AWSSupportBusiness' AND l.line_item_line_item_type = 'Fee'
),
taxed AS (
    SELECT * FROM support
    UNION ALL BY NAME
    SELECT l.* REPLACE (p.day AS day, p.cost AS line_item_unblended_cost)
    FROM lines AS l JOIN (
        SELECT line_item_product_code, line_item_usage_account_id, day, round(0.02 * sum(line_item_unblended_cost), 2) AS cost
        FROM support WHERE line_item_line_item_type NOT IN ('Credit', 'Refund') GROUP BY ALL
    ) AS p USING (line_item_product_code, line_item_usage_account_id)
    WHERE l.line_item_line_item_type = 'Tax'
)
SELECT * EXCLUDE (identity_line_item_id, identity_time_interval, bill_invoice_id, bill_billing_period_start_date,
        bill_billing_period_end_date, line_item_usage_start_date, line_item_usage_end_date, is_whole, is_reservation, day)
    REPLACE (line_item_unblended_cost::DECIMAL(20, 10) AS line_item_unblended_cost,
        reservation_unused_amortized_upfront_fee_for_billing_period::DECIMAL(20, 10)
            AS reservation_unused_amortized_upfront_fee_for_billing_period,
        reservation_unused_recurring_fee::DECIMAL(20, 10) AS reservation_unused_recurring_fee),
    (epoch(if(is_whole OR day IS NULL, day, line_item_usage_start_date)) - epoch($start::TIMESTAMP))::BIGINT AS from_s,
    if(is_whole OR day IS NULL, NULL, epoch(line_item_usage_end_date) - epoch($start::TIMESTAMP))::BIGINT AS to_s
FROM taxed
ORDER BY line_item_usage_type, line_item_line_item_type, line_item_resource_id, line_item_usage_account_id, line_item_product_code,
    from_s NULLS FIRST
