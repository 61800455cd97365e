-- reads: window_hours (registered: how many samples each hour's answer held), asked_hours; $asked_at is now
-- writes: asked_hours
-- invariant: one row per (source, hour); first_at stays where the answer holds as many samples as the last one, unless a clock went back
MERGE INTO asked_hours AS a
USING window_hours AS w ON a.source = $source AND a.hour = w.hour
WHEN MATCHED AND a.samples = w.samples AND a.first_at <= $asked_at THEN UPDATE SET last_at = $asked_at, is_partial = $is_partial
WHEN MATCHED THEN UPDATE SET samples = w.samples, first_at = $asked_at, last_at = $asked_at, is_partial = $is_partial
WHEN NOT MATCHED THEN INSERT VALUES ($source, w.hour, w.samples, $asked_at, $asked_at, $is_partial);
