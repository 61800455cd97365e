-- reads: mapped
-- writes: nothing; answers the mapped rows with the column `format`, null where the mapping does not tell formats apart by content
-- invariant: the rows of mapped, in their order
FROM (SELECT NULL::VARCHAR AS format LIMIT 0)
UNION ALL BY NAME
FROM mapped;
