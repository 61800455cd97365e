-- reads: family_spans, shard_gaps, family_gaps, settings, expected_clusters, loads, series
-- writes: missing_time, per cluster the stretches that were not seen whole: of which families, and whether they are short enough to be bridged
-- invariant: stretches of a cluster neither touch nor overlap, and are longer than 10 minutes; the first begins since ever, the last goes on for ever
CREATE OR REPLACE TEMP TABLE missing_time AS
WITH families AS (
    SELECT cluster, list(DISTINCT family ORDER BY family) FILTER (family <> 'state') AS families FROM family_spans GROUP BY cluster
),
heard AS (
    SELECT *, lag(end_ms) OVER w AS before_ms, lead(first_ms) OVER w AS after_ms FROM family_spans WHERE family = 'state'
    WINDOW w AS (PARTITION BY cluster ORDER BY first_ms)
),
asked AS (
    -- windows meet a little of the silence at both ends
    SELECT h.cluster, h.end_ms, sum(greatest(0, least(l.to_ms, h.after_ms) - greatest(l.from_ms, h.end_ms))) > 600000 AS asked
    FROM heard AS h
    JOIN (SELECT DISTINCT source, cluster FROM series) AS s USING (cluster)
    JOIN loads AS l ON l.source = s.source AND l.kind = 'prometheus' AND l.from_ms < h.after_ms AND h.end_ms < l.to_ms
    GROUP BY ALL
),
silent AS (
    -- what a first sample says was so one scrape before; not in an hour that nobody was asked about
    SELECT cluster, 0 AS from_ms, greatest(begin_ms, first_ms // 3600000 * 3600000) AS to_ms, 'before its first sample' AS reason FROM heard WHERE before_ms IS NULL
    UNION ALL
    SELECT h.cluster, h.end_ms, coalesce(h.after_ms, 9223372036854775807),
        CASE WHEN h.after_ms IS NULL THEN 'after its last sample' WHEN coalesce(a.asked, false) THEN 'kube-state-metrics was silent'
            ELSE 'not collected yet' END
    FROM heard AS h LEFT JOIN asked AS a ON a.cluster = h.cluster AND a.end_ms = h.end_ms
    UNION ALL
    SELECT cluster, 0, 9223372036854775807, 'nothing was ever collected of it' FROM expected_clusters WHERE cluster NOT IN (SELECT cluster FROM heard)
),
parts AS (
    SELECT s.cluster, s.from_ms, s.to_ms, coalesce(f.families, []) AS families, s.reason, 1 AS rank
    FROM silent AS s LEFT JOIN families AS f USING (cluster)
    UNION ALL
    SELECT cluster, from_ms, to_ms, [family], family || ' was silent', 2 FROM shard_gaps
    UNION ALL
    SELECT cluster, from_ms, to_ms, [family], 'kube-state-metrics reported no ' || family, 3 FROM family_gaps
),
marked AS (
    SELECT *, coalesce(from_ms > max(to_ms) OVER (
        PARTITION BY cluster ORDER BY from_ms, to_ms ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true) AS begins
    FROM parts
    WHERE from_ms < to_ms
),
numbered AS (
    SELECT *, sum(begins::INTEGER) OVER (PARTITION BY cluster ORDER BY from_ms, to_ms) AS number FROM marked
),
stretches AS (
    SELECT cluster, min(from_ms) AS from_ms, max(to_ms) AS to_ms, list_sort(list_distinct(flatten(list(families)))) AS families,
        arg_min(reason, (rank, from_ms)) AS reason
    FROM numbered
    GROUP BY cluster, number
)
SELECT s.*, s.from_ms > 0 AND s.to_ms < 9223372036854775807 AND s.to_ms - s.from_ms <= c.max_bridge_ms AS is_bridged
FROM stretches AS s CROSS JOIN settings AS c
WHERE s.to_ms - s.from_ms > 600000;
