-- reads: progress_series
-- writes: progress_values, without those of a source in [from_ms, to_ms)
-- invariant: values of other sources and times stay
DELETE FROM progress_values
WHERE at_ms >= $from_ms AND at_ms < $to_ms
  AND series_id IN (SELECT series_id FROM progress_series WHERE source = $source);
