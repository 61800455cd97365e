-- reads: nothing
-- writes: bills, bill_rows: by what the files of a load are known before they are read; what a row must have is checked by the load
-- invariant: what was loaded before has no stamps: null

-- What each file of a load was on disk (its identity, size, times and samples of its content), and the digest of its content then.
ALTER TABLE bills ADD COLUMN file_stamps MAP(VARCHAR, VARCHAR);

-- A load counts what is missing once all rows are written, and names the row: half of the time of looking at all rows before.
ALTER TABLE bill_rows ALTER COLUMN charge_period_start DROP NOT NULL;
ALTER TABLE bill_rows ALTER COLUMN charge_period_end DROP NOT NULL;
ALTER TABLE bill_rows ALTER COLUMN charge_category DROP NOT NULL;
ALTER TABLE bill_rows ALTER COLUMN billed_cost DROP NOT NULL;
ALTER TABLE bill_rows ALTER COLUMN effective_cost DROP NOT NULL;
ALTER TABLE bill_rows ALTER COLUMN billing_currency DROP NOT NULL;
