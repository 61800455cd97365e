-- reads: catalog_prices, $currency
-- writes: price_offers, the list prices that may price a node as they are: no commitments, in the config's currency
-- invariant: one row per (provider, region, zone, instance_type, capacity_type); text is lower-cased
CREATE OR REPLACE TEMP TABLE price_offers AS
SELECT lower(provider) AS provider, lower(region) AS region, lower(zone) AS zone, lower(instance_type) AS instance_type,
    purchase_option AS capacity_type, price_per_hour, price_as_of
FROM catalog_prices
WHERE purchase_option IN ('on_demand', 'spot') AND currency = $currency;
