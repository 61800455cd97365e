-- reads: unit_tokens, unit_days
-- writes: nothing; returns tokens, cost, GPU-hours by bucket (a day of unit_days), workload, model
-- invariant: sum(cost) equals its sum over unit_tokens
SELECT d.from_ms, t.cluster, t.namespace, t.workload, nullif(t.model, '') AS model,
    coalesce(t.amounts['prompt_token'], 0) AS prompt_tokens, coalesce(t.amounts['generation_token'], 0) AS generation_tokens,
    t.cost, t.allocated_gpu_ms / 3600000 AS allocated_gpu_hours
FROM unit_tokens AS t JOIN unit_days AS d USING (day)
ORDER BY d.from_ms, t.cluster, t.namespace, t.workload, t.model;
