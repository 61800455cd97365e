-- reads: component_prices
-- writes: component_prices, without what $provider said on $price_as_of of $regions
-- invariant: what was said on other days, or of other regions, stays
DELETE FROM component_prices
WHERE provider = $provider AND price_as_of = $price_as_of AND list_contains($regions::VARCHAR[], region);
