-- reads: report_claims, report_team_shares
-- writes: report_allocation_shares, each team's share cut by what it held: by cost, by GPU time where nothing cost anything
-- invariant: per pot and team sum(amount) is the team's share, exactly; what rounding leaves goes to the largest share, then the smallest allocation
CREATE OR REPLACE TEMP TABLE report_allocation_shares AS
WITH held AS (
    SELECT pot, team, node_id, allocation_id, sum(cost) AS cost, sum(gpu_ms) AS gpu_ms
    FROM report_claims
    GROUP BY pot, team, node_id, allocation_id
),
weighed AS (
    SELECT h.pot, h.team, h.node_id, h.allocation_id, t.amount,
        CASE WHEN sum(h.cost) OVER shares > 0 THEN h.cost ELSE h.gpu_ms END::DECIMAL(38, 9) AS weight
    FROM held AS h JOIN report_team_shares AS t ON t.pot = h.pot AND t.team IS NOT DISTINCT FROM h.team
    WINDOW shares AS (PARTITION BY h.pot, h.team)
),
cut AS (
    SELECT *, (trunc(amount * coalesce(weight::DOUBLE / nullif(sum(weight) OVER (PARTITION BY pot, team), 0)::DOUBLE, 0) * 1e9) / 1e9)::DECIMAL(38, 9) AS part
    FROM weighed
)
SELECT pot, team, node_id, allocation_id,
    part + CASE WHEN row_number() OVER (PARTITION BY pot, team ORDER BY weight DESC, allocation_id, node_id) = 1
        THEN amount - sum(part) OVER (PARTITION BY pot, team) ELSE 0 END AS amount
FROM cut;
