-- reads: window_gaps (registered: a window's gaps)
-- writes: scrape_gaps
-- invariant: what is removed is about to be written anew
DELETE FROM scrape_gaps
USING window_gaps w
WHERE scrape_gaps.source = $source AND scrape_gaps.cluster = w.cluster AND scrape_gaps.job = w.job
  AND scrape_gaps.instance = w.instance AND scrape_gaps.hour = w.hour;
