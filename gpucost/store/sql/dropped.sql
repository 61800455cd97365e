-- reads: dropped_samples
-- writes: nothing; answers one row per (source, reason, metric)
-- invariant: every count is in exactly one row
SELECT source, reason, metric, sum(samples)::BIGINT
FROM dropped_samples
GROUP BY source, reason, metric
ORDER BY source, reason, metric;
