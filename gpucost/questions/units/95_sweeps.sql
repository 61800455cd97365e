-- reads: unit_run_places, unit_experiments; $is_narrowed: only some workloads are selected
-- writes: nothing; returns one row per sweep, the most expensive first: its trials, and its cost including nested sweeps
-- invariant: cost counts each run in the sweep once
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
    SELECT parent_id AS sweep_id, count(*) AS trials, arg_min(experiment, (started_ms, run_id)) AS experiment
    FROM known WHERE parent_id <> '' GROUP BY parent_id
)
SELECT coalesce(p.name, s.sweep_id) AS sweep, s.sweep_id AS run_id, t.experiment, t.trials, s.cost, coalesce(o.cost, 0)::DECIMAL(38, 9) AS cost_outside_trials,
    NULL AS cost_per_trial
FROM sweeps AS s
JOIN trials AS t USING (sweep_id)
LEFT JOIN known AS p ON p.run_id = s.sweep_id
LEFT JOIN costs AS o ON o.run_id = s.sweep_id
ORDER BY s.cost DESC, s.sweep_id;
