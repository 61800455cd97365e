-- reads: merged, touched (both temporary)
-- writes: states
-- invariant: a touched run that merged does not hold, with its value, is gone
DELETE FROM states
USING (
    SELECT t.series_id, t.first_ms
    FROM touched t
    ANTI JOIN merged m ON m.series_id = t.series_id AND m.first_ms = t.first_ms AND m.value = t.value
) gone
WHERE states.series_id = gone.series_id AND states.first_ms = gone.first_ms;
