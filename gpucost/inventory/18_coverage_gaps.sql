-- reads: state_intervals, family_spans, family_gaps, dead_targets, settings, expected_clusters, loads, series, untracked_time, declared_off, accepted_gaps, asked_hours, coverage_gaps
-- writes: coverage_gaps (stored), time that was not collected, bridged or off, and its acceptance; collected (stored), per cluster the time between gaps that were not collected or off
-- invariant: 'not_collected', 'bridged' and 'off' of one cluster do not overlap; rows are cut at the ends of declarations and acceptances; intervals of one cluster neither touch nor overlap; bridged time is within
INSERT INTO coverage_gaps BY NAME
WITH shards AS (
    SELECT cluster, unnest(range(value::BIGINT)) AS ordinal, value::BIGINT AS shards, first_ms, end_ms
    FROM state_intervals
    WHERE metric = 'kube_state_metrics_total_shards' AND value BETWEEN 2 AND 1000
),
shards_heard AS (
    SELECT cluster, coalesce(try_cast(labels['shard_ordinal'] AS BIGINT), value::BIGINT) AS ordinal, first_ms, last_ms, end_ms
    FROM state_intervals
    WHERE metric = 'kube_state_metrics_shard_ordinal'
),
-- either may change at an edge of the other
shard_edges AS (
    SELECT cluster, ordinal, first_ms AS at_ms FROM shards UNION SELECT cluster, ordinal, end_ms FROM shards
    UNION SELECT cluster, ordinal, first_ms FROM shards_heard UNION SELECT cluster, ordinal, end_ms FROM shards_heard
),
shard_pieces AS (
    SELECT cluster, ordinal, at_ms AS from_ms, lead(at_ms) OVER (PARTITION BY cluster, ordinal ORDER BY at_ms) AS to_ms FROM shard_edges
),
silent_shards AS (
    SELECT p.cluster, p.ordinal, p.from_ms, p.to_ms, max(w.shards) AS shards
    FROM shard_pieces AS p
    JOIN shards AS w ON w.cluster = p.cluster AND w.ordinal = p.ordinal AND w.first_ms <= p.from_ms AND p.to_ms <= w.end_ms
    ANTI JOIN shards_heard AS h ON h.cluster = p.cluster AND h.ordinal = p.ordinal AND h.first_ms <= p.from_ms AND p.to_ms <= h.end_ms
    GROUP BY ALL
),
shard_gaps AS (
    -- one of several shards of kube-state-metrics is missing, though another reports their number
    SELECT cluster, 'shard ' || ordinal + 1 || ' of ' || shards AS family, from_ms, to_ms FROM silent_shards
),
families AS (
    SELECT cluster, list(DISTINCT family ORDER BY family) FILTER (family <> 'state') AS families FROM family_spans GROUP BY cluster
),
heard AS (
    SELECT *, lag(end_ms) OVER w AS before_ms, lead(first_ms) OVER w AS after_ms FROM family_spans WHERE family = 'state'
    WINDOW w AS (PARTITION BY cluster ORDER BY first_ms)
),
queried AS (
    -- queries touch a little of the gap at both ends
    SELECT h.cluster, h.end_ms, sum(greatest(0, least(l.to_ms, h.after_ms) - greatest(l.from_ms, h.end_ms))) > 600000 AS queried
    FROM heard AS h
    JOIN (SELECT DISTINCT source, cluster FROM series) AS s USING (cluster)
    JOIN loads AS l ON l.source = s.source AND l.kind = 'prometheus' AND l.from_ms < h.after_ms AND h.end_ms < l.to_ms
    GROUP BY ALL
),
accounted AS (
    SELECT DISTINCT source AS cluster FROM loads WHERE kind = 'slurm'
),
silent AS (
    -- a first sample is valid from one scrape before, but not in an hour that was never queried
    SELECT cluster, 0 AS from_ms, greatest(begin_ms, first_ms // 3600000 * 3600000) AS to_ms,
        CASE WHEN cluster IN (FROM accounted) THEN 'before the first collection' ELSE 'before its first sample' END AS reason
    FROM heard WHERE before_ms IS NULL
    UNION ALL
    SELECT h.cluster, h.end_ms, coalesce(h.after_ms, 9223372036854775807),
        CASE WHEN h.after_ms IS NULL THEN CASE WHEN h.cluster IN (FROM accounted) THEN 'after the last collection' ELSE 'after its last sample' END
            WHEN coalesce(a.queried, false) THEN CASE WHEN f.families IS NULL THEN 'its exporters were silent' ELSE 'kube-state-metrics was silent' END
            ELSE 'not collected yet' END
    FROM heard AS h LEFT JOIN queried AS a ON a.cluster = h.cluster AND a.end_ms = h.end_ms LEFT JOIN families AS f ON f.cluster = h.cluster
    UNION ALL
    SELECT cluster, 0, 9223372036854775807, 'never collected' FROM expected_clusters WHERE cluster NOT IN (SELECT cluster FROM heard)
),
parts AS (
    SELECT s.cluster, s.from_ms, s.to_ms, coalesce(f.families, []) AS families, s.reason, 1 AS rank
    FROM silent AS s LEFT JOIN families AS f USING (cluster)
    UNION ALL
    SELECT cluster, from_ms, to_ms, [family], family || ' was silent', 2 FROM shard_gaps
    UNION ALL
    SELECT cluster, from_ms, to_ms, ['nodes', 'pods'], 'target ' || target || ' was silent', 2 FROM dead_targets
    UNION ALL
    SELECT cluster, from_ms, to_ms, [family], 'kube-state-metrics reported no ' || family, 3 FROM family_gaps
    UNION ALL
    SELECT cluster, from_ms, to_ms, ['gres/gpu'], 'AccountingStorageTRES of Slurm lacked a resource', 3 FROM untracked_time
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
    SELECT cluster, min(from_ms) AS from_ms, max(to_ms) AS to_ms FROM numbered GROUP BY cluster, number
),
missing_time AS (
    -- per cluster the intervals with missing families, and whether they are short enough to be bridged
    SELECT s.*, s.from_ms > 0 AND s.to_ms < 9223372036854775807 AND s.to_ms - s.from_ms <= c.max_bridge_ms AS is_bridged
    FROM stretches AS s CROSS JOIN settings AS c
    WHERE s.to_ms - s.from_ms > 600000
),
edges AS (
    SELECT cluster, from_ms, unnest([from_ms, to_ms]) AS at_ms FROM missing_time
    UNION
    -- a family missing up to the last sample, or from the first on, is not the reason for the gap after or before it
    SELECT m.cluster, m.from_ms, CASE s.from_ms WHEN 0 THEN s.to_ms ELSE s.from_ms END
    FROM missing_time AS m JOIN silent AS s ON s.cluster = m.cluster AND m.from_ms <= s.from_ms AND s.to_ms <= m.to_ms
    WHERE s.from_ms = 0 OR s.to_ms = 9223372036854775807
    UNION
    SELECT m.cluster, m.from_ms, unnest([greatest(o.from_ms, m.from_ms), least(o.to_ms, m.to_ms)])
    FROM missing_time AS m JOIN declared_off AS o ON o.cluster = m.cluster AND o.from_ms < m.to_ms AND m.from_ms < o.to_ms
    UNION
    SELECT m.cluster, m.from_ms, unnest([greatest(a.from_ms, m.from_ms), least(a.to_ms, m.to_ms)])
    FROM missing_time AS m
    JOIN accepted_gaps AS a ON coalesce(a.cluster, m.cluster) = m.cluster AND a.from_ms < m.to_ms AND m.from_ms < a.to_ms
),
pieces AS (
    SELECT cluster, from_ms AS stretch_ms, at_ms AS from_ms, lead(at_ms) OVER (PARTITION BY cluster, from_ms ORDER BY at_ms) AS to_ms FROM edges
),
reasons AS (
    SELECT p.*, list_sort(list_distinct(flatten(list(q.families)))) AS families, arg_min(q.reason, (q.rank, q.from_ms, q.reason)) AS reason
    FROM pieces AS p JOIN parts AS q ON q.cluster = p.cluster AND q.from_ms < p.to_ms AND p.from_ms < q.to_ms
    GROUP BY ALL
),
decided AS (
    SELECT p.cluster, p.stretch_ms, p.from_ms, p.to_ms, p.families, p.reason, m.is_bridged,
        EXISTS (FROM declared_off AS o WHERE o.cluster = p.cluster AND o.from_ms <= p.from_ms AND p.to_ms <= o.to_ms) AS is_off,
        (SELECT arg_min((a.who, a.why), a.ordinal) FROM accepted_gaps AS a
            WHERE coalesce(a.cluster, p.cluster) = p.cluster AND a.from_ms <= p.from_ms AND p.to_ms <= a.to_ms) AS signed
    FROM reasons AS p JOIN missing_time AS m ON m.cluster = p.cluster AND m.from_ms = p.stretch_ms
),
touched AS (
    SELECT *, bool_or(is_off) OVER (PARTITION BY cluster, stretch_ms) AS touches_off FROM decided
),
kinds AS (
    SELECT *, CASE
        -- minutes next to declared off time are not a gap; longer times are not bridged: the off end has no samples
        WHEN is_off OR (touches_off AND to_ms - from_ms <= 600000) THEN 'off'
        WHEN is_bridged AND NOT touches_off THEN 'bridged'
        ELSE 'not_collected' END AS kind
    FROM touched
),
partial_hours AS (
    SELECT DISTINCT s.cluster, a.hour FROM asked_hours AS a JOIN (SELECT DISTINCT source, cluster FROM series) AS s USING (source) WHERE a.is_partial
),
partial_runs AS (
    SELECT cluster, hour, hour - row_number() OVER (PARTITION BY cluster ORDER BY hour) AS run FROM partial_hours
)
SELECT cluster, from_ms, to_ms, kind, families,
    CASE WHEN kind = 'off' THEN 'declared off in [[clusters]]' ELSE reason END AS reason,
    CASE WHEN kind = 'not_collected' THEN signed[1] END AS accepted_by,
    CASE WHEN kind = 'not_collected' THEN signed[2] END AS accepted_why
FROM kinds
UNION ALL
SELECT cluster, min(hour)::BIGINT * 3600000, (max(hour) + 1)::BIGINT * 3600000, 'partial', [], 'the server marked its answer as partial', NULL, NULL
FROM partial_runs
GROUP BY cluster, run;

INSERT INTO collected BY NAME
WITH missed AS (
    SELECT cluster, from_ms, to_ms FROM coverage_gaps WHERE kind IN ('not_collected', 'off')
)
SELECT cluster, to_ms AS from_ms, lead(from_ms) OVER (PARTITION BY cluster ORDER BY from_ms) AS to_ms
FROM missed
QUALIFY lead(from_ms) OVER (PARTITION BY cluster ORDER BY from_ms) > to_ms;
