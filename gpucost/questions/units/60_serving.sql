-- reads: unit_cells, unit_work
-- writes: unit_serving, one row per workload, model and local day with its cost, hours, work of each unit, and the weight of that work; prompt_weight excludes cached prompt tokens
-- invariant: per workload and day, sum(cost) is the workload's cost; its models share it by their work
CREATE OR REPLACE TEMP TABLE unit_serving AS
WITH days AS (
    SELECT cluster, namespace, workload, day, string_agg(DISTINCT team, ', ' ORDER BY team) AS team,
        string_agg(DISTINCT gpu_model, ', ' ORDER BY gpu_model) AS gpu_model, string_agg(DISTINCT partition, ', ' ORDER BY partition) AS partition,
        sum(cost) AS cost, sum(idle_cost) AS idle_cost,
        sum(allocated_gpu_ms::DECIMAL(38, 9))::DOUBLE AS allocated_gpu_ms, sum(active_gpu_ms::DECIMAL(38, 9))::DOUBLE AS active_gpu_ms
    FROM unit_cells WHERE is_selected GROUP BY ALL
),
models AS (
    SELECT DISTINCT cluster, namespace, workload, model FROM unit_work WHERE workload IS NOT NULL
),
done AS (
    SELECT cluster, namespace, workload, model, day,
        coalesce(sum(weight) FILTER (unit = 'prompt_token'), 0) AS prompt_weight, coalesce(sum(weight) FILTER (unit <> 'prompt_token'), 0) AS other_weight,
        least(coalesce(max(amount) FILTER (unit = 'cached_token') / nullif(max(amount) FILTER (unit = 'prompt_token'), 0), 0), 1) AS cached_share,
        map_from_entries(list({'k': unit, 'v': amount})) AS amounts, map_from_entries(list({'k': unit, 'v': failed})) AS failures
    FROM (SELECT cluster, namespace, workload, model, day, unit, sum(amount) AS amount, sum(weight) AS weight, sum(failed) AS failed FROM unit_work
        WHERE workload IS NOT NULL GROUP BY ALL)
    GROUP BY ALL
),
weights AS (
    SELECT * EXCLUDE (prompt_weight, other_weight, cached_share), prompt_weight * (1 - cached_share) AS prompt_weight, prompt_weight * cached_share AS cached_weight,
        prompt_weight * (1 - cached_share) + other_weight AS weight
    FROM done
),
shares AS (
    SELECT d.*, m.model, w.amounts, w.failures, coalesce(w.weight, 0) AS weight, coalesce(w.prompt_weight, 0) AS prompt_weight, coalesce(w.cached_weight, 0) AS cached_weight,
        CASE WHEN sum(coalesce(w.weight, 0)) OVER of_day > 0 THEN coalesce(w.weight, 0) / sum(coalesce(w.weight, 0)) OVER of_day
            ELSE 1.0::DOUBLE / count(*) OVER of_day END AS share,
        row_number() OVER (PARTITION BY d.cluster, d.namespace, d.workload, d.day ORDER BY m.model) AS ordinal,
        count(*) OVER of_day AS models
    FROM days AS d
    JOIN models AS m USING (cluster, namespace, workload)
    LEFT JOIN weights AS w USING (cluster, namespace, workload, model, day)
    WINDOW of_day AS (PARTITION BY d.cluster, d.namespace, d.workload, d.day)
),
ends AS (
    SELECT *, CASE WHEN ordinal = models THEN 1.0::DOUBLE ELSE sum(share) OVER (PARTITION BY cluster, namespace, workload, day ORDER BY ordinal) END AS share_end
    FROM shares
),
amounts AS (
    -- money is cut at the ends of the shares, so that no digit is lost
    SELECT *,
        CASE WHEN ordinal = models THEN cost ELSE (cost * share_end)::DECIMAL(38, 9) END AS cost_end,
        CASE WHEN ordinal = models THEN idle_cost ELSE (idle_cost * share_end)::DECIMAL(38, 9) END AS idle_cost_end
    FROM ends
)
SELECT cluster, namespace, workload, team, gpu_model, partition, model, day, amounts, failures, weight, prompt_weight, cached_weight,
    cost_end - coalesce(lag(cost_end) OVER w, 0) AS cost,
    idle_cost_end - coalesce(lag(idle_cost_end) OVER w, 0) AS idle_cost,
    allocated_gpu_ms * share AS allocated_gpu_ms, active_gpu_ms * share AS active_gpu_ms
FROM amounts
WINDOW w AS (PARTITION BY cluster, namespace, workload, day ORDER BY ordinal);
