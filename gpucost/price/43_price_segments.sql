-- reads: price_winners, fx_rates, priced_nodes, discounts
-- writes: price_segments, price_winners in the config's currency after discounts, split at changes of a rate or a discount; a bill's charge has one rate, from its start
-- invariant: per node, half-open intervals that do not overlap; price_per_hour is null if the currency has no rate then
CREATE OR REPLACE TEMP TABLE price_segments AS
WITH kinds AS (
    SELECT DISTINCT node_id, price_source, is_on_demand FROM price_winners
),
matched AS (
    SELECT n.node_id, k.price_source, k.is_on_demand, d.number, d.factor, d.from_ms, d.to_ms
    FROM priced_nodes AS n
    JOIN kinds AS k USING (node_id)
    JOIN discounts AS d
        ON list_contains(d.price_sources, k.price_source)
        AND coalesce(d.capacity_type = n.capacity_type OR (d.capacity_type = 'on_demand' AND k.is_on_demand), d.capacity_type IS NULL)
        AND discount_fits(d, n.seller, n.instance_type, n.gpu_model)
),
edges AS (
    SELECT node_id, price_source, is_on_demand, unnest([from_ms, to_ms, -4611686018427387904, 4611686018427387904]) AS at_ms FROM matched
),
pieces AS (
    SELECT node_id, price_source, is_on_demand, at_ms AS from_ms,
        lead(at_ms) OVER (PARTITION BY node_id, price_source, is_on_demand ORDER BY at_ms) AS to_ms
    FROM (SELECT DISTINCT * FROM edges)
),
in_force AS (
    SELECT p.node_id, p.price_source, p.is_on_demand, p.from_ms, p.to_ms, m.number, m.factor
    FROM pieces AS p
    LEFT JOIN matched AS m
        ON m.node_id = p.node_id AND m.price_source = p.price_source AND m.is_on_demand = p.is_on_demand AND m.from_ms <= p.from_ms AND p.from_ms < m.to_ms
    WHERE p.to_ms IS NOT NULL
),
node_discounts AS (
    -- the factor of matching discounts by price source; on reserved capacity, also for on-demand prices (is_on_demand)
    SELECT node_id, price_source, is_on_demand, from_ms, to_ms, list(number ORDER BY number) FILTER (number IS NOT NULL) AS numbers,
        coalesce(list_reduce(list(factor ORDER BY number) FILTER (number IS NOT NULL), lambda kept, next: (kept * next)::DECIMAL(13, 12)), 1)
            ::DECIMAL(13, 12) AS factor
    FROM in_force
    GROUP BY node_id, price_source, is_on_demand, from_ms, to_ms
)
SELECT w.node_id,
    -- greatest() and least() ignore nulls: no such currency, no discount
    greatest(w.from_ms, r.from_ms, d.from_ms) AS from_ms, least(w.to_ms, r.to_ms, d.to_ms) AS to_ms,
    ((w.price_per_hour * coalesce(w.rate, r.rate))::DECIMAL(38, 12) * coalesce(d.factor, 1)::DECIMAL(13, 12))::DECIMAL(38, 9) AS price_per_hour,
    w.price_source, w.price_as_of, w.purchase_option, w.rank, w.origin, w.price_per_hour AS listed_per_hour, w.currency, coalesce(w.rate, r.rate) AS rate, d.numbers AS discounts
FROM price_winners AS w
LEFT JOIN fx_rates AS r ON w.rate IS NULL AND r.currency = w.currency AND r.from_ms < w.to_ms AND w.from_ms < r.to_ms
LEFT JOIN node_discounts AS d
    ON d.node_id = w.node_id AND d.price_source = w.price_source
    AND d.is_on_demand = w.is_on_demand
    AND d.from_ms < least(w.to_ms, r.to_ms) AND greatest(w.from_ms, r.from_ms) < d.to_ms;
