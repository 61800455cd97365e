-- reads: unit_serving; $keeps_idle says whether what is split leaves the cost of idle GPUs out
-- writes: unit_tokens, unit_serving with its cost split by prompt and generated tokens
-- invariant: prompt_cost + generation_cost + unserved_cost = cost, less idle_cost where that is kept apart
CREATE OR REPLACE TEMP TABLE unit_tokens AS
WITH spent AS (
    SELECT *, cost - CASE WHEN $keeps_idle THEN idle_cost ELSE 0 END AS spent,
        coalesce(amounts['prefill_second'], 0) AS prefill_seconds, coalesce(amounts['decode_second'], 0) AS decode_seconds
    FROM unit_serving
),
shares AS (
    -- a day that served nothing is split as the model's whole period is
    SELECT *,
        CASE WHEN weight > 0 THEN prompt_weight / weight WHEN sum(weight) OVER model > 0 THEN sum(prompt_weight) OVER model / sum(weight) OVER model END AS prompt_share,
        CASE WHEN prefill_seconds + decode_seconds > 0 THEN prefill_seconds / (prefill_seconds + decode_seconds)
            WHEN sum(prefill_seconds + decode_seconds) OVER model > 0 THEN sum(prefill_seconds) OVER model / sum(prefill_seconds + decode_seconds) OVER model
        END AS prefill_share
    FROM spent
    WINDOW model AS (PARTITION BY cluster, namespace, workload, model)
),
prompts AS (
    SELECT *, CASE WHEN prompt_share IS NULL THEN 0 ELSE (spent * prompt_share)::DECIMAL(38, 9) END AS prompt_cost,
        (spent * prefill_share)::DECIMAL(38, 9) AS request_time_prompt_cost
    FROM shares
)
SELECT * EXCLUDE (spent, prefill_seconds, decode_seconds, prompt_share, prefill_share),
    CASE WHEN prompt_share IS NULL THEN 0 ELSE spent - prompt_cost END AS generation_cost,
    CASE WHEN prompt_share IS NULL THEN spent ELSE 0 END AS unserved_cost,
    spent - request_time_prompt_cost AS request_time_generation_cost,
    CASE WHEN amounts['cached_token'] IS NOT NULL THEN CASE WHEN weight > 0 THEN (spent * (cached_weight / weight))::DECIMAL(38, 9) ELSE 0 END END AS cache_saved_cost
FROM prompts;
