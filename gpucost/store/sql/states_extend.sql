-- reads: merged, touched (both temporary)
-- writes: states.last_ms
-- invariant: a run that only goes on keeps its row, so that a month of windows does not rewrite the table again and again
UPDATE states
SET last_ms = m.last_ms
FROM merged m
JOIN touched t ON t.series_id = m.series_id AND t.first_ms = m.first_ms AND t.value = m.value
WHERE states.series_id = m.series_id AND states.first_ms = m.first_ms AND states.last_ms <> m.last_ms;
