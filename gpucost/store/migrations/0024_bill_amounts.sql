-- reads: nothing
-- writes: bills: the sums of each bill, so that loading an unchanged file does not read its rows
-- invariant: other tables are unchanged

-- per currency; null for bills of earlier versions, and if another load changed rows of the bill since
ALTER TABLE bills ADD COLUMN amounts STRUCT(currency VARCHAR, billed DECIMAL(38, 12), effective DECIMAL(38, 12))[];
