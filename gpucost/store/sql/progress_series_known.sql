-- reads: progress_series, progress_keys (registered: the hashes of a batch's series)
-- writes: nothing; answers the numbers of those that are known
-- invariant: key is unique in progress_series
SELECT k.position, s.series_id FROM progress_keys AS k JOIN progress_series AS s USING (key);
