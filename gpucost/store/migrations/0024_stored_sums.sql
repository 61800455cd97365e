-- reads: nothing
-- writes: blocks, bills (altered): sums of hours whose samples are not evenly spaced; sums of each bill
-- invariant: other columns are unchanged; hours and bills of earlier loads have no sums

-- Sums over all samples except the last; each is valid until the next one. Null if step_ms is not null, or the block has one sample.
ALTER TABLE blocks ADD COLUMN idle_ms INTEGER;         -- time of the samples under idle_threshold
ALTER TABLE blocks ADD COLUMN value_ms DOUBLE;         -- value x time
ALTER TABLE blocks ADD COLUMN longest_ms INTEGER;      -- the longest of these times

-- Per currency, so that loading an unchanged file does not read its rows. Null if another load changed rows of the bill since.
ALTER TABLE bills ADD COLUMN amounts STRUCT(currency VARCHAR, billed DECIMAL(38, 12), effective DECIMAL(38, 12))[];
