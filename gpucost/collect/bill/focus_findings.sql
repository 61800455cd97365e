-- reads: charges_read (mapped FOCUS rows)
-- writes: nothing; answers level, code, message, fix
-- invariant: one row per finding
SELECT 'warning' AS level, 'zero_unexplained' AS code,
       count(*) || ' charges of running instances cost nothing, and the file does not say why (first: ' || min(resource_id) || ')' AS message,
       'ask the provider, or name the price in the price book' AS fix
FROM charges_read
WHERE cost_cause = 'zero_unexplained'
HAVING count(*) > 0
UNION ALL
SELECT 'warning', 'rounded_by_export',
       count(*) || ' effective costs are whole numbers where billed costs are not: the file was rounded by what wrote it',
       'get the file from the provider itself'
FROM charges_read
WHERE cost_cause = 'rounded_by_export'
HAVING count(*) > 0;
