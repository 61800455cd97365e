-- reads: collect_runs
-- writes: nothing; answers at most one run_id
-- invariant: a run over a fixed span is taken up again over that span only; one that ended "now" (within a minute of its
--            start) also by a run that begins at the same moment and ends later
SELECT run_id
FROM collect_runs
WHERE kind = $kind AND source = $source AND finished_at IS NULL AND started_at >= $started_after AND from_ms = $from_ms
  AND (to_ms = $to_ms OR (abs(to_ms - epoch_ms(started_at)) <= 60000 AND $to_ms >= to_ms))
ORDER BY run_id DESC
LIMIT 1;
