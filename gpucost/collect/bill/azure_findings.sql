-- reads: azure_rows, mapped
-- writes: nothing; answers what is worth saying of the export: level, code, message, fix
-- invariant: one row per kind of finding
SELECT 'warning' AS level, 'actual_only' AS code,
    count(*) || ' charges of machines cost nothing, since commitments cover them: actual cost alone prices no such machine' AS message,
    'export amortized cost too, and load it: it takes the place of the actual cost of those days' AS fix
FROM mapped WHERE format = 'azure-actual' AND commitment_discount_status = 'Used' AND cost_cause = 'zero_unexplained'
HAVING count(*) > 0
UNION ALL
SELECT 'warning', 'no_cost', count(*) || ' rows have no cost at all; they count as 0', NULL FROM azure_rows WHERE is_blank HAVING count(*) > 0
UNION ALL
SELECT 'note', 'scale_set',
    count(*) || ' charges name only a scale set: their cost is spread over the hours of its nodes', NULL
FROM mapped WHERE kind = 'instance' AND regexp_matches(instance_key, '/virtualmachinescalesets/[^/]+$') HAVING count(*) > 0
UNION ALL
SELECT 'note', 'no_quantity',
    count(*) || ' charges of machines have no quantity: they count for the hours that their nodes were up', NULL
FROM mapped WHERE kind = 'instance' AND instance_hours IS NULL AND effective_cost <> 0 AND NOT coalesce(service_name ILIKE '%licen%', false)
HAVING count(*) > 0;
