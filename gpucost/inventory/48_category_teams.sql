-- reads: node_facts, bill_rows, team_categories, the variable has_team_categories
-- writes: category_teams, the team of each node whose bill carries an AWS cost category that names one
-- invariant: at most one row per node: the newest charge's categories count, and of several teams the first listed
CREATE OR REPLACE TEMP TABLE category_teams AS
WITH machines AS (
    SELECT node_id, cluster, regexp_extract(lower(machine_id), '[^/]+$') AS instance_key FROM node_facts
),
newest AS (
    SELECT m.node_id, m.cluster, arg_max(r.cost_categories, r.charge_period_start) AS categories
    FROM machines AS m JOIN bill_rows AS r USING (instance_key)
    WHERE getvariable('has_team_categories') AND r.kind = 'instance' AND r.cost_categories IS NOT NULL
    GROUP BY ALL
),
carried AS (
    SELECT node_id, cluster, unnest(map_entries(categories)) AS category FROM newest
)
SELECT c.node_id, arg_min(t.team, t.ordinal) AS team
FROM carried AS c
JOIN team_categories AS t
    -- deliveries differ in how they spell a category's name
    ON regexp_replace(lower(t.category), '[\W_]+', '', 'g') = regexp_replace(lower(c.category.key), '[\W_]+', '', 'g')
    AND t.value = c.category.value
    AND (len(t.clusters) = 0 OR len(list_filter(t.clusters, lambda pattern: c.cluster GLOB pattern)) > 0)
GROUP BY ALL;
