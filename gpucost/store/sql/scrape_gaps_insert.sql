-- reads: window_gaps (registered: a window's gaps)
-- writes: scrape_gaps
-- invariant: one row per (source, cluster, job, instance, hour)
INSERT INTO scrape_gaps
SELECT $source, cluster, job, instance, hour, gap_ms
FROM window_gaps;
