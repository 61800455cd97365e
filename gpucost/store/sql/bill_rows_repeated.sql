-- reads: bills_incoming, bill_rows
-- writes: bill_rows: removes incoming rows that the stored bills in $bill_ids tell of, the same in every column that is read
-- invariant: rows without a line item id have no digest and are never among them
DELETE FROM bill_rows
WHERE bill_id IN (SELECT bill_id FROM bills_incoming)
  AND row_digest IN (SELECT row_digest FROM bill_rows WHERE list_contains($bill_ids, bill_id) AND row_digest IS NOT NULL);
