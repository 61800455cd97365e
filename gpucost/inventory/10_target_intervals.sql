-- reads: scrape_gaps
-- writes: target_intervals, one row per scraped kube-state-metrics target
-- invariant: interval_ms > 0
CREATE OR REPLACE TEMP TABLE target_intervals AS
SELECT source, cluster, job, instance, quantile_disc(gap_ms, 0.5) AS interval_ms
FROM scrape_gaps
WHERE gap_ms > 0
GROUP BY ALL;
