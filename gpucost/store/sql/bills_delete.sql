-- reads: nothing
-- writes: bills
-- invariant: no row of these bills is left in bill_rows
DELETE FROM bills
WHERE list_contains($bill_ids, bill_id);
