-- reads: progress_runs, progress_series
-- writes: progress_values, without those of a source's runs that were alive in [from_ms, to_ms) or are listed
-- invariant: values of other sources and runs stay
DELETE FROM progress_values
WHERE series_id IN (
    SELECT series_id FROM progress_series
    WHERE source = $source AND (list_contains($run_ids::VARCHAR[], run_id) OR run_id IN (
        SELECT run_id FROM progress_runs
        WHERE source = $source AND started_ms < $to_ms AND coalesce(ended_ms, 9223372036854775807) >= $from_ms)));
