-- reads: nothing
-- writes: spot_eviction_rates: how often a cloud says that it takes spot instances back
-- invariant: other tables stay as they were

CREATE TABLE spot_eviction_rates (
    provider         VARCHAR NOT NULL,
    region           VARCHAR NOT NULL,
    instance_type    VARCHAR NOT NULL,
    band_low_percent INTEGER NOT NULL,  -- the low end of the published band, in percent per hour
    seen_on          DATE NOT NULL
);
