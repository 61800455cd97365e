-- reads: api_charges, api_usage
-- writes: api_lines, what was bought: charges of one seller, model, owner and time together, and of calls that no bill tells of what gateways priced them at; tokens that charges do not count are those that gateways did, null where none did
-- invariant: sum(cost) is that of the charges that are not repeated, and of the usage that is not covered; prompt, generation and commitment cost are parts of it
CREATE OR REPLACE TEMP TABLE api_lines AS
WITH lines AS (
    SELECT provider, seller, source, model, model_key, owner, start_ms, end_ms, currency, sum(cost) AS cost, count(*) - count(cost) AS without_rate, list(charge_id) AS charge_ids,
        coalesce(sum(cost) FILTER (token_kind IN ('prompt', 'cached')), 0) AS prompt_cost, coalesce(sum(cost) FILTER (token_kind = 'generation'), 0) AS generation_cost,
        coalesce(sum(cost) FILTER (token_kind = 'commitment'), 0) AS commitment_cost,
        -- of charges none of which says how many they are of, tokens are unknown
        CASE WHEN count(tokens) > 0 THEN coalesce(sum(tokens::DECIMAL(38, 6)) FILTER (token_kind IN ('prompt', 'cached')), 0) END::DOUBLE AS prompt_tokens,
        (sum(tokens::DECIMAL(38, 6)) FILTER (token_kind = 'cached'))::DOUBLE AS cached_tokens,
        CASE WHEN count(tokens) > 0 THEN coalesce(sum(tokens::DECIMAL(38, 6)) FILTER (token_kind = 'generation'), 0) END::DOUBLE AS generation_tokens
    FROM api_charges
    WHERE NOT is_repeated
    GROUP BY ALL
    UNION ALL BY NAME
    SELECT coalesce(seller, 'unknown') AS provider, seller, 'gateway' AS source, model, model_key, coalesce(team, 'unassigned') AS owner, hour_ms AS start_ms, hour_ms + 3600000 AS end_ms,
        currency, spend AS cost, (spend IS NULL)::INTEGER AS without_rate, []::BIGINT[] AS charge_ids, NULL AS prompt_cost, NULL AS generation_cost, 0 AS commitment_cost, prompt_tokens, cached_tokens, generation_tokens
    FROM api_usage
    WHERE NOT is_covered
),
-- what is charged for tokens, and does not say for how many
uncounted AS (
    SELECT seller, model_key, start_ms, end_ms, sum(cost) AS cost, count(*) AS sharers
    FROM lines WHERE prompt_tokens IS NULL AND prompt_cost + generation_cost > 0
    GROUP BY ALL
),
counts AS (
    SELECT c.*, sum(u.prompt_tokens::DECIMAL(38, 6))::DOUBLE AS prompts, sum(u.cached_tokens::DECIMAL(38, 6))::DOUBLE AS cached, sum(u.generation_tokens::DECIMAL(38, 6))::DOUBLE AS generations
    FROM uncounted AS c JOIN api_usage AS u ON u.seller = c.seller AND u.model_key = c.model_key AND u.hour_ms >= c.start_ms // 3600000 * 3600000 AND u.hour_ms < c.end_ms
    GROUP BY ALL
),
counted AS (
    SELECT l.*, c.prompts, c.cached, c.generations, coalesce(l.cost::DOUBLE / nullif(c.cost, 0)::DOUBLE, 1.0::DOUBLE / c.sharers) AS part
    FROM lines AS l
    LEFT JOIN counts AS c ON l.prompt_tokens IS NULL AND l.prompt_cost + l.generation_cost > 0 AND (c.seller, c.model_key, c.start_ms, c.end_ms) = (l.seller, l.model_key, l.start_ms, l.end_ms)
)
SELECT row_number() OVER (ORDER BY provider, source, model, owner, start_ms, end_ms, currency) AS line_id, * EXCLUDE (prompts, cached, generations, part)
    REPLACE (coalesce(prompt_tokens, prompts * part) AS prompt_tokens, coalesce(cached_tokens, cached * part) AS cached_tokens, coalesce(generation_tokens, generations * part) AS generation_tokens)
FROM counted;
