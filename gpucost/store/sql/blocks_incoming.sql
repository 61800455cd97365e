-- reads: window_blocks (registered: the blocks of a window), blocks
-- writes: incoming (temporary): the blocks that are new, or that replace one with no more samples
-- invariant: a block equal to the stored one is left out, so that loading a window twice changes nothing
CREATE OR REPLACE TEMP TABLE incoming AS
WITH arrived AS (
    SELECT w.series_id, w.hour, w.samples, w.value_sum, w.idle_samples, w.idle_threshold, w.first_offset_ms,
           nullif(w.step_ms, -1) AS step_ms, nullif(w.offsets_ms, []) AS offsets_ms, nullif(w.gap_ms, -1) AS gap_ms, w.last_offset_ms, w.last_value, w.vals,
           CASE WHEN len(w.offsets_ms) > 1 THEN w.idle_ms END AS idle_ms, CASE WHEN len(w.offsets_ms) > 1 THEN w.value_ms END AS value_ms,
           CASE WHEN len(w.offsets_ms) > 1 THEN w.longest_ms END AS longest_ms
    FROM window_blocks w
)
SELECT a.*
FROM arrived a
LEFT JOIN (SELECT * FROM blocks WHERE hour BETWEEN $from_hour AND $to_hour) b USING (series_id, hour)
WHERE b.series_id IS NULL
   OR (a.samples >= b.samples
       AND (a.samples <> b.samples OR a.idle_threshold <> b.idle_threshold OR a.first_offset_ms <> b.first_offset_ms
            OR a.step_ms IS DISTINCT FROM b.step_ms OR a.offsets_ms IS DISTINCT FROM b.offsets_ms OR a.vals IS DISTINCT FROM b.vals));
