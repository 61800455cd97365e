-- reads: loads
-- writes: nothing; answers one row per source
-- invariant: every load is counted in exactly one row; the period begins with data, where there ever was any
SELECT kind, source, count(*), coalesce(min(from_ms) FILTER (rows + dropped > 0), min(from_ms)), max(to_ms), sum(rows)::BIGINT,
       sum(dropped)::BIGINT, max(loaded_at)::TIMESTAMPTZ
FROM loads
GROUP BY kind, source
ORDER BY kind, source;
