-- reads: series_rows; $by is a dimension, $apart: unallocated and not collected cost are layers of their own, $most: the number of named layers; `part` names the team in a report on each team
-- writes: nothing; returns cost by layer and moment: the most expensive names, the others in one, unallocated, not collected; `rank` orders the names, `names` counts them
-- invariant: cost over all layers is cost + unallocated_cost + not_collected_cost over series_rows
WITH parts AS (
    SELECT
        part_of(team) AS part,
        moment,
        CASE WHEN $apart AND kind <> 'allocated' THEN kind END AS pool,
        CASE $by
            WHEN 'team' THEN team WHEN 'namespace' THEN namespace WHEN 'workload' THEN workload WHEN 'cluster' THEN cluster
            WHEN 'gpu_model' THEN gpu_model WHEN 'capacity_type' THEN capacity_type
        END AS name,
        cost + unallocated_cost + not_collected_cost AS cost
    FROM series_rows
),
ranked AS (
    SELECT part, name, row_number() OVER (PARTITION BY part ORDER BY sum(cost) DESC, name) AS rank
    FROM parts WHERE pool IS NULL GROUP BY part, name
),
-- a single remaining name gets a layer of its own instead of "others"
counted AS (
    SELECT part, count(*) AS names, CASE WHEN count(*) <= $most + 1 THEN count(*) ELSE $most END AS shown FROM ranked GROUP BY part
),
layers AS (
    SELECT
        p.part,
        p.moment,
        coalesce(p.pool, CASE WHEN r.rank <= c.shown THEN 'named' ELSE 'others' END) AS kind,
        CASE WHEN p.pool IS NULL AND r.rank <= c.shown THEN r.rank END               AS rank,
        CASE WHEN p.pool IS NULL AND r.rank <= c.shown THEN p.name END               AS name,
        coalesce(c.names - c.shown, 0)                                               AS names,
        sum(p.cost)                                                                  AS cost
    FROM parts AS p
    LEFT JOIN counted AS c ON c.part IS NOT DISTINCT FROM p.part
    LEFT JOIN ranked AS r ON p.pool IS NULL AND r.part IS NOT DISTINCT FROM p.part AND r.name IS NOT DISTINCT FROM p.name
    GROUP BY ALL
)
FROM layers
ORDER BY part, list_position(['named', 'others', 'unallocated', 'not_collected'], kind), rank, moment;
