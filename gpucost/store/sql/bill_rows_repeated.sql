-- reads: incoming, bill_rows
-- writes: rows_repeated (temporary): incoming rows that the stored bills in $bill_ids tell of, the same in every column
-- invariant: rows without a line item id have no digest and are never among them
CREATE OR REPLACE TEMP TABLE rows_repeated AS
SELECT source_file, source_row
FROM incoming
WHERE row_digest IN (SELECT row_digest FROM bill_rows WHERE list_contains($bill_ids, bill_id) AND row_digest IS NOT NULL);
