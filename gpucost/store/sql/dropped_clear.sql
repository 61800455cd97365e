-- reads: nothing
-- writes: dropped_samples
-- invariant: what is removed is about to be counted anew: these metrics of this source, in these hours
DELETE FROM dropped_samples
WHERE source = $source AND hour >= $from_hour AND hour < $to_hour AND list_contains($metrics, metric);
