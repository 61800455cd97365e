-- reads: report_claims
-- writes: report_team_shares, each pot cut by team: evenly, else by cost, by GPU time where nothing cost anything
-- invariant: per pot sum(amount) is the pot's amount, exactly; what rounding leaves goes to the largest share, then the first name
CREATE OR REPLACE TEMP TABLE report_team_shares AS
WITH teams AS (
    SELECT pot, split, amount, team, sum(cost) AS cost, sum(gpu_ms) AS gpu_ms FROM report_claims GROUP BY pot, split, amount, team
),
weighed AS (
    SELECT pot, amount, team,
        CASE WHEN split = 'even' THEN 1 WHEN sum(cost) OVER pots > 0 THEN cost ELSE gpu_ms END::DECIMAL(38, 9) AS weight
    FROM teams
    WINDOW pots AS (PARTITION BY pot)
),
-- cut off, not rounded: what is left is then never against the sign of the whole
cut AS (
    SELECT *, (trunc(amount * coalesce(weight::DOUBLE / nullif(sum(weight) OVER (PARTITION BY pot), 0)::DOUBLE, 0) * 1e9) / 1e9)::DECIMAL(38, 9) AS part
    FROM weighed
)
SELECT pot, team,
    part + CASE WHEN row_number() OVER (PARTITION BY pot ORDER BY weight DESC, team) = 1
        THEN amount - sum(part) OVER (PARTITION BY pot) ELSE 0 END AS amount
FROM cut;
