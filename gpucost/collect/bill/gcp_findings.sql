-- reads: gcp_rows, mapped
-- writes: nothing; answers what is worth saying of the export: level, code, message, fix
-- invariant: one row per kind of finding
SELECT 'warning' AS level, 'no_resources' AS code,
    'the export names no machines (resource.name, resource.global_name): costs are loaded, no node can be priced by them' AS message,
    'export the detailed usage cost data, table gcp_billing_export_resource_v1_…' AS fix
FROM gcp_rows
HAVING count(*) > 0 AND count(global_name) = 0 AND count(resource_name) = 0 AND count(*) FILTER (service = 'Compute Engine') > 0
UNION ALL
SELECT 'warning', 'fee_missing',
    count(*) || ' charges are covered, whole or in part, by a commitment whose fee is not in the export: they cost too little here, and their'
        || ' machines'' hours are priced as if no bill covered them',
    'load the whole month, with the project or billing account that the commitment is charged to'
FROM mapped WHERE cost_cause = 'fee_missing'
HAVING count(*) > 0
UNION ALL
SELECT 'warning', 'machine_type_unknown',
    count(DISTINCT instance_key) || if(count(DISTINCT instance_key) = 1, ' machine has', ' machines have')
        || ' no machine type in system_labels: hours are those of the usage windows', NULL
FROM mapped WHERE kind = 'instance' AND instance_type IS NULL
HAVING count(*) > 0;
