-- reads: the files of pricing/, by catalog_csv
-- writes: catalog_prices, catalog_instances, gpu_models, model_spelling, gpu_aliases, mig_profiles, resources, claim_series, not_sold_on_demand, catalog_files: the catalog, one table per file; comments describe each table and its rows
-- invariant: facts are as in the files; names of resources and spellings of GPUs are normalized for comparison

-- List prices per hour of a whole instance. An empty field is null and means any. offering is as in the store's
-- list_prices, '' if unknown.
-- one row per (provider, region, zone, instance_type, purchase_option, term_years, payment_option, currency, price_as_of)
CREATE TEMP TABLE IF NOT EXISTS catalog_prices AS
-- the sources do not separate offerings; their AWS reservations are standard ones
SELECT *, CASE WHEN provider = 'aws' AND purchase_option = 'reserved' THEN 'standard' ELSE '' END AS offering FROM catalog_csv('prices.csv', {
    'provider': 'VARCHAR', 'region': 'VARCHAR', 'zone': 'VARCHAR', 'instance_type': 'VARCHAR', 'purchase_option': 'VARCHAR',
    'term_years': 'INTEGER', 'payment_option': 'VARCHAR', 'price_per_hour': 'DECIMAL(24, 12)', 'currency': 'VARCHAR',
    'price_as_of': 'DATE', 'source_id': 'VARCHAR'});

-- contents of an instance type; gpu_count may be a fraction, gpu_memory_mib is of one GPU or part
-- one row per (provider, instance_type); local_ssd_gib is 0 without local SSD, null if unknown
CREATE TEMP TABLE IF NOT EXISTS catalog_instances AS
FROM catalog_csv('instances.csv', {
    'provider': 'VARCHAR', 'instance_type': 'VARCHAR', 'gpu_model': 'VARCHAR', 'gpu_count': 'DECIMAL(12, 6)',
    'gpu_memory_mib': 'INTEGER', 'vcpus': 'INTEGER', 'memory_gib': 'DECIMAL(12, 3)', 'local_ssd_gib': 'INTEGER',
    'source_id': 'VARCHAR'});

-- facts about one whole GPU; mig_slices is 0 if it has no MIG
-- one row per gpu_model
CREATE TEMP TABLE IF NOT EXISTS gpu_models AS
FROM catalog_csv('gpus.csv', {
    'gpu_model': 'VARCHAR', 'vendor': 'VARCHAR', 'memory_mib': 'INTEGER', 'tdp_watts': 'INTEGER',
    'fp16_dense_tflops': 'DECIMAL(9, 1)', 'memory_gb_per_s': 'INTEGER', 'mig_slices': 'INTEGER', 'source_id': 'VARCHAR'});

-- lower-case letters and digits of a spelling, without a leading nvidia or tesla
CREATE OR REPLACE TEMP MACRO model_spelling(name) AS regexp_replace(regexp_replace(lower(name), '[^a-z0-9]', '', 'g'), '^(nvidia|tesla)+', '');

-- a spelling of a model -> its canonical name
-- one row per alias
CREATE TEMP TABLE IF NOT EXISTS gpu_aliases AS
SELECT DISTINCT
    model_spelling(alias) AS alias,
    gpu_model
FROM catalog_csv('gpu_aliases.csv', {
    'alias': 'VARCHAR', 'gpu_model': 'VARCHAR'});

-- compute and memory slices of a MIG profile
-- one row per (gpu_model, profile)
CREATE TEMP TABLE IF NOT EXISTS mig_profiles AS
FROM catalog_csv('mig_profiles.csv', {
    'gpu_model': 'VARCHAR', 'profile': 'VARCHAR', 'compute_slices': 'INTEGER', 'memory_slices': 'INTEGER',
    'memory_slices_total': 'INTEGER', 'max_per_gpu': 'INTEGER', 'source_id': 'VARCHAR'});

-- Kinds of Kubernetes resources (pattern: in lower case, as kube-state-metrics spells them), and a unit's share of a
-- device. size is a device's units, or the MiB of a unit of memory.
-- one of the rows that match a resource counts: kind 'none' before others
CREATE TEMP TABLE IF NOT EXISTS resources AS
SELECT lower(resource) AS pattern, vendor, kind, lower(instance_type) AS instance_type, size, devices
FROM catalog_csv('resources.csv', {
    'resource': 'VARCHAR', 'vendor': 'VARCHAR', 'kind': 'VARCHAR', 'instance_type': 'VARCHAR', 'size': 'DOUBLE', 'devices': 'VARCHAR',
    'unit': 'VARCHAR', 'share': 'VARCHAR', 'source_id': 'VARCHAR', 'as_of': 'DATE'});

-- label names of the claim, its pods and its devices in metrics of resource claims
-- one row per metric; kind 'pod' has uid, kind 'device' driver, pool and device
CREATE TEMP TABLE IF NOT EXISTS claim_series AS
FROM catalog_csv('claim_series.csv', {
    'metric': 'VARCHAR', 'exporter': 'VARCHAR', 'kind': 'VARCHAR', 'uid': 'VARCHAR', 'claim': 'VARCHAR', 'driver': 'VARCHAR',
    'pool': 'VARCHAR', 'device': 'VARCHAR', 'source_id': 'VARCHAR', 'as_of': 'DATE'});

-- instance types (or series of them) that are known not to be sold on demand, and how they are sold instead
-- one row per (provider, instance_type); sold_as holds purchase options, empty without a public price
CREATE TEMP TABLE IF NOT EXISTS not_sold_on_demand AS
SELECT * REPLACE (coalesce(string_split(sold_as, ' '), []) AS sold_as)
FROM catalog_csv('not_sold_on_demand.csv', {
    'provider': 'VARCHAR', 'instance_type': 'VARCHAR', 'sold_as': 'VARCHAR', 'fact': 'VARCHAR', 'as_of': 'DATE', 'source_id': 'VARCHAR'});

-- marks the catalog as loaded
CREATE OR REPLACE TEMP VIEW catalog_files AS SELECT getvariable('pricing_dir') AS folder;
