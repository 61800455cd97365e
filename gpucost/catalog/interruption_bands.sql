-- reads: pricing/interruption.csv ($path)
-- writes: interruption_bands, which percent of a type's spot instances were interrupted in a period, and what spot saved
-- invariant: one row per (provider, region, instance_type, os, as_of); low < high; savings_percent is under 0 where spot cost more
CREATE TEMP TABLE IF NOT EXISTS interruption_bands AS
SELECT * FROM read_csv($path, header = true, auto_detect = false, delim = ',', quote = '"', columns = {
    'provider': 'VARCHAR', 'region': 'VARCHAR', 'instance_type': 'VARCHAR', 'os': 'VARCHAR', 'band_low_percent': 'INTEGER',
    'band_high_percent': 'INTEGER', 'period': 'VARCHAR', 'savings_percent': 'INTEGER', 'as_of': 'DATE', 'source_id': 'VARCHAR'});
