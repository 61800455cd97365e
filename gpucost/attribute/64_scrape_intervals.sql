-- reads: blocks, node_devices; the span [span_from_ms, span_to_ms)
-- writes: scrape_intervals, one row per (scrape target, hour) with samples: the interval for which samples are valid if the next is too far away, and the previous hour's, if it has samples
-- invariant: interval_ms > 0; it depends on the hour and its neighbors only, so a later change of scraping does not affect it
-- only with: node_devices, told_activity
CREATE OR REPLACE TEMP TABLE scrape_intervals AS
WITH hours AS (
    -- Series of one target are scraped together. The median gap of the series with the most samples counts (the
    -- shortest of equals), since others lost invalid samples. Samples and gap are packed into one number.
    SELECT t.target_id, t.job_id, b.hour,
        4194303 - max(b.samples * 4194304::BIGINT + 4194303 - b.gap_ms) FILTER (b.samples >= 3 AND b.gap_ms > 0) % 4194304 AS median_ms,
        min(b.gap_ms) FILTER (b.gap_ms > 0) AS gap_ms
    FROM blocks AS b JOIN node_devices AS t USING (series_id)
    -- one hour more on either side than 66_device_hours reads
    WHERE b.hour >= getvariable('span_from_ms') // 3600000 - 4 AND b.hour <= getvariable('span_to_ms') // 3600000 + 4
    GROUP BY ALL
),
medians AS (
    -- the longest of the three: if the interval changes within an hour, a median would leave longer gaps unmeasured
    SELECT target_id, job_id, hour, gap_ms,
        greatest(median_ms, CASE WHEN lag(hour) OVER w = hour - 1 THEN lag(median_ms) OVER w END,
            CASE WHEN lead(hour) OVER w = hour + 1 THEN lead(median_ms) OVER w END) AS interval_ms
    FROM hours
    WINDOW w AS (PARTITION BY target_id ORDER BY hour)
),
jobs AS (
    SELECT job_id, hour, quantile_disc(interval_ms, 0.5) AS interval_ms FROM medians WHERE interval_ms IS NOT NULL GROUP BY ALL
),
intervals AS (
    SELECT m.target_id, m.hour, coalesce(m.interval_ms, j.interval_ms, m.gap_ms, 60000)::INTEGER AS interval_ms
    FROM medians AS m LEFT JOIN jobs AS j USING (job_id, hour)
)
SELECT *, CASE WHEN lag(hour) OVER w = hour - 1 THEN lag(interval_ms) OVER w END AS prev_interval_ms
FROM intervals
WINDOW w AS (PARTITION BY target_id ORDER BY hour);
