-- reads: pricing/instances.csv ($path)
-- writes: catalog_instances, what an instance type holds; gpu_count may be a part of a GPU, gpu_memory_mib is of one GPU or part
-- invariant: one row per (provider, instance_type); local_ssd_gib is 0 where there is none, null where it is not known
CREATE TEMP TABLE IF NOT EXISTS catalog_instances AS
SELECT * FROM read_csv($path, header = true, auto_detect = false, delim = ',', quote = '"', columns = {
    'provider': 'VARCHAR', 'instance_type': 'VARCHAR', 'gpu_model': 'VARCHAR', 'gpu_count': 'DECIMAL(12, 6)',
    'gpu_memory_mib': 'INTEGER', 'vcpus': 'INTEGER', 'memory_gib': 'DECIMAL(12, 3)', 'local_ssd_gib': 'INTEGER',
    'source_id': 'VARCHAR'});
