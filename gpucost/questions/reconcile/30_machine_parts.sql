-- reads: hourly_costs, billed_nodes, machine_hours
-- writes: machine_parts, the parts of the effective cost of each machine hour: attributed to metrics at the bill's prices, and the rest, by line and team
-- invariant: estimates are not part of it; the parts of all machine hours add up to their effective cost
CREATE OR REPLACE TEMP TABLE machine_parts AS
WITH covered AS (
    SELECT m.machine_hour, b.node_id, m.from_ms, m.to_ms
    FROM machine_hours AS m JOIN billed_nodes AS b USING (instance_key)
    WHERE m.is_first AND m.price_per_hour IS NOT NULL
),
attributed AS (
    SELECT h.machine_hour, CASE c.kind WHEN 'allocated' THEN 'attributed' ELSE c.kind END AS line, c.team,
        sum(c.cost + c.unallocated_cost + c.not_collected_cost - c.estimated_cost) AS cost
    FROM hourly_costs((SELECT min(from_ms) - 3600000 FROM covered), (SELECT max(to_ms) + 3600000 FROM covered)) AS c
    JOIN covered AS h ON h.node_id = c.node_id AND h.from_ms < c.to_ms AND c.from_ms < h.to_ms
    GROUP BY ALL
),
hours AS (
    SELECT *, (price_per_hour * instance_hours)::DECIMAL(38, 9) AS hours_cost FROM machine_hours
),
-- an hour in several currencies has one price; the attributed cost is split among the currencies by cost
several AS (
    SELECT f.machine_hour AS first_hour, h.machine_hour, h.hours_cost / nullif(sum(h.hours_cost) OVER w, 0) AS share
    FROM hours AS h JOIN hours AS f ON f.is_first AND f.instance_key = h.instance_key AND f.from_ms = h.from_ms
    WINDOW w AS (PARTITION BY f.machine_hour)
    QUALIFY min(h.currency) OVER w < max(h.currency) OVER w
),
split AS (
    SELECT s.machine_hour, s.first_hour, a.line, a.team, a.cost, (a.cost * coalesce(s.share, 0))::DECIMAL(38, 9) AS part,
        row_number() OVER (PARTITION BY s.first_hour, a.line, a.team ORDER BY s.share DESC NULLS LAST, s.machine_hour) = 1 AS takes_rest
    FROM attributed AS a JOIN several AS s ON s.first_hour = a.machine_hour
),
metric_parts AS (
    FROM attributed WHERE machine_hour NOT IN (SELECT first_hour FROM several)
    UNION ALL
    SELECT machine_hour, line, team,
        part + CASE WHEN takes_rest THEN cost - sum(part) OVER (PARTITION BY first_hour, line, team) ELSE 0 END
    FROM split
),
priced AS (
    SELECT h.*, CASE WHEN s.machine_hour IS NULL THEN (h.price_per_hour * (h.seen_ms / 3600000.0))::DECIMAL(38, 9) ELSE coalesce(p.cost, 0) END AS seen_cost
    FROM hours AS h
    LEFT JOIN several AS s USING (machine_hour)
    LEFT JOIN (SELECT machine_hour, sum(cost) AS cost FROM metric_parts WHERE line <> 'not_collected' GROUP BY ALL) AS p USING (machine_hour)
),
lines AS (
    FROM metric_parts
    UNION ALL
    SELECT machine_hour, CASE WHEN NOT has_node THEN 'instances_without_metrics' WHEN hours_cost >= seen_cost THEN 'outside_node_life' ELSE 'seen_beyond_billed_hours' END,
        NULL, hours_cost - seen_cost
    FROM priced
    WHERE price_per_hour IS NOT NULL
    UNION ALL
    -- a pool's price spreads its cost over its hours: over the pool the rest is zero, unless another billing period
    -- corrects some hours
    SELECT machine_hour, CASE WHEN is_unexplained THEN 'billed_in_part' WHEN is_settled_elsewhere OR price_per_hour IS NULL THEN 'settled_in_other_periods' ELSE 'shared_in_pool' END,
        NULL, effective_cost - coalesce(hours_cost, 0)
    FROM priced
    UNION ALL
    -- not collected time has a line of its own, so it is subtracted here
    SELECT machine_hour, 'outside_node_life', NULL, -cost FROM metric_parts WHERE line = 'not_collected'
)
SELECT machine_hour, line, team, sum(cost)::DECIMAL(38, 9) AS cost FROM lines GROUP BY ALL;
