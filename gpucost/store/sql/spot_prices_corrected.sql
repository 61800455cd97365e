-- reads: spot_incoming
-- writes: spot_prices
-- invariant: only facts that are said to be different now go; spot_prices_insert puts them back as they are said to be
DELETE FROM spot_prices AS k
USING spot_incoming AS i
WHERE k.provider = i.provider AND k.region = i.region AND k.zone = i.zone AND k.instance_type = i.instance_type
    AND k.product = i.product AND k.instance_id = i.instance_id AND k.at_ms = i.at_ms
    AND (k.price_per_hour, k.currency, k.to_ms) IS DISTINCT FROM (i.price_per_hour, i.currency, i.to_ms);
