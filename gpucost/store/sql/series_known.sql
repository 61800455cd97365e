-- reads: series, window_keys (registered: the hashes of a window's series)
-- writes: nothing; answers the numbers of those that are known
-- invariant: key is unique in series
SELECT w.position, s.series_id
FROM window_keys w
JOIN series s USING (key);
