-- reads: scrape_gaps
-- writes: target_intervals, one row per kube-state-metrics target and hour that it was scraped in or next to: how far its scrapes lay apart then
-- invariant: interval_ms > 0; the hour itself decides, else the one before, else the one after
CREATE OR REPLACE TEMP TABLE target_intervals AS
SELECT g.source, g.cluster, g.job, g.instance, g.hour + n.hours AS hour, arg_min(g.gap_ms, n.rank) AS interval_ms
FROM scrape_gaps AS g CROSS JOIN (VALUES (0, 1), (1, 2), (-1, 3)) AS n (hours, rank)
WHERE g.gap_ms > 0
GROUP BY ALL;
