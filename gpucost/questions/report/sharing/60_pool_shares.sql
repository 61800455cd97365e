-- reads: report_claims
-- writes: pool_shares, each pool cut by team (evenly, otherwise by cost), a team's share by its allocations, an allocation's share by the report's time_buckets
-- invariant: per pool sum(amount) is the pool's amount, exactly; the rounding remainder goes to the largest share, then the first name, allocation or time_bucket
-- Without any cost, the cut is by GPU time.
CREATE OR REPLACE TEMP TABLE pool_shares AS
WITH teams AS (
    SELECT pool, split, amount, team, sum(cost) AS cost, sum(gpu_ms) AS gpu_ms FROM report_claims GROUP BY pool, split, amount, team
),
weighed_teams AS (
    SELECT pool, amount, team,
        CASE WHEN split = 'even' THEN 1 WHEN sum(cost) OVER pools > 0 THEN cost ELSE gpu_ms END::DECIMAL(38, 9) AS weight
    FROM teams
    WINDOW pools AS (PARTITION BY pool)
),
-- truncated, not rounded: the remainder then always has the sign of the whole
cut_teams AS (
    SELECT *, (trunc(amount * coalesce(weight::DOUBLE / nullif(sum(weight) OVER (PARTITION BY pool), 0)::DOUBLE, 0) * 1e9) / 1e9)::DECIMAL(38, 9) AS part
    FROM weighed_teams
),
team_shares AS (
    SELECT pool, team,
        part + CASE WHEN row_number() OVER (PARTITION BY pool ORDER BY weight DESC, team) = 1
            THEN amount - sum(part) OVER (PARTITION BY pool) ELSE 0 END AS amount
    FROM cut_teams
),
held AS (
    SELECT pool, team, node_id, allocation_id, sum(cost) AS cost, sum(gpu_ms) AS gpu_ms
    FROM report_claims
    GROUP BY pool, team, node_id, allocation_id
),
weighed_allocations AS (
    SELECT h.pool, h.team, h.node_id, h.allocation_id, t.amount,
        CASE WHEN sum(h.cost) OVER shares > 0 THEN h.cost ELSE h.gpu_ms END::DECIMAL(38, 9) AS weight
    FROM held AS h JOIN team_shares AS t ON t.pool = h.pool AND t.team IS NOT DISTINCT FROM h.team
    WINDOW shares AS (PARTITION BY h.pool, h.team)
),
cut_allocations AS (
    SELECT *, (trunc(amount * coalesce(weight::DOUBLE / nullif(sum(weight) OVER (PARTITION BY pool, team), 0)::DOUBLE, 0) * 1e9) / 1e9)::DECIMAL(38, 9) AS part
    FROM weighed_allocations
),
allocation_shares AS (
    SELECT pool, team, node_id, allocation_id,
        part + CASE WHEN row_number() OVER (PARTITION BY pool, team ORDER BY weight DESC, allocation_id, node_id) = 1
            THEN amount - sum(part) OVER (PARTITION BY pool, team) ELSE 0 END AS amount
    FROM cut_allocations
),
weighed AS (
    SELECT c.pool, c.team, c.node_id, c.allocation_id, c.time_bucket, s.amount,
        CASE WHEN sum(c.cost) OVER shares > 0 THEN c.cost ELSE c.gpu_ms END::DECIMAL(38, 9) AS weight
    FROM report_claims AS c
    JOIN allocation_shares AS s
        ON s.pool = c.pool AND s.team IS NOT DISTINCT FROM c.team AND s.node_id = c.node_id AND s.allocation_id = c.allocation_id
    WINDOW shares AS (PARTITION BY c.pool, c.team, c.node_id, c.allocation_id)
),
cut AS (
    SELECT *, (trunc(amount * coalesce(weight::DOUBLE / nullif(sum(weight) OVER shares, 0)::DOUBLE, 0) * 1e9) / 1e9)::DECIMAL(38, 9) AS part
    FROM weighed
    WINDOW shares AS (PARTITION BY pool, team, node_id, allocation_id)
)
SELECT pool, team, node_id, allocation_id, time_bucket,
    part + CASE WHEN row_number() OVER (PARTITION BY pool, team, node_id, allocation_id ORDER BY weight DESC, time_bucket) = 1
        THEN amount - sum(part) OVER (PARTITION BY pool, team, node_id, allocation_id) ELSE 0 END AS amount
FROM cut;
