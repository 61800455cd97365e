-- reads: incoming (temporary)
-- writes: blocks
-- invariant: one row per (series, hour); rows are written in that order, so that values compress and scans skip
INSERT INTO blocks (series_id, hour, samples, value_sum, idle_samples, idle_threshold, first_offset_ms, step_ms, offsets_ms,
                    gap_ms, last_offset_ms, last_value, vals)
SELECT series_id, hour, samples, value_sum, idle_samples, idle_threshold, first_offset_ms, step_ms, offsets_ms,
       gap_ms, last_offset_ms, last_value, vals
FROM incoming
ORDER BY series_id, hour;
