-- reads: pricing/claim_series.csv ($path)
-- writes: claim_series, how the metrics that tell of resource claims name the claim, its pods and its devices
-- invariant: one row per metric; kind 'pod' has uid, kind 'device' driver, pool and device
CREATE TEMP TABLE IF NOT EXISTS claim_series AS
SELECT * FROM read_csv($path, header = true, auto_detect = false, delim = ',', quote = '"', columns = {
    'metric': 'VARCHAR', 'exporter': 'VARCHAR', 'kind': 'VARCHAR', 'uid': 'VARCHAR', 'claim': 'VARCHAR', 'driver': 'VARCHAR',
    'pool': 'VARCHAR', 'device': 'VARCHAR', 'source_id': 'VARCHAR', 'as_of': 'DATE'});
