-- reads: day_fingerprints; the span [span_from_ms, span_to_ms)
-- writes: attributed_days (stored), the days of the span with what they were made from
-- invariant: one row per day
INSERT INTO attributed_days BY NAME
FROM day_fingerprints WHERE from_ms >= getvariable('span_from_ms') AND from_ms < getvariable('span_to_ms');
