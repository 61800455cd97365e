-- reads: allocated, label_history, settings, team_globs, team_values, node_facts, bill_rows, team_categories; the variable has_team_categories
-- writes: allocation_teams, one row per (allocation, span of unchanged labels): its team
-- invariant: an allocation's spans cover all time without overlap; team is never null
INSERT INTO allocation_teams BY NAME
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
),
category_teams AS (
    -- the team of each node whose bill has an AWS cost category of a team
    SELECT c.node_id, arg_min(t.team, t.ordinal) AS team
    FROM carried AS c
    JOIN team_categories AS t
        -- deliveries spell a category's name differently
        ON regexp_replace(lower(t.category), '[\W_]+', '', 'g') = regexp_replace(lower(c.category.key), '[\W_]+', '', 'g')
        AND t.value = c.category.value
        AND (len(t.clusters) = 0 OR len(list_filter(t.clusters, lambda pattern: c.cluster GLOB pattern)) > 0)
    GROUP BY ALL
),
pieces AS (
    SELECT a.allocation_id, a.cluster, a.namespace, k.team AS by_category,
        p.labels AS pod_labels, n.labels AS namespace_labels,
        greatest(coalesce(p.from_ms, 0), coalesce(n.from_ms, 0), 0) AS from_ms,
        least(coalesce(p.to_ms, 9223372036854775807), coalesce(n.to_ms, 9223372036854775807)) AS to_ms
    FROM allocated AS a
    LEFT JOIN label_history AS p ON p.kind = 'pod' AND p.cluster = a.cluster AND p.name = a.uid
    LEFT JOIN label_history AS n ON n.kind = 'namespace' AND n.cluster = a.cluster AND n.name = a.namespace
    LEFT JOIN category_teams AS k USING (node_id)
),
exported AS (
    SELECT DISTINCT s.cluster FROM label_history AS s CROSS JOIN settings AS c
    WHERE s.kind = 'namespace' AND s.labels[c.team_namespace_label] IS NOT NULL
),
labeled AS (
    SELECT i.*, c.teams_configured,
        e.cluster IS NOT NULL AS labels_exported,
        CASE WHEN i.pod_labels[c.team_pod_label] IS NOT NULL THEN c.team_pod_label ELSE c.team_namespace_label END AS label,
        coalesce(i.pod_labels[c.team_pod_label], i.namespace_labels[c.team_namespace_label]) AS value
    FROM pieces AS i CROSS JOIN settings AS c LEFT JOIN exported AS e ON e.cluster = i.cluster
    WHERE i.from_ms < i.to_ms
),
decided AS (
    SELECT l.allocation_id, l.from_ms, l.to_ms,
        coalesce(
            arg_min(v.team, v.ordinal) FILTER (v.label = l.label AND v.value = l.value),
            any_value(l.value),
            arg_min(v.team, v.ordinal) FILTER (v.value IN (l.pod_labels[v.label], l.namespace_labels[v.label]))
        ) AS by_label,
        arg_min(g.team, g.ordinal) AS by_glob,
        any_value(l.by_category) AS by_category,
        any_value(CASE WHEN NOT l.teams_configured AND NOT l.labels_exported THEN l.namespace END) AS own
    FROM labeled AS l
    LEFT JOIN team_values AS v ON v.value IN (l.value, l.pod_labels[v.label], l.namespace_labels[v.label])
    LEFT JOIN team_globs AS g ON l.namespace GLOB g.pattern AND (len(g.clusters) = 0 OR list_contains(g.clusters, l.cluster))
    GROUP BY ALL
)
SELECT allocation_id, from_ms, to_ms, coalesce(by_label, by_glob, by_category, own, 'unassigned') AS team FROM decided;
