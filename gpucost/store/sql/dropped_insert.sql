-- reads: nothing
-- writes: dropped_samples
-- invariant: one row per (source, metric, hour, reason)
INSERT INTO dropped_samples VALUES ($source, $metric, $hour, $reason, $samples);
