-- reads: nothing
-- writes: bills, bill_rows: stamps that identify a load's files before they are read; the load checks required columns
-- invariant: stamps are null in bills loaded before

-- Each file of a load as it was on disk (identity, size, times and samples of its content), and the digest of its
-- content.
ALTER TABLE bills ADD COLUMN file_stamps MAP(VARCHAR, VARCHAR);

-- A load counts missing values once all rows are written, and names the row: half the time of checking all rows first.
ALTER TABLE bill_rows ALTER COLUMN charge_period_start DROP NOT NULL;
ALTER TABLE bill_rows ALTER COLUMN charge_period_end DROP NOT NULL;
ALTER TABLE bill_rows ALTER COLUMN charge_category DROP NOT NULL;
ALTER TABLE bill_rows ALTER COLUMN billed_cost DROP NOT NULL;
ALTER TABLE bill_rows ALTER COLUMN effective_cost DROP NOT NULL;
ALTER TABLE bill_rows ALTER COLUMN billing_currency DROP NOT NULL;
