-- reads: charges_read (the mapped rows of one format), the macro charge_lack
-- writes: nothing; answers the first row that lacks what every charge has, and what that is
-- invariant: at most one row
SELECT source_file, source_row, charge_lack(c) AS what
FROM charges_read AS c
WHERE what IS NOT NULL
ORDER BY source_file, source_row
LIMIT 1;
