-- reads: nothing
-- writes: blocks (altered): sums of hours whose samples are not evenly spaced
-- invariant: other columns are unchanged; hours of earlier loads have no sums, so their samples count one by one

-- Of all samples except the last, each valid until the next one. Null if step_ms is not null, or the block has one sample.
ALTER TABLE blocks ADD COLUMN idle_ms INTEGER;         -- time of the samples under idle_threshold
ALTER TABLE blocks ADD COLUMN value_ms DOUBLE;         -- value x time
ALTER TABLE blocks ADD COLUMN longest_ms INTEGER;      -- the longest of these times
