-- reads: api_charges, api_usage
-- writes: api_lines, what was bought: charges of one seller, model, owner and time together, and of calls that no bill tells of what gateways priced them at
-- invariant: sum(cost) is that of the charges that are not repeated, and of the usage that is not covered; prompt, generation and commitment cost are parts of it
CREATE OR REPLACE TEMP TABLE api_lines AS
WITH lines AS (
    SELECT provider, seller, source, model, model_key, owner, start_ms, end_ms, currency, sum(cost) AS cost, count(*) - count(cost) AS without_rate, list(charge_id) AS charge_ids,
        coalesce(sum(cost) FILTER (token_kind IN ('prompt', 'cached')), 0) AS prompt_cost, coalesce(sum(cost) FILTER (token_kind = 'generation'), 0) AS generation_cost,
        coalesce(sum(cost) FILTER (token_kind = 'commitment'), 0) AS commitment_cost,
        coalesce(sum(tokens::DECIMAL(38, 6)) FILTER (token_kind IN ('prompt', 'cached')), 0)::DOUBLE AS prompt_tokens,
        (sum(tokens::DECIMAL(38, 6)) FILTER (token_kind = 'cached'))::DOUBLE AS cached_tokens,
        coalesce(sum(tokens::DECIMAL(38, 6)) FILTER (token_kind = 'generation'), 0)::DOUBLE AS generation_tokens
    FROM api_charges
    WHERE NOT is_repeated
    GROUP BY ALL
    UNION ALL BY NAME
    SELECT coalesce(seller, 'unknown') AS provider, seller, 'gateway' AS source, model, model_key, coalesce(team, 'unassigned') AS owner, hour_ms AS start_ms, hour_ms + 3600000 AS end_ms,
        currency, spend AS cost, (spend IS NULL)::INTEGER AS without_rate, []::BIGINT[] AS charge_ids, NULL AS prompt_cost, NULL AS generation_cost, 0 AS commitment_cost, prompt_tokens, cached_tokens, generation_tokens
    FROM api_usage
    WHERE NOT is_covered
)
SELECT row_number() OVER (ORDER BY provider, source, model, owner, start_ms, end_ms, currency) AS line_id, * FROM lines;
