-- reads: nothing
-- writes: progress_runs, without those of a source that were alive in [from_ms, to_ms) or are listed
-- invariant: runs of other sources and times stay
DELETE FROM progress_runs
WHERE source = $source
  AND (list_contains($run_ids::VARCHAR[], run_id)
    OR (started_ms < $to_ms AND coalesce(ended_ms, 9223372036854775807) >= $from_ms));
