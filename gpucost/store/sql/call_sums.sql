-- reads: new_calls
-- writes: call_sums, what the new calls of each file come to, per quarter of an hour, as increases are added up, series and unit; at_ms is the first of them
-- invariant: sum(value) of a unit is that of the new calls; requests count one each
CREATE OR REPLACE TEMP TABLE call_sums AS
WITH quarters AS (
    SELECT file, model, tenant, team, provider, api_base, currency, is_failure, min(at_ms) AS at_ms,
        count(*)::DOUBLE AS requests, sum(prompt::DECIMAL(38, 9))::DOUBLE AS prompt, sum(cached::DECIMAL(38, 9))::DOUBLE AS cached,
        sum(generation::DECIMAL(38, 9))::DOUBLE AS generation, sum(spend::DECIMAL(38, 15))::DOUBLE AS spend
    FROM new_calls
    GROUP BY file, model, tenant, team, provider, api_base, currency, is_failure, at_ms // 900000
),
units AS (
    SELECT * EXCLUDE (requests, prompt, cached, generation, spend), unnest([
        {'unit': 'request', 'value': requests}, {'unit': 'prompt_token', 'value': prompt}, {'unit': 'cached_token', 'value': cached},
        {'unit': 'generation_token', 'value': generation}, {'unit': 'spend', 'value': spend}]) AS sums
    FROM quarters
)
-- money that was spent is spent, whatever came of it
SELECT file, sums.unit AS unit, model, tenant, team, provider, api_base, CASE WHEN sums.unit = 'spend' THEN currency ELSE '' END AS currency,
    is_failure AND sums.unit <> 'spend' AS is_failure, at_ms, sums.value AS value
FROM units WHERE sums.value > 0;
