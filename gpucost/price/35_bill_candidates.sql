-- reads: billed_hours, billed_nodes, priced_nodes
-- writes: bill_candidates, what bills say of nodes, over the charge periods they cover; equal prices of one day that adjoin are one row
-- invariant: per node, half-open intervals that do not overlap
CREATE OR REPLACE TEMP TABLE bill_candidates AS
WITH node_hours AS (
    SELECT l.node_id, h.from_ms, h.to_ms, h.price_per_hour, h.currency, h.provider, h.billing_period, n.is_scale_set,
        greatest(sum(h.effective_cost) OVER w, 0) / nullif(sum(h.instance_hours) OVER w, 0) AS own_price,
        sum(h.discount_cost) OVER w <> 0 AS is_discounted
    FROM billed_hours AS h
    JOIN billed_nodes AS n USING (instance_key)
    JOIN priced_nodes AS l ON l.node_id = n.node_id AND h.from_ms < l.billed_to_ms AND l.up_from_ms < h.to_ms
    WHERE h.price_per_hour IS NOT NULL
    WINDOW w AS (PARTITION BY l.node_id, h.from_ms)
    -- a later billing period's correction of an hour is in the price already
    QUALIFY row_number() OVER (PARTITION BY l.node_id, h.from_ms ORDER BY h.billing_period, h.bill_id) = 1
),
priced AS (
    SELECT node_id, from_ms, to_ms, price_per_hour, currency, epoch_ms(from_ms)::DATE AS price_as_of,
        'bill of ' || provider || ', ' || billing_period
            || CASE WHEN is_scale_set THEN ', the scale set''s cost spread over its nodes' ELSE '' END
            || CASE WHEN to_ms - from_ms <= 3600000 THEN '' WHEN to_ms - from_ms = 86400000 THEN ', spread over the day' ELSE ', spread over its charge period' END
            || CASE WHEN is_discounted THEN ', less discounts' ELSE '' END
            || CASE WHEN abs(own_price - price_per_hour) > 1e-9 THEN ', shared with machines of its kind' ELSE '' END
            AS origin
    FROM node_hours
),
changes AS (
    SELECT *, coalesce((price_per_hour, currency, price_as_of, origin) IS DISTINCT FROM lag((price_per_hour, currency, price_as_of, origin)) OVER w
        OR from_ms <> lag(to_ms) OVER w, true) AS changed
    FROM priced
    WINDOW w AS (PARTITION BY node_id ORDER BY from_ms)
),
runs AS (
    SELECT *, count(*) FILTER (changed) OVER (PARTITION BY node_id ORDER BY from_ms) AS run FROM changes
)
SELECT node_id, min(from_ms) AS from_ms, max(to_ms) AS to_ms, 2000000 AS rank, price_per_hour, currency, 'bill' AS price_source, price_as_of, origin
FROM runs
GROUP BY node_id, run, price_per_hour, currency, price_as_of, origin;
