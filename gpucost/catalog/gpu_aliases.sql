-- reads: pricing/gpu_aliases.csv ($path)
-- writes: gpu_aliases: lower-cased letters and digits of a spelling, without a leading nvidia or tesla -> the one name of the model
-- invariant: one row per alias
CREATE TEMP TABLE IF NOT EXISTS gpu_aliases AS
SELECT DISTINCT
    regexp_replace(regexp_replace(lower(alias), '[^a-z0-9]', '', 'g'), '^(nvidia|tesla)+', '') AS alias,
    gpu_model
FROM read_csv($path, header = true, auto_detect = false, delim = ',', quote = '"', columns = {
    'alias': 'VARCHAR', 'gpu_model': 'VARCHAR'});
