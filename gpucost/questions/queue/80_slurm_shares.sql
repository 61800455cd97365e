-- reads: slurm_shares, slurm_accounts, allocations, hourly_costs; $from_ms, $to_ms the period; $half_life_ms; $clusters filter (empty: all)
-- writes: nothing; returns one row per account (user '') and user in the last output of sshare before the period's end: shares, usage and cost, including child accounts
-- invariant: cost_share is the share of the cost of the cluster's jobs in the period, halved with each half-life before the end
WITH RECURSIVE told AS (
    SELECT * FROM slurm_shares
    WHERE passes($clusters, cluster)
    -- the last before the end, otherwise the first after it
    QUALIFY row_number() OVER (PARTITION BY cluster, account, "user" ORDER BY seen_ms > $to_ms, abs($to_ms - seen_ms)) = 1
),
spent AS (
    SELECT a.cluster, a.namespace AS account, a."user", c.cost, c.cost::DOUBLE * 0.5 ** (($to_ms - c.from_ms) / $half_life_ms) AS decayed
    FROM hourly_costs($from_ms, $to_ms) AS c JOIN allocations AS a USING (allocation_id)
    WHERE a.account IS NOT NULL
),
above AS (
    SELECT DISTINCT cluster, account, account AS ancestor FROM spent
    UNION
    SELECT a.cluster, a.account, p.parent FROM above AS a JOIN slurm_accounts AS p ON p.cluster = a.cluster AND p.account = a.ancestor
    WHERE p.parent IS NOT NULL
),
sums AS (
    SELECT cluster, account, coalesce("user", '') AS "user", sum(cost) AS cost, sum(decayed) AS decayed FROM spent GROUP BY ALL
    UNION ALL
    SELECT s.cluster, a.ancestor, '', sum(s.cost), sum(s.decayed) FROM spent AS s JOIN above AS a USING (cluster, account) GROUP BY ALL
),
totals AS (
    SELECT cluster, sum(decayed) AS decayed FROM spent GROUP BY ALL
)
SELECT t.cluster, t.account, nullif(t."user", '') AS "user", t.norm_shares, t.effective_usage, t.fair_share,
    coalesce(s.cost, 0)::DECIMAL(38, 9) AS cost, coalesce(s.decayed, 0) / nullif(a.decayed, 0) AS cost_share
FROM told AS t
LEFT JOIN sums AS s USING (cluster, account, "user")
LEFT JOIN totals AS a USING (cluster)
ORDER BY t.cluster, t.account, t."user";
