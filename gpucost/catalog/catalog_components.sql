-- reads: pricing/components.csv ($path)
-- writes: catalog_components, unit prices per hour of one vCPU, GiB of memory, GPU or GiB of local SSD, where a cloud sells them apart
-- invariant: one row per (provider, region, family, component, gpu_model, purchase_option, term_years, price_as_of); gpu_model stands for GPUs only
CREATE TEMP TABLE IF NOT EXISTS catalog_components AS
SELECT * FROM read_csv($path, header = true, auto_detect = false, delim = ',', quote = '"', columns = {
    'provider': 'VARCHAR', 'region': 'VARCHAR', 'family': 'VARCHAR', 'component': 'VARCHAR', 'gpu_model': 'VARCHAR',
    'purchase_option': 'VARCHAR', 'term_years': 'INTEGER', 'price_per_hour': 'DECIMAL(24, 12)', 'currency': 'VARCHAR',
    'price_as_of': 'DATE', 'source_id': 'VARCHAR'});
