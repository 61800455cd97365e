-- reads: pricing/mig_profiles.csv ($path)
-- writes: mig_profiles, what a MIG profile takes of its GPU's compute and memory slices
-- invariant: one row per (gpu_model, profile)
CREATE TEMP TABLE IF NOT EXISTS mig_profiles AS
SELECT * FROM read_csv($path, header = true, auto_detect = false, delim = ',', quote = '"', columns = {
    'gpu_model': 'VARCHAR', 'profile': 'VARCHAR', 'compute_slices': 'INTEGER', 'memory_slices': 'INTEGER',
    'memory_slices_total': 'INTEGER', 'max_per_gpu': 'INTEGER', 'source_id': 'VARCHAR'});
