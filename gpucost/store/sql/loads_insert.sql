-- reads: loads
-- writes: loads
-- invariant: load_id grows with every load; a row stands for a window that was committed with it
INSERT INTO loads
SELECT coalesce(max(load_id), 0) + 1, $run_id, $kind, $source, $from_ms, $to_ms, $rows, $dropped, $loaded_at
FROM loads;
