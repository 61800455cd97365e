-- reads: list_prices
-- writes: list_prices, without what $provider said on $price_as_of of $regions
-- invariant: what was said on other days, or of other regions, stays
DELETE FROM list_prices
WHERE provider = $provider AND price_as_of = $price_as_of AND list_contains($regions::VARCHAR[], region);
