-- reads: staged (rows of exports as text), the variables across_files and may_repeat
-- writes: repeated: rows that tell a charge again, those of one row_digest, in the same file or, across files, in any; raw_rows (view): the rows of exports without them
-- invariant: of rows that agree, the first is none of the repeated; rows without a line item id have no digest and are never among them
CREATE OR REPLACE TEMP TABLE repeated AS
SELECT source_file, file_row_number
FROM staged
WHERE getvariable('may_repeat')
  AND row_digest IN (SELECT row_digest FROM staged WHERE row_digest IS NOT NULL GROUP BY row_digest HAVING count(*) > 1)
QUALIFY row_number() OVER (
    PARTITION BY row_digest, CASE WHEN NOT getvariable('across_files') THEN source_file END ORDER BY source_file, file_row_number) > 1;

CREATE OR REPLACE TEMP VIEW raw_rows AS
FROM staged
ANTI JOIN repeated USING (source_file, file_row_number);
