-- reads: merged, touched (both temporary)
-- writes: states
-- invariant: (series_id, first_ms) is unique in states, and a series' runs do not overlap
INSERT INTO states
SELECT m.series_id, m.value, m.first_ms, m.last_ms
FROM merged m
ANTI JOIN touched t ON t.series_id = m.series_id AND t.first_ms = m.first_ms AND t.value = m.value
ORDER BY m.series_id, m.first_ms;
