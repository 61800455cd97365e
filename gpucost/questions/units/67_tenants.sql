-- reads: unit_tokens, unit_work; $keeps_idle excludes the cost of idle GPUs from the split
-- writes: unit_tenants, unit_tokens split by the tenant label of the server; tenant is null without that label
-- invariant: sums of money over tenants equal the sums over unit_tokens, to the last digit
CREATE OR REPLACE TEMP TABLE unit_tenants AS
WITH served AS (
    SELECT row_number() OVER (ORDER BY cluster, namespace, workload, model, day) AS row_id,
        dense_rank() OVER (ORDER BY cluster, namespace, workload, model) AS model_id, *,
        coalesce(amounts['prompt_token'], 0) AS prompts, coalesce(amounts['generation_token'], 0) AS generations,
        prompt_cost + generation_cost + unserved_cost AS spent
    FROM unit_tokens
),
counted AS (
    SELECT row_id, 'prompt_token' AS unit, unnest(prompt_workloads) AS workload FROM served
    UNION ALL SELECT row_id, 'cached_token', unnest(prompt_workloads) FROM served
    UNION ALL SELECT row_id, 'generation_token', unnest(generation_workloads) FROM served
),
labeled AS (
    SELECT s.row_id, s.model_id, w.tenant, coalesce(sum(w.amount) FILTER (w.unit = 'prompt_token'), 0) AS prompt,
        coalesce(sum(w.amount) FILTER (w.unit = 'cached_token'), 0) AS cached,
        coalesce(sum(w.amount) FILTER (w.unit = 'generation_token'), 0) AS generation
    FROM served AS s
    JOIN counted AS c USING (row_id)
    JOIN unit_work AS w ON w.cluster = s.cluster AND w.namespace = s.namespace AND w.workload = c.workload
        AND w.model = s.model AND w.day = s.day AND w.unit = c.unit
    GROUP BY ALL
),
names AS (
    SELECT DISTINCT model_id, tenant FROM labeled
    UNION SELECT DISTINCT model_id, NULL FROM served
),
grid AS (
    SELECT s.row_id, s.model_id, n.tenant, coalesce(l.prompt, 0) AS prompt, coalesce(l.cached, 0) AS cached,
        coalesce(l.generation, 0) AS generation, greatest(coalesce(l.prompt - l.cached, 0), 0) AS computed,
        (n.tenant IS NULL)::INTEGER::DOUBLE AS rest
    FROM served AS s JOIN names AS n USING (model_id)
    LEFT JOIN labeled AS l ON l.row_id = s.row_id AND l.tenant IS NOT DISTINCT FROM n.tenant
),
shares AS (
    -- a day without tokens is split like the model's whole period
    SELECT row_id, tenant, rest, coalesce(prompt / nullif(sum(prompt) OVER of_row, 0), rest) AS prompt_share,
        coalesce(computed / nullif(sum(computed) OVER of_row, 0), prompt / nullif(sum(prompt) OVER of_row, 0),
            sum(computed) OVER of_tenant / nullif(sum(computed) OVER of_model, 0),
            sum(prompt) OVER of_tenant / nullif(sum(prompt) OVER of_model, 0), rest) AS computed_share,
        coalesce(cached / nullif(sum(cached) OVER of_row, 0), prompt / nullif(sum(prompt) OVER of_row, 0), rest)
            AS cached_share,
        coalesce(generation / nullif(sum(generation) OVER of_row, 0),
            sum(generation) OVER of_tenant / nullif(sum(generation) OVER of_model, 0), rest) AS generation_share
    FROM grid
    WINDOW of_row AS (PARTITION BY row_id), of_tenant AS (PARTITION BY model_id, tenant),
        of_model AS (PARTITION BY model_id)
),
weighed AS (
    -- the cost of a model without tokens has no tenant
    SELECT s.*, h.tenant, h.prompt_share, h.cached_share, h.generation_share AS generated_share,
        CASE WHEN s.unserved_cost <> 0 THEN h.rest ELSE h.computed_share END AS computed_share,
        CASE WHEN s.unserved_cost <> 0 THEN h.rest ELSE h.generation_share END AS generation_share,
        CASE WHEN s.spent > 0 THEN s.prompt_cost::DOUBLE / s.spent::DOUBLE
            WHEN s.weight > 0 THEN s.prompt_weight / s.weight ELSE 0.5 END AS prompt_ratio
    FROM served AS s JOIN shares AS h USING (row_id)
),
mixed AS (
    SELECT *, computed_share * prompt_ratio + generation_share * (1 - prompt_ratio) AS share FROM weighed
),
kept AS (
    SELECT *, row_number() OVER (PARTITION BY row_id ORDER BY tenant NULLS LAST) AS ordinal,
        count(*) OVER (PARTITION BY row_id) AS tenants
    FROM mixed
    WHERE share > 0 OR (prompt_share > 0 AND prompts > 0) OR (generated_share > 0 AND generations > 0)
),
ends AS (
    -- money is cut at the ends of the shares, so that no digit is lost
    SELECT *, CASE WHEN ordinal = tenants THEN 1 ELSE least(sum(computed_share) OVER w, 1) END AS computed_end,
        CASE WHEN ordinal = tenants THEN 1 ELSE least(sum(generation_share) OVER w, 1) END AS generation_end,
        CASE WHEN ordinal = tenants THEN 1 ELSE least(sum(cached_share) OVER w, 1) END AS cached_end,
        CASE WHEN ordinal = tenants THEN 1 ELSE least(sum(share) OVER w, 1) END AS share_end
    FROM kept
    WINDOW w AS (PARTITION BY row_id ORDER BY ordinal)
),
cuts AS (
    SELECT *,
        CASE WHEN ordinal = tenants THEN prompt_cost
            ELSE (prompt_cost * computed_end)::DECIMAL(38, 9) END AS prompt_cut,
        CASE WHEN ordinal = tenants THEN generation_cost
            ELSE (generation_cost * generation_end)::DECIMAL(38, 9) END AS generation_cut,
        CASE WHEN ordinal = tenants THEN unserved_cost ELSE 0 END AS unserved_cut,
        CASE WHEN ordinal = tenants THEN idle_cost ELSE (idle_cost * share_end)::DECIMAL(38, 9) END AS idle_cut,
        CASE WHEN ordinal = tenants THEN cache_saved_cost
            ELSE (cache_saved_cost * cached_end)::DECIMAL(38, 9) END AS saved_cut
    FROM ends
),
money AS (
    SELECT * REPLACE (
        prompt_cut - coalesce(lag(prompt_cut) OVER w, 0) AS prompt_cost,
        generation_cut - coalesce(lag(generation_cut) OVER w, 0) AS generation_cost,
        unserved_cut AS unserved_cost,
        idle_cut - coalesce(lag(idle_cut) OVER w, 0) AS idle_cost,
        saved_cut - CASE WHEN ordinal = 1 THEN 0 ELSE lag(saved_cut) OVER w END AS cache_saved_cost)
    FROM cuts
    WINDOW w AS (PARTITION BY row_id ORDER BY ordinal)
)
SELECT cluster, namespace, workload, team, gpu_model, partition, model, tenant, day,
    map_from_entries(list_transform(map_entries(amounts), lambda one: {'key': one.key, 'value': round(one.value
        * CASE one.key WHEN 'prompt_token' THEN prompt_share WHEN 'cached_token' THEN cached_share
            WHEN 'generation_token' THEN generated_share ELSE share END, 6)})) AS amounts,
    prompt_cost + generation_cost + unserved_cost + CASE WHEN $keeps_idle THEN idle_cost ELSE 0 END AS cost, idle_cost,
    prompt_cost, generation_cost, unserved_cost, cache_saved_cost,
    allocated_gpu_ms * share AS allocated_gpu_ms, active_gpu_ms * share AS active_gpu_ms
FROM money;
