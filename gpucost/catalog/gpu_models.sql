-- reads: pricing/gpus.csv ($path)
-- writes: gpu_models, facts about one whole GPU; mig_slices is 0 where it cannot be cut
-- invariant: one row per gpu_model
CREATE TEMP TABLE IF NOT EXISTS gpu_models AS
SELECT * FROM read_csv($path, header = true, auto_detect = false, delim = ',', quote = '"', columns = {
    'gpu_model': 'VARCHAR', 'vendor': 'VARCHAR', 'memory_mib': 'INTEGER', 'tdp_watts': 'INTEGER',
    'fp16_dense_tflops': 'DECIMAL(9, 1)', 'mig_slices': 'INTEGER', 'source_id': 'VARCHAR'});
