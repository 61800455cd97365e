-- reads: efficiency_cells, unit_work, unit_days, gpu_models
-- writes: nothing; returns one row per workload with FLOPs: their ratio to the dense FP16 peak of the GPU time that it held in hours with counted work
-- invariant: null if the catalog has no peak of a GPU model or of a precision
WITH worked AS (
    SELECT cluster, namespace, workload, day, sum(weight) AS flops FROM unit_work WHERE workload IS NOT NULL
    GROUP BY cluster, namespace, workload, day
    QUALIFY sum(sum(weight)) OVER (PARTITION BY cluster, namespace, workload) > 0
),
hours AS (
    SELECT w.cluster, w.namespace, w.workload, any_value(w.flops) AS flops,
        -- teraFLOPS x milliseconds
        sum(c.held_gpu_ms * g.fp16_dense_tflops) * 1e9 AS most, bool_and(g.fp16_dense_tflops IS NOT NULL) AS is_known
    FROM worked AS w
    JOIN unit_days AS d USING (day)
    JOIN efficiency_cells AS c ON (c.cluster, c.namespace, c.workload) = (w.cluster, w.namespace, w.workload) AND d.from_ms <= c.from_ms AND c.from_ms < d.to_ms
    LEFT JOIN gpu_models AS g USING (gpu_model)
    GROUP BY w.cluster, w.namespace, w.workload, w.day
)
SELECT cluster, namespace, workload, CASE WHEN bool_and(is_known AND NOT isnan(flops)) THEN round(sum(flops) / sum(most), 9) END AS mfu
FROM hours
GROUP BY ALL;
