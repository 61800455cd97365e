-- reads: progress_batch (registered)
-- writes: progress_values
-- invariant: one row per series and moment
INSERT INTO progress_values SELECT series_id, at_ms, value FROM progress_batch ORDER BY series_id, at_ms;
