-- reads: interruption_bands; $instance_types (lower-cased)
-- writes: market_bands, how often spot instances with Linux were interrupted in a month, at the last time it was told
-- invariant: one row per (provider, region, instance_type); an instance type is lower-cased
CREATE OR REPLACE TEMP TABLE market_bands AS
SELECT provider, region, lower(instance_type) AS instance_type, band_low_percent, band_high_percent, as_of, source_id
FROM interruption_bands
WHERE os = 'linux' AND period = 'month' AND list_contains($instance_types::VARCHAR[], lower(instance_type))
QUALIFY row_number() OVER (PARTITION BY provider, region, lower(instance_type) ORDER BY as_of DESC) = 1;
