-- reads: nothing
-- writes: spot_eviction_rates: rates at which a cloud evicts spot instances, as published
-- invariant: other tables are unchanged

CREATE TABLE spot_eviction_rates (
    provider         VARCHAR NOT NULL,
    region           VARCHAR NOT NULL,
    instance_type    VARCHAR NOT NULL,
    band_low_percent INTEGER NOT NULL,  -- the low end of the published band, in percent per hour
    seen_on          DATE NOT NULL
);
