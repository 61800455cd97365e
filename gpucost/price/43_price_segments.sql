-- reads: price_winners, fx_rates, node_discounts
-- writes: price_segments, price_winners in the config's currency and less discounts, cut where a rate or a discount changes
-- invariant: per node, half-open intervals that do not overlap; price_per_hour is null where a currency has no rate then
CREATE OR REPLACE TEMP TABLE price_segments AS
SELECT w.node_id,
    -- greatest() and least() pass over nulls: no such currency, no discount
    greatest(w.from_ms, r.from_ms, d.from_ms) AS from_ms, least(w.to_ms, r.to_ms, d.to_ms) AS to_ms,
    ((w.price_per_hour * r.rate)::DECIMAL(38, 12) * coalesce(d.factor, 1)::DECIMAL(13, 12))::DECIMAL(38, 9) AS price_per_hour,
    w.price_source, w.price_as_of, w.rank, w.origin, w.price_per_hour AS listed_per_hour, w.currency, r.rate, d.numbers AS discounts
FROM price_winners AS w
LEFT JOIN fx_rates AS r ON r.currency = w.currency AND r.from_ms < w.to_ms AND w.from_ms < r.to_ms
LEFT JOIN node_discounts AS d
    ON d.node_id = w.node_id AND d.price_source = w.price_source
    AND d.is_on_demand = w.is_on_demand
    AND d.from_ms < least(w.to_ms, r.to_ms) AND greatest(w.from_ms, r.from_ms) < d.to_ms;
