-- reads: bill: the charges of several weeks, in seconds since their beginning
-- writes: cur: a month's charges, in the shape of AWS's CUR 2.0 export
-- invariant: one row per line item; charges of a whole month are the sum of its days
CREATE OR REPLACE TEMP TABLE cur AS
WITH kept AS (
    SELECT * EXCLUDE (from_s, to_s),
        to_timestamp(if(to_s IS NULL, $from_s, from_s + $base_s))::TIMESTAMP AS line_item_usage_start_date,
        to_timestamp(coalesce(to_s + $base_s, $to_s))::TIMESTAMP AS line_item_usage_end_date
    FROM bill
    WHERE coalesce(from_s + $base_s, $from_s) >= $from_s AND coalesce(from_s + $base_s, $from_s) < $to_s
),
line_items AS (
    SELECT * REPLACE (
        sum(line_item_usage_amount) AS line_item_usage_amount,
        sum(line_item_unblended_cost) AS line_item_unblended_cost,
        sum(reservation_unused_amortized_upfront_fee_for_billing_period)
            AS reservation_unused_amortized_upfront_fee_for_billing_period,
        sum(reservation_unused_recurring_fee) AS reservation_unused_recurring_fee
    )
    FROM kept
    GROUP BY ALL
)
SELECT md5(concat_ws('|', line_item_line_item_type, line_item_product_code, line_item_usage_type, line_item_resource_id,
        line_item_usage_account_id, pricing_unit, line_item_usage_start_date, line_item_usage_end_date))
        AS identity_line_item_id,
    strftime(line_item_usage_start_date, '%Y-%m-%dT%H:%M:%SZ/')
        || strftime(line_item_usage_end_date, '%Y-%m-%dT%H:%M:%SZ') AS identity_time_interval,
    strftime(to_timestamp($from_s)::TIMESTAMP, '%Y%m7731') AS bill_invoice_id,
    to_timestamp($from_s)::TIMESTAMP AS bill_billing_period_start_date,
    to_timestamp($to_s)::TIMESTAMP AS bill_billing_period_end_date,
    *
FROM line_items
ORDER BY line_item_usage_start_date, identity_line_item_id;
