-- reads: unit_serving; $keeps_idle: leave the cost of idle GPUs out of the split; $prefill, $decode are globs of the workloads of pools
-- writes: unit_tokens, unit_serving with its cost split by prompt and generated tokens, and the pools of a model in one row, with the source of prompt and generated token counts
-- invariant: prompt_cost + generation_cost + unserved_cost = cost, minus idle_cost if that is kept apart
CREATE OR REPLACE TEMP TABLE unit_tokens AS
WITH declared AS (
    SELECT *, cost - CASE WHEN $keeps_idle THEN idle_cost ELSE 0 END AS spent,
        CASE WHEN len(list_filter($prefill::VARCHAR[], lambda one: workload GLOB one OR split_part(workload, '/', 2) GLOB one)) > 0 THEN 'prefill'
            WHEN len(list_filter($decode::VARCHAR[], lambda one: workload GLOB one OR split_part(workload, '/', 2) GLOB one)) > 0 THEN 'decode' END AS declared
    FROM unit_serving
),
phases AS (
    -- a pool has both phases: a prefill workload without a known decode workload is an ordinary workload
    SELECT * EXCLUDE (declared), CASE WHEN bool_or(declared = 'prefill') OVER pool AND bool_or(declared = 'decode') OVER pool THEN declared END AS phase
    FROM declared
    WINDOW pool AS (PARTITION BY cluster, namespace, model)
),
names AS (
    SELECT cluster, namespace, model, concat_ws(' + ', string_agg(DISTINCT workload, ' + ' ORDER BY workload) FILTER (phase = 'prefill'),
        string_agg(DISTINCT workload, ' + ' ORDER BY workload) FILTER (phase = 'decode')) AS workload,
        list(DISTINCT workload) FILTER (phase = 'prefill') AS prompt_workloads, list(DISTINCT workload) FILTER (phase = 'decode') AS generation_workloads
    FROM phases WHERE phase IS NOT NULL GROUP BY ALL
),
pools AS (
    -- decode pods count the prompt again and take over its cache, which is not a hit; decode pods also generate the
    -- tokens of prefill pods
    SELECT cluster, namespace, model, day, string_agg(DISTINCT team, ', ' ORDER BY team) AS team,
        string_agg(DISTINCT gpu_model, ', ' ORDER BY gpu_model) AS gpu_model, string_agg(DISTINCT partition, ', ' ORDER BY partition) AS partition,
        coalesce(sum(amounts['prompt_token']) FILTER (phase = 'prefill'), 0) AS prompt, sum(amounts['cached_token']) FILTER (phase = 'prefill') AS cached,
        coalesce(sum(amounts['generation_token']) FILTER (phase = 'decode'), 0) AS generation,
        coalesce(sum(prompt_weight) FILTER (phase = 'prefill'), 0) AS prompt_weight, coalesce(sum(cached_weight) FILTER (phase = 'prefill'), 0) AS cached_weight,
        coalesce(sum(spent) FILTER (phase = 'prefill'), 0) AS prefill_cost, sum(spent) AS spent,
        sum(cost) AS cost, sum(idle_cost) AS idle_cost, sum(allocated_gpu_ms::DECIMAL(38, 9))::DOUBLE AS allocated_gpu_ms, sum(active_gpu_ms::DECIMAL(38, 9))::DOUBLE AS active_gpu_ms
    FROM phases WHERE phase IS NOT NULL GROUP BY ALL
),
spent AS (
    SELECT * EXCLUDE (phase), [workload] AS prompt_workloads, [workload] AS generation_workloads, NULL::DECIMAL(38, 9) AS prefill_cost
    FROM phases WHERE phase IS NULL
    UNION ALL BY NAME
    SELECT p.* EXCLUDE (prompt, cached, generation), n.workload, n.prompt_workloads, n.generation_workloads, prompt_weight + generation AS weight,
        map_concat(MAP {'prompt_token': prompt, 'generation_token': generation},
            CASE WHEN cached IS NULL THEN MAP {}::MAP(VARCHAR, DOUBLE) ELSE MAP {'cached_token': cached} END) AS amounts
    FROM pools AS p JOIN names AS n USING (cluster, namespace, model)
),
shares AS (
    -- a day without tokens is split like the model's whole period
    SELECT *,
        CASE WHEN weight > 0 THEN prompt_weight / weight WHEN sum(weight) OVER model > 0 THEN sum(prompt_weight) OVER model / sum(weight) OVER model END AS prompt_share
    FROM spent
    WINDOW model AS (PARTITION BY cluster, namespace, workload, model)
),
prompts AS (
    SELECT *, CASE WHEN prompt_share IS NULL THEN 0 WHEN prefill_cost IS NOT NULL THEN prefill_cost ELSE (spent * prompt_share)::DECIMAL(38, 9) END AS prompt_cost
    FROM shares
)
SELECT * EXCLUDE (spent, prefill_cost, prompt_share),
    CASE WHEN prompt_share IS NULL THEN 0 ELSE spent - prompt_cost END AS generation_cost,
    CASE WHEN prompt_share IS NULL THEN spent ELSE 0 END AS unserved_cost,
    CASE WHEN amounts['cached_token'] IS NULL THEN NULL
        WHEN prefill_cost IS NOT NULL AND prompt_weight > 0 THEN (prefill_cost * (cached_weight / prompt_weight))::DECIMAL(38, 9)
        WHEN prefill_cost IS NULL AND weight > 0 THEN (spent * (cached_weight / weight))::DECIMAL(38, 9) ELSE 0 END AS cache_saved_cost
FROM prompts;
