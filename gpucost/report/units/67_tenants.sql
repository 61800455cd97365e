-- reads: unit_tokens, unit_work, gateway_usage, unit_days; $keeps_idle says whether what is split leaves the cost of idle GPUs out
-- writes: unit_tenants, unit_tokens split by whom tokens were for; tenant is null where that is not known
-- invariant: sums of money over tenants are those of unit_tokens, to the last digit
CREATE OR REPLACE TEMP TABLE unit_tenants AS
WITH served AS (
    SELECT row_number() OVER (ORDER BY cluster, namespace, workload, model, day) AS row_id,
        dense_rank() OVER (ORDER BY cluster, namespace, workload, model) AS model_id, lower(model) AS name, *,
        coalesce(amounts['prompt_token'], 0) AS prompts, coalesce(amounts['generation_token'], 0) AS generations,
        prompt_cost + generation_cost + unserved_cost AS spent
    FROM unit_tokens
),
-- what engines say themselves
counted AS (
    SELECT row_id, 'prompt_token' AS unit, unnest(prompt_workloads) AS workload FROM served
    UNION ALL SELECT row_id, 'cached_token', unnest(prompt_workloads) FROM served
    UNION ALL SELECT row_id, 'generation_token', unnest(generation_workloads) FROM served
),
labeled AS (
    SELECT s.row_id, s.model_id, w.tenant, coalesce(sum(w.amount) FILTER (w.unit = 'prompt_token'), 0) AS prompt,
        coalesce(sum(w.amount) FILTER (w.unit = 'cached_token'), 0) AS cached, coalesce(sum(w.amount) FILTER (w.unit = 'generation_token'), 0) AS generation
    FROM served AS s
    JOIN counted AS c USING (row_id)
    JOIN unit_work AS w ON w.cluster = s.cluster AND w.namespace = s.namespace AND w.workload = c.workload AND w.model = s.model AND w.day = s.day AND w.unit = c.unit
    GROUP BY ALL
),
-- and what gateways passed on to a model, whichever workload took it
passed_on AS (
    SELECT lower(u.model) AS name, d.day, u.tenant, coalesce(sum(u.amount + u.failed) FILTER (u.unit = 'prompt_token'), 0) AS prompt,
        coalesce(sum(u.amount + u.failed) FILTER (u.unit = 'cached_token'), 0) AS cached,
        coalesce(sum(u.amount + u.failed) FILTER (u.unit = 'generation_token'), 0) AS generation
    FROM gateway_usage AS u JOIN unit_days AS d ON u.at_ms >= d.from_ms AND u.at_ms < d.to_ms
    WHERE u.is_own
    GROUP BY ALL
),
tenants AS (
    SELECT * FROM labeled WHERE model_id IN (SELECT model_id FROM labeled WHERE tenant IS NOT NULL)
    UNION ALL
    SELECT s.row_id, s.model_id, p.tenant, p.prompt, p.cached, p.generation
    FROM served AS s JOIN passed_on AS p USING (name, day)
    WHERE s.model_id NOT IN (SELECT model_id FROM labeled WHERE tenant IS NOT NULL)
),
names AS (
    SELECT DISTINCT model_id, tenant FROM tenants
    UNION SELECT DISTINCT model_id, NULL FROM served
),
grid AS (
    SELECT s.row_id, s.model_id, s.name, s.day, s.prompts, s.generations, n.tenant, coalesce(t.prompt, 0) AS prompt, coalesce(t.cached, 0) AS cached,
        coalesce(t.generation, 0) AS generation, greatest(coalesce(t.prompt, 0) - coalesce(t.cached, 0), 0) AS computed,
        s.model_id IN (SELECT model_id FROM labeled WHERE tenant IS NOT NULL) AS is_labeled
    FROM served AS s JOIN names AS n USING (model_id) LEFT JOIN tenants AS t ON t.row_id = s.row_id AND t.tenant IS NOT DISTINCT FROM n.tenant
),
-- pools: what decode pods count of prompts, and prefill pods of generated tokens, counts once
pools AS (
    SELECT DISTINCT cluster, namespace, lower(model) AS name, 'prompt_token' AS unit, unnest(list_filter(generation_workloads, lambda one: NOT list_contains(prompt_workloads, one))) AS workload
    FROM unit_tokens
    UNION ALL
    SELECT DISTINCT cluster, namespace, lower(model), 'generation_token', unnest(list_filter(prompt_workloads, lambda one: NOT list_contains(generation_workloads, one))) FROM unit_tokens
),
-- of the engines' tokens: a row's own where they say whose they are, else those of all workloads of the model, asked for or not
made AS (
    SELECT lower(w.model) AS name, w.day, coalesce(sum(w.amount) FILTER (w.unit = 'prompt_token'), 0) AS prompts, coalesce(sum(w.amount) FILTER (w.unit = 'generation_token'), 0) AS generations
    FROM unit_work AS w
    WHERE NOT EXISTS (FROM pools AS p WHERE p.cluster = w.cluster AND p.namespace = w.namespace AND p.workload = w.workload AND p.name = lower(w.model) AND p.unit = w.unit)
    GROUP BY ALL
),
engines AS (
    SELECT d.name, d.day, coalesce(m.prompts, 0) AS prompts, coalesce(m.generations, 0) AS generations, a.prompts AS all_prompts, a.generations AS all_generations
    FROM (SELECT DISTINCT name, day FROM served) AS d LEFT JOIN made AS m USING (name, day)
    LEFT JOIN (SELECT name, sum(prompts) AS prompts, sum(generations) AS generations FROM made GROUP BY name) AS a USING (name)
),
sums AS (
    SELECT g.*, e.prompts AS engine_prompts, e.generations AS engine_generations, e.all_prompts, e.all_generations,
        sum(g.prompt) OVER of_row AS row_prompt, sum(g.cached) OVER of_row AS row_cached, sum(g.computed) OVER of_row AS row_computed,
        sum(g.generation) OVER of_row AS row_generation, sum(g.prompt) OVER of_tenant AS period_prompt, sum(g.computed) OVER of_tenant AS period_computed,
        sum(g.generation) OVER of_tenant AS period_generation, sum(g.prompt) OVER of_model AS model_prompt, sum(g.computed) OVER of_model AS model_computed,
        sum(g.generation) OVER of_model AS model_generation
    FROM grid AS g JOIN engines AS e USING (name, day)
    WINDOW of_row AS (PARTITION BY g.row_id), of_tenant AS (PARTITION BY g.model_id, g.tenant), of_model AS (PARTITION BY g.model_id)
),
-- tokens that no gateway told of are nobody's; a day that served nothing is split as the model's whole period is
parts AS (
    SELECT *,
        CASE WHEN row_prompt > 0 THEN prompt / row_prompt END AS prompt_part,
        CASE WHEN row_computed > 0 THEN computed / row_computed WHEN row_prompt > 0 THEN prompt / row_prompt
            WHEN engine_prompts > 0 THEN NULL WHEN model_computed > 0 THEN period_computed / model_computed WHEN model_prompt > 0 THEN period_prompt / model_prompt END AS computed_part,
        CASE WHEN row_generation > 0 THEN generation / row_generation WHEN engine_generations > 0 THEN NULL
            WHEN model_generation > 0 THEN period_generation / model_generation END AS generation_part,
        CASE WHEN row_cached > 0 THEN cached / row_cached WHEN row_prompt > 0 THEN prompt / row_prompt END AS cached_part,
        CASE WHEN is_labeled THEN 1 WHEN row_prompt > 0 OR engine_prompts > 0 THEN least(row_prompt / nullif(engine_prompts, 0), 1) ELSE least(model_prompt / nullif(all_prompts, 0), 1) END AS prompt_known,
        CASE WHEN is_labeled THEN 1 WHEN row_generation > 0 OR engine_generations > 0 THEN least(row_generation / nullif(engine_generations, 0), 1)
            ELSE least(model_generation / nullif(all_generations, 0), 1) END AS generation_known
    FROM sums
),
shares AS (
    SELECT row_id, tenant,
        coalesce(prompt_known, 1) * coalesce(prompt_part, 0) + CASE WHEN tenant IS NULL THEN 1 - CASE WHEN prompt_part IS NULL THEN 0 ELSE coalesce(prompt_known, 1) END ELSE 0 END AS prompt_share,
        coalesce(prompt_known, 1) * coalesce(computed_part, 0) + CASE WHEN tenant IS NULL THEN 1 - CASE WHEN computed_part IS NULL THEN 0 ELSE coalesce(prompt_known, 1) END ELSE 0 END AS computed_share,
        coalesce(prompt_known, 1) * coalesce(cached_part, 0) + CASE WHEN tenant IS NULL THEN 1 - CASE WHEN cached_part IS NULL THEN 0 ELSE coalesce(prompt_known, 1) END ELSE 0 END AS cached_share,
        coalesce(generation_known, 1) * coalesce(generation_part, 0)
            + CASE WHEN tenant IS NULL THEN 1 - CASE WHEN generation_part IS NULL THEN 0 ELSE coalesce(generation_known, 1) END ELSE 0 END AS generation_share
    FROM parts
),
weighed AS (
    -- what served nobody is nobody's
    SELECT s.*, h.tenant, CASE WHEN s.unserved_cost <> 0 THEN (h.tenant IS NULL)::INTEGER::DOUBLE ELSE h.computed_share END AS computed_share,
        CASE WHEN s.unserved_cost <> 0 THEN (h.tenant IS NULL)::INTEGER::DOUBLE ELSE h.generation_share END AS generation_share,
        h.prompt_share, h.cached_share, h.generation_share AS generated_share,
        CASE WHEN s.spent > 0 THEN s.prompt_cost::DOUBLE / s.spent::DOUBLE WHEN s.weight > 0 THEN s.prompt_weight / s.weight ELSE 0.5 END AS prompt_ratio
    FROM served AS s JOIN shares AS h USING (row_id)
),
kept AS (
    SELECT *, computed_share * prompt_ratio + generation_share * (1 - prompt_ratio) AS share,
        row_number() OVER (PARTITION BY row_id ORDER BY tenant NULLS LAST) AS ordinal, count(*) OVER (PARTITION BY row_id) AS tenants
    FROM weighed
    WHERE computed_share * prompt_ratio + generation_share * (1 - prompt_ratio) > 0 OR (prompt_share > 0 AND prompts > 0) OR (generated_share > 0 AND generations > 0)
),
ends AS (
    -- money is cut at the ends of the shares, so that no digit is lost
    SELECT *, CASE WHEN ordinal = tenants THEN 1 ELSE least(sum(computed_share) OVER w, 1) END AS computed_end,
        CASE WHEN ordinal = tenants THEN 1 ELSE least(sum(generation_share) OVER w, 1) END AS generation_end,
        CASE WHEN ordinal = tenants THEN 1 ELSE least(sum(cached_share) OVER w, 1) END AS cached_end, CASE WHEN ordinal = tenants THEN 1 ELSE least(sum(share) OVER w, 1) END AS share_end
    FROM kept
    WINDOW w AS (PARTITION BY row_id ORDER BY ordinal)
),
cuts AS (
    SELECT *, CASE WHEN ordinal = tenants THEN prompt_cost ELSE (prompt_cost * computed_end)::DECIMAL(38, 9) END AS prompt_cut,
        CASE WHEN ordinal = tenants THEN generation_cost ELSE (generation_cost * generation_end)::DECIMAL(38, 9) END AS generation_cut,
        CASE WHEN ordinal = tenants THEN unserved_cost ELSE 0 END AS unserved_cut,
        CASE WHEN ordinal = tenants THEN idle_cost ELSE (idle_cost * share_end)::DECIMAL(38, 9) END AS idle_cut,
        CASE WHEN ordinal = tenants THEN cache_saved_cost ELSE (cache_saved_cost * cached_end)::DECIMAL(38, 9) END AS saved_cut,
        CASE WHEN ordinal = tenants THEN request_time_prompt_cost ELSE (request_time_prompt_cost * computed_end)::DECIMAL(38, 9) END AS time_prompt_cut,
        CASE WHEN ordinal = tenants THEN request_time_generation_cost ELSE (request_time_generation_cost * generation_end)::DECIMAL(38, 9) END AS time_generation_cut
    FROM ends
),
money AS (
    SELECT * REPLACE (
        prompt_cut - coalesce(lag(prompt_cut) OVER w, 0) AS prompt_cost, generation_cut - coalesce(lag(generation_cut) OVER w, 0) AS generation_cost,
        unserved_cut AS unserved_cost, idle_cut - coalesce(lag(idle_cut) OVER w, 0) AS idle_cost,
        saved_cut - CASE WHEN ordinal = 1 THEN 0 ELSE lag(saved_cut) OVER w END AS cache_saved_cost,
        time_prompt_cut - CASE WHEN ordinal = 1 THEN 0 ELSE lag(time_prompt_cut) OVER w END AS request_time_prompt_cost,
        time_generation_cut - CASE WHEN ordinal = 1 THEN 0 ELSE lag(time_generation_cut) OVER w END AS request_time_generation_cost)
    FROM cuts
    WINDOW w AS (PARTITION BY row_id ORDER BY ordinal)
)
SELECT cluster, namespace, workload, team, model, tenant, day,
    map_from_entries(list_transform(map_entries(amounts), lambda one: {'key': one.key, 'value': round(one.value
        * CASE one.key WHEN 'prompt_token' THEN prompt_share WHEN 'cached_token' THEN cached_share WHEN 'generation_token' THEN generated_share ELSE share END, 6)})) AS amounts,
    prompt_cost + generation_cost + unserved_cost + CASE WHEN $keeps_idle THEN idle_cost ELSE 0 END AS cost, idle_cost,
    prompt_cost, generation_cost, unserved_cost, cache_saved_cost, request_time_prompt_cost, request_time_generation_cost,
    allocated_gpu_ms * share AS allocated_gpu_ms, active_gpu_ms * share AS active_gpu_ms
FROM money;
