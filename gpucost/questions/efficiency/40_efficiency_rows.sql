-- reads: efficiency_cells, profile_hours; variables report_from_ms, report_to_ms bound the period
-- writes: nothing; returns one row per grouping ('total', 'team', 'workload', 'gpu_model') and value: GPU time, the parts of cost, and the mean of each measure over its measured time
-- invariant: the rows of a grouping add up to the total
WITH grouped AS (
    SELECT *, unnest([
        {'by': 'total', 'keys': {'cluster': NULL, 'namespace': NULL}}, {'by': 'team', 'keys': {'team': team}},
        {'by': 'workload', 'keys': {'cluster': cluster, 'namespace': namespace, 'workload': workload}},
        {'by': 'gpu_model', 'keys': {'gpu_model': gpu_model}}
    ]) AS part
    FROM efficiency_cells
),
sums AS (
    SELECT part, total_ms(held_gpu_ms) AS held_gpu_ms, total_ms(active_gpu_ms) AS active_gpu_ms, total_ms(sm_gpu_ms) AS sm_gpu_ms,
        sum(held_cost) AS held_cost, sum(idle_cost) AS idle_cost, sum(unmeasured_cost) AS unmeasured_cost, sum(active_cost) AS active_cost,
        sum(sm_unmeasured_cost) AS sm_unmeasured_cost,
        -- without any sample, their cost is unknown, not zero
        CASE WHEN total_ms(sm_gpu_ms) > 0 THEN sum(sm_idle_cost) END AS sm_idle_cost,
        CASE WHEN total_ms(sm_gpu_ms) > 0 THEN sum(sm_cost) END AS sm_cost
    FROM grouped GROUP BY part
),
powered AS (
    SELECT *,
        -- watts x milliseconds; the counter of energy knows more than samples of power
        CASE WHEN measure = 'energy' OR (measure = 'power' AND NOT bool_or(measure = 'energy') OVER (PARTITION BY allocation_id, from_ms))
            THEN value_gpu_ms END AS energy
    FROM profile_hours WHERE from_ms >= getvariable('report_from_ms') AND from_ms < getvariable('report_to_ms')
),
measured AS (
    SELECT g.part, p.measure, total_ms(p.measured_gpu_ms) AS gpu_ms, total_ms(p.value_gpu_ms) AS value_gpu_ms,
        total_ms(p.energy) AS energy
    FROM grouped AS g
    JOIN powered AS p USING (allocation_id, from_ms)
    GROUP BY ALL
),
means AS (
    SELECT part, map_from_entries(list((measure, round(value_gpu_ms / gpu_ms, 9)) ORDER BY measure)) AS means,
        sum(energy) / 3600000000.0 AS energy_kwh
    FROM measured WHERE gpu_ms > 0 GROUP BY part
)
SELECT s.part.by AS by, s.part.keys AS keys, s.* EXCLUDE (part), m.means, m.energy_kwh
FROM sums AS s LEFT JOIN means AS m USING (part)
ORDER BY list_position(['total', 'team', 'workload', 'gpu_model'], s.part.by), held_cost DESC, keys;
