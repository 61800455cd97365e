-- reads: machine_parts, row_classes
-- writes: machine_shares, what of each machine hour's billed cost is whose, by line and team: in the ratio of its effective cost
-- invariant: per machine hour they add up to what its rows are billed, exactly: what rounding leaves goes to the largest share, and with it the count of rows
CREATE OR REPLACE TEMP TABLE machine_shares AS
WITH parts AS (
    SELECT machine_hour, line, team, sum(cost) AS cost,
        -- what machines take over from each other, and what they were seen longer than billed, is nobody's
        CASE WHEN line IN ('seen_beyond_billed_hours', 'shared_in_pool', 'settled_in_other_periods') THEN 0 ELSE greatest(sum(cost), 0) END AS weight
    FROM machine_parts
    GROUP BY machine_hour, line, team
),
shares AS (
    SELECT p.machine_hour, p.line, p.team, c.rows, c.billed_cost,
        row_number() OVER (PARTITION BY p.machine_hour ORDER BY p.weight DESC, abs(p.cost) DESC, p.line, p.team) = 1 AS takes_rest,
        (c.billed_cost * coalesce(p.weight / nullif(sum(p.weight) OVER hour, 0), 0))::DECIMAL(38, 12) AS share
    FROM parts AS p JOIN row_classes AS c USING (machine_hour)
    WINDOW hour AS (PARTITION BY p.machine_hour)
)
SELECT line, team, CASE WHEN takes_rest THEN rows ELSE 0 END AS rows,
    share + CASE WHEN takes_rest THEN billed_cost - sum(share) OVER (PARTITION BY machine_hour) ELSE 0 END AS billed_cost
FROM shares;
