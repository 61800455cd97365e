-- reads: explained_bill_rows; $most limits the rows of a machine
-- writes: nothing; answers the first charges of each machine
-- invariant: in order of time
SELECT * FROM explained_bill_rows WHERE number <= $most ORDER BY instance_key, number;
