-- reads: staged, repeated
-- writes: raw (view): the rows of exports, each charge once
-- invariant: without repeated rows, the rows of staged
CREATE OR REPLACE TEMP VIEW raw AS
FROM staged
ANTI JOIN repeated USING (source_file, file_row_number);
