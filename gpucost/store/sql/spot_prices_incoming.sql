-- reads: spot_batch (the arrays of a batch)
-- writes: spot_incoming, the facts of a batch
-- invariant: one row per key; of rows that say different things about a key, the last one of the batch
CREATE OR REPLACE TEMP TABLE spot_incoming AS
SELECT provider, region, zone, instance_type, product, instance_id, at_ms, nullif(to_ms, 0) AS to_ms,
    price::DECIMAL(21, 12) AS price_per_hour, currency, source
FROM spot_batch
QUALIFY row_number() OVER (PARTITION BY provider, region, zone, instance_type, product, instance_id, at_ms ORDER BY position DESC) = 1;
