-- reads: facts
-- writes: shard_gaps, when one of several shards of kube-state-metrics was not heard though another said that there are as many
-- invariant: from_ms < to_ms; none where the number of shards is not exported, or is 1
CREATE OR REPLACE TEMP TABLE shard_gaps AS
WITH wanted AS (
    SELECT cluster, unnest(range(value::BIGINT)) AS ordinal, value::BIGINT AS shards, first_ms, end_ms
    FROM facts
    WHERE metric = 'kube_state_metrics_total_shards' AND value BETWEEN 2 AND 1000
),
heard AS (
    SELECT cluster, coalesce(try_cast(labels['shard_ordinal'] AS BIGINT), value::BIGINT) AS ordinal, first_ms, last_ms, end_ms
    FROM facts
    WHERE metric = 'kube_state_metrics_shard_ordinal'
),
-- where the one begins or ends, the other may
edges AS (
    SELECT cluster, ordinal, first_ms AS at_ms FROM wanted UNION SELECT cluster, ordinal, end_ms FROM wanted
    UNION SELECT cluster, ordinal, first_ms FROM heard UNION SELECT cluster, ordinal, end_ms FROM heard
),
pieces AS (
    SELECT cluster, ordinal, at_ms AS from_ms, lead(at_ms) OVER (PARTITION BY cluster, ordinal ORDER BY at_ms) AS to_ms FROM edges
),
silent AS (
    SELECT p.cluster, p.ordinal, p.from_ms, p.to_ms, max(w.shards) AS shards
    FROM pieces AS p
    JOIN wanted AS w ON w.cluster = p.cluster AND w.ordinal = p.ordinal AND w.first_ms <= p.from_ms AND p.to_ms <= w.end_ms
    ANTI JOIN heard AS h ON h.cluster = p.cluster AND h.ordinal = p.ordinal AND h.first_ms <= p.from_ms AND p.to_ms <= h.end_ms
    GROUP BY ALL
)
SELECT cluster, 'shard ' || ordinal + 1 || ' of ' || shards AS family, from_ms, to_ms FROM silent;
