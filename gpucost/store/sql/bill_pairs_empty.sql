-- reads: bills
-- writes: bills: removes actual costs of which the amortized ones tell all
-- invariant: a bill has rows
DELETE FROM bills
WHERE format = 'azure-actual' AND rows = 0;
