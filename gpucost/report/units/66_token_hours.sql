-- reads: unit_tokens, unit_work, unit_days
-- writes: nothing; returns one row per hour (a day of unit_days), workload and model: tokens, seconds that requests spent in decoding, cost and GPU-hours held; workload is null if no pod with GPUs is known to have made the tokens
-- invariant: sum(cost) is that of unit_tokens
WITH made AS (
    SELECT day, cluster, namespace, workload, model, amounts, cost, allocated_gpu_ms FROM unit_tokens
    UNION ALL
    SELECT day, NULL, NULL, NULL, model, map_from_entries(list({'k': unit, 'v': amount})), 0, 0
    FROM (SELECT day, model, unit, sum(amount) AS amount FROM unit_work WHERE workload IS NULL GROUP BY ALL)
    GROUP BY day, model
)
SELECT d.from_ms, m.cluster, m.namespace, m.workload, nullif(m.model, '') AS model,
    coalesce(m.amounts['prompt_token'], 0) AS prompt_tokens, m.amounts['cached_token'] AS cached_tokens,
    coalesce(m.amounts['generation_token'], 0) AS generation_tokens, m.amounts['decode_second'] AS decode_seconds,
    m.cost, m.allocated_gpu_ms / 3600000 AS allocated_gpu_hours
FROM made AS m JOIN unit_days AS d USING (day)
ORDER BY d.from_ms, m.cluster, m.namespace, m.workload, m.model;
