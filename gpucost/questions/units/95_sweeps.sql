-- reads: unit_run_places, unit_experiments; $metric names the best trial (null: the first of $losses that any trial has), $sign 1 where the least is best, else -1, $is_narrowed: only some workloads are asked for
-- writes: nothing; answers one row per sweep, the dearest first: its trials, what it cost with all that lies within it, and its best trial
-- invariant: cost counts each run within the sweep once
WITH RECURSIVE known AS (
    SELECT * FROM unit_run_places
    WHERE NOT $is_narrowed OR run_id IN (SELECT run_id FROM unit_experiments) OR run_id IN (SELECT parent_id FROM unit_experiments)
),
costs AS (
    SELECT run_id, cost FROM unit_experiments WHERE run_id IS NOT NULL
),
runs_within AS (
    SELECT parent_id AS sweep_id, parent_id AS run_id FROM known WHERE parent_id <> ''
    UNION
    SELECT w.sweep_id, k.run_id FROM runs_within AS w JOIN known AS k ON k.parent_id = w.run_id
),
sweeps AS (
    SELECT w.sweep_id, coalesce(sum(c.cost), 0)::DECIMAL(38, 9) AS cost FROM runs_within AS w LEFT JOIN costs AS c USING (run_id) GROUP BY ALL
),
trials AS (
    SELECT parent_id AS sweep_id, count(*) AS trials, arg_min(experiment, (started_ms, run_id)) AS experiment,
        list_distinct(flatten(list(map_keys(metrics)))) AS names
    FROM known WHERE parent_id <> '' GROUP BY parent_id
),
scored AS (
    SELECT t.*, coalesce($metric, list_filter($losses::VARCHAR[], lambda name: list_contains(t.names, name))[1]) AS metric FROM trials AS t
),
best AS (
    SELECT t.sweep_id, arg_min({'name': k.name, 'run_id': k.run_id, 'value': k.metrics[t.metric]}, ($sign * k.metrics[t.metric], k.run_id)) AS trial
    FROM scored AS t JOIN known AS k ON k.parent_id = t.sweep_id AND list_contains(map_keys(k.metrics), t.metric)
    GROUP BY ALL
)
SELECT coalesce(p.name, s.sweep_id) AS sweep, s.sweep_id AS run_id, t.experiment, t.trials, s.cost, coalesce(o.cost, 0)::DECIMAL(38, 9) AS cost_outside_trials,
    NULL AS cost_per_trial, CASE WHEN b.trial IS NOT NULL THEN t.metric END AS metric, b.trial.name AS best_trial, b.trial.run_id AS best_run_id,
    b.trial.value AS best_value, CASE WHEN b.trial IS NOT NULL THEN coalesce(c.cost, 0)::DECIMAL(38, 9) END AS best_trial_cost
FROM sweeps AS s
JOIN scored AS t USING (sweep_id)
LEFT JOIN known AS p ON p.run_id = s.sweep_id
LEFT JOIN best AS b USING (sweep_id)
LEFT JOIN costs AS o ON o.run_id = s.sweep_id
LEFT JOIN costs AS c ON c.run_id = b.trial.run_id
ORDER BY s.cost DESC, s.sweep_id;
