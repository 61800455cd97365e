-- reads: machine_parts, machine_hours, row_classes
-- writes: machine_shares, the billed cost of each machine hour, and of fees on a machine, by line and team: in the ratio of effective cost
-- invariant: per machine hour or fee the shares add up to the billed cost of its rows, exactly: the rounding remainder goes to the largest share, and with it the count of rows
CREATE OR REPLACE TEMP TABLE machine_shares AS
WITH places AS (
    SELECT machine_hour AS place, line, team, cost FROM machine_parts
    UNION ALL
    SELECT h.machine, p.line, p.team, p.cost
    FROM machine_parts AS p JOIN machine_hours AS h USING (machine_hour)
    WHERE h.machine IN (SELECT place FROM row_classes)
),
parts AS (
    SELECT place, line, team, sum(cost) AS cost,
        -- cost moved between machines, and time seen beyond the billed hours, has no team
        CASE WHEN line IN ('seen_beyond_billed_hours', 'shared_in_pool', 'settled_in_other_periods') THEN 0 ELSE greatest(sum(cost), 0) END AS weight
    FROM places
    GROUP BY place, line, team
),
shares AS (
    SELECT p.place, p.line, p.team, c.rows, c.billed_cost,
        row_number() OVER (PARTITION BY p.place ORDER BY p.weight DESC, abs(p.cost) DESC, p.line, p.team) = 1 AS takes_rest,
        (c.billed_cost * coalesce(p.weight / nullif(sum(p.weight) OVER w, 0), 0))::DECIMAL(38, 12) AS share
    FROM parts AS p JOIN row_classes AS c USING (place)
    WINDOW w AS (PARTITION BY p.place)
)
SELECT line, team, CASE WHEN takes_rest THEN rows ELSE 0 END AS rows,
    share + CASE WHEN takes_rest THEN billed_cost - sum(share) OVER (PARTITION BY place) ELSE 0 END AS billed_cost
FROM shares;
