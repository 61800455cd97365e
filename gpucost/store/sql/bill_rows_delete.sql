-- reads: nothing
-- writes: bill_rows
-- invariant: the bills that these rows belong to are removed in the same transaction
DELETE FROM bill_rows
WHERE list_contains($bill_ids, bill_id);
