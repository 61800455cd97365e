-- reads: spot_incoming, spot_prices
-- writes: spot_prices
-- invariant: one row per (provider, region, zone, instance_type, product, instance_id, at_ms)
INSERT INTO spot_prices
SELECT i.provider, i.region, i.zone, i.instance_type, i.product, i.instance_id, i.at_ms, i.to_ms, i.price_per_hour, i.currency, i.source
FROM spot_incoming AS i
ANTI JOIN spot_prices AS k USING (provider, region, zone, instance_type, product, instance_id, at_ms)
ORDER BY i.provider, i.region, i.zone, i.instance_type, i.product, i.instance_id, i.at_ms;
