-- reads: pricing/resources.csv ($path)
-- writes: resources, what Kubernetes' resources are (pattern: lower-cased, as kube-state-metrics spells them) and how a unit becomes a share of a device; size is a device's units, or the MiB of a unit of memory
-- invariant: of the rows that fit a resource one counts: kind 'none' before others
CREATE TEMP TABLE IF NOT EXISTS resources AS
SELECT lower(resource) AS pattern, vendor, kind, lower(instance_type) AS instance_type, size, devices
FROM read_csv($path, header = true, auto_detect = false, delim = ',', quote = '"', columns = {
    'resource': 'VARCHAR', 'vendor': 'VARCHAR', 'kind': 'VARCHAR', 'instance_type': 'VARCHAR', 'size': 'DOUBLE', 'devices': 'VARCHAR',
    'unit': 'VARCHAR', 'share': 'VARCHAR', 'source_id': 'VARCHAR', 'as_of': 'DATE'});
