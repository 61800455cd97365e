-- reads: billed_hours, billed_nodes, priced_nodes
-- writes: node_bill_hours, the billed price of each node in each charge period, text as numbers; bill_candidates, the billed prices of nodes over their charge periods; adjoining equal prices of one day are one row
-- invariant: per node, half-open intervals that do not overlap
-- only with: billed_hours
-- otherwise: bill_candidates (node_id UBIGINT, from_ms BIGINT, to_ms BIGINT, rank INTEGER, price_per_hour DECIMAL(38, 12), currency VARCHAR, rate DECIMAL(18, 12), price_source VARCHAR, price_as_of DATE, origin VARCHAR)
CREATE OR REPLACE TEMP TABLE node_bill_hours AS
WITH bills AS (
    SELECT DISTINCT bill_id, provider, billing_period,
        dense_rank() OVER (ORDER BY billing_period, bill_id)::INTEGER AS bill, dense_rank() OVER (ORDER BY provider, billing_period)::INTEGER AS month
    FROM (SELECT DISTINCT bill_id, provider, billing_period FROM billed_hours)
),
-- a machine's hour in several currencies costs their sum; if one of them has no rate, the price is missing
mixed AS (
    SELECT instance_key, from_ms, CASE WHEN NOT bool_or(is_unexplained)
        THEN (sum(price_per_hour * rate * hours) / greatest(max(hours), least(sum(hours), any_value(to_ms - from_ms) / 3600000.0)))::DECIMAL(38, 12) END AS price_per_hour
    FROM (
        SELECT instance_key, currency, from_ms, to_ms, rate, price_per_hour, is_unexplained, sum(instance_hours) AS hours
        FROM billed_hours SEMI JOIN (SELECT instance_key FROM billed_hours GROUP BY ALL HAVING min(currency) < max(currency)) USING (instance_key)
        GROUP BY ALL
    )
    GROUP BY ALL
    HAVING count(*) > 1 AND count(rate) = count(*)
),
matched AS (
    SELECT h.*, h.rowid AS line, l.node_id, b.bill, b.month, n.is_scale_set
    FROM billed_hours AS h
    JOIN bills AS b USING (bill_id)
    JOIN billed_nodes AS n USING (instance_key)
    JOIN priced_nodes AS l ON l.node_id = n.node_id AND NOT l.is_moved AND h.from_ms < l.billed_to_ms AND l.up_from_ms < h.to_ms
    WHERE h.price_per_hour IS NOT NULL
),
repeated AS (
    SELECT node_id, from_ms FROM matched GROUP BY ALL HAVING count(*) > 1
),
summed AS (
    -- the price already includes a later billing period's correction of an hour
    SELECT node_id, arg_min(line, (rate IS NOT NULL, bill, currency)) AS line, sum(COLUMNS('(effective|discount)_cost|instance_hours'))
    FROM matched SEMI JOIN repeated USING (node_id, from_ms)
    GROUP BY node_id, from_ms
),
hours AS (
    FROM matched ANTI JOIN repeated USING (node_id, from_ms)
    UNION ALL BY NAME
    FROM summed JOIN (SELECT * EXCLUDE (effective_cost, discount_cost, instance_hours) FROM matched) AS m USING (node_id, line)
)
SELECT h.node_id, h.from_ms, h.to_ms, CASE WHEN m.instance_key IS NULL THEN h.price_per_hour ELSE (m.price_per_hour / h.rate)::DECIMAL(38, 12) END AS price_per_hour,
    h.currency, h.rate, h.from_ms // 86400000 AS day, h.month, h.bill_id, h.is_scale_set, coalesce(h.discount_cost <> 0, false) AS is_discounted,
    coalesce(abs(greatest(h.effective_cost, 0) / nullif(h.instance_hours, 0) - h.price_per_hour) > 1e-9, false) AS is_shared,
    CASE WHEN h.to_ms - h.from_ms <= 3600000 THEN 0 WHEN h.to_ms - h.from_ms = 86400000 THEN 1 ELSE 2 END AS width
FROM hours AS h
LEFT JOIN mixed AS m ON m.instance_key = h.instance_key AND m.from_ms = h.from_ms
WHERE m.instance_key IS NULL OR m.price_per_hour IS NOT NULL;

CREATE OR REPLACE TEMP TABLE bill_candidates AS
WITH alike AS (
    SELECT node_id, price_per_hour, currency, rate, day, month, is_scale_set, is_discounted, is_shared, width, any_value(bill_id) AS bill_id,
        min(from_ms) AS from_ms, max(to_ms) AS to_ms, max(to_ms) - min(from_ms) = sum(to_ms - from_ms) AS adjoin
    FROM node_bill_hours
    GROUP BY ALL
),
begun AS (
    SELECT h.*, coalesce(h.from_ms <> lag(h.to_ms) OVER w, true) AS begins
    FROM node_bill_hours AS h
    SEMI JOIN (FROM alike WHERE NOT adjoin) AS a USING (node_id, price_per_hour, currency, rate, day, month, is_scale_set, is_discounted, is_shared, width)
    WINDOW w AS (PARTITION BY h.node_id, h.price_per_hour, h.currency, h.rate, h.day, h.month, h.is_scale_set, h.is_discounted, h.is_shared, h.width ORDER BY h.from_ms)
),
runs AS (
    SELECT *, count(*) FILTER (begins) OVER (PARTITION BY node_id, price_per_hour, currency, rate, day, month, is_scale_set, is_discounted, is_shared, width ORDER BY from_ms) AS run
    FROM begun
),
priced AS (
    SELECT * EXCLUDE (adjoin) FROM alike WHERE adjoin
    UNION ALL BY NAME
    SELECT node_id, price_per_hour, currency, rate, day, month, is_scale_set, is_discounted, is_shared, width, any_value(bill_id) AS bill_id, min(from_ms) AS from_ms, max(to_ms) AS to_ms
    FROM runs
    GROUP BY node_id, price_per_hour, currency, rate, day, month, is_scale_set, is_discounted, is_shared, width, run
)
SELECT p.node_id, p.from_ms, p.to_ms, 2000000 AS rank, p.price_per_hour, p.currency, p.rate, 'bill' AS price_source, epoch_ms(p.from_ms)::DATE AS price_as_of,
    'bill of ' || b.provider || ', ' || b.billing_period
        || CASE WHEN p.is_scale_set THEN ', the scale set''s cost spread over its nodes' ELSE '' END
        || CASE p.width WHEN 0 THEN '' WHEN 1 THEN ', spread over the day' ELSE ', spread over its charge period' END
        || CASE WHEN p.is_discounted THEN ', less discounts' ELSE '' END
        || CASE WHEN p.is_shared THEN ', shared with machines of its kind' ELSE '' END AS origin
FROM priced AS p JOIN (SELECT DISTINCT bill_id, provider, billing_period FROM billed_hours) AS b USING (bill_id);
