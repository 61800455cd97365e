-- reads: api_charges
-- writes: api_shares, charges of one seller, model, owner and time (a line), by team
-- invariant: sum(cost) per line equals its charges; in total it equals all charges that are not repeated
CREATE OR REPLACE TEMP TABLE api_shares AS
WITH summed AS (
    SELECT provider, seller, source, model, model_key, owner, start_ms, end_ms, currency, sum(cost) AS cost,
        count(*) - count(cost) AS without_rate, list(charge_id) AS charge_ids,
        coalesce(sum(cost) FILTER (token_kind IN ('prompt', 'cached')), 0) AS prompt_cost,
        coalesce(sum(cost) FILTER (token_kind = 'generation'), 0) AS generation_cost,
        coalesce(sum(cost) FILTER (token_kind = 'commitment'), 0) AS commitment_cost,
        -- null if no charge has a number of tokens
        CASE WHEN count(tokens) > 0 THEN coalesce(
            sum(tokens::DECIMAL(38, 6)) FILTER (token_kind IN ('prompt', 'cached')), 0) END::DOUBLE AS prompt_tokens,
        (sum(tokens::DECIMAL(38, 6)) FILTER (token_kind = 'cached'))::DOUBLE AS cached_tokens,
        CASE WHEN count(tokens) > 0 THEN coalesce(
            sum(tokens::DECIMAL(38, 6)) FILTER (token_kind = 'generation'), 0) END::DOUBLE AS generation_tokens
    FROM api_charges
    WHERE NOT is_repeated
    GROUP BY ALL
),
lines AS (
    SELECT row_number() OVER (ORDER BY provider, source, model, owner, start_ms, end_ms, currency) AS line_id, *
    FROM summed
),
-- a cloud's repeated charges have tags that a vendor's invoice lacks
weights AS (
    SELECT seller, model_key, start_ms // 3600000 * 3600000 AS hour_ms, owner AS team, sum(cost) AS spend,
        sum(tokens::DECIMAL(38, 6)) AS tokens
    FROM api_charges WHERE is_repeated AND owner IS NOT NULL
    GROUP BY ALL
),
monthly AS (
    SELECT seller, date_trunc('month', epoch_ms(hour_ms)) AS month, team, sum(spend) AS spend, sum(tokens) AS tokens
    FROM weights GROUP BY ALL
),
claims AS (
    -- of the same time and model, otherwise of the same time, otherwise of the month
    SELECT l.line_id, CASE WHEN w.model_key = l.model_key THEN 1 ELSE 2 END AS level, w.team, w.spend, w.tokens
    FROM lines AS l JOIN weights AS w ON w.seller = l.seller AND w.hour_ms >= l.start_ms // 3600000 * 3600000
        AND w.hour_ms < greatest(l.end_ms, l.start_ms + 1)
    WHERE l.owner IS NULL
    UNION ALL
    SELECT l.line_id, 3, w.team, w.spend, w.tokens
    FROM lines AS l JOIN monthly AS w ON w.seller = l.seller AND w.month = date_trunc('month', epoch_ms(l.start_ms))
    WHERE l.owner IS NULL
),
weighed AS (
    SELECT line_id, level, team,
        CASE WHEN sum(sum(spend)) OVER w > 0 THEN coalesce(sum(spend), 0) ELSE coalesce(sum(tokens), 0) END AS weight
    FROM claims
    GROUP BY line_id, level, team
    WINDOW w AS (PARTITION BY line_id, level)
),
chosen AS (
    SELECT line_id, team, weight FROM weighed WHERE weight > 0 QUALIFY level = min(level) OVER (PARTITION BY line_id)
),
parts AS (
    SELECT l.* EXCLUDE (owner), coalesce(c.team, l.owner, 'unassigned') AS team, row_number() OVER line AS ordinal,
        count(*) OVER whole AS sharers,
        coalesce((sum(c.weight) OVER line)::DOUBLE / nullif(sum(c.weight) OVER whole, 0)::DOUBLE, 1) AS share_end,
        coalesce(c.weight::DOUBLE / nullif(sum(c.weight) OVER whole, 0)::DOUBLE, 1) AS share
    FROM lines AS l LEFT JOIN chosen AS c USING (line_id)
    WINDOW line AS (PARTITION BY line_id ORDER BY c.team), whole AS (PARTITION BY line_id)
),
ends AS (
    -- money is cut at the ends of the shares, so that no digit is lost
    SELECT *,
        CASE WHEN ordinal = sharers THEN cost ELSE money_until(cost, share_end) END AS cost_end,
        CASE WHEN ordinal = sharers THEN prompt_cost ELSE money_until(prompt_cost, share_end) END AS prompt_end,
        CASE WHEN ordinal = sharers THEN generation_cost
            ELSE money_until(generation_cost, share_end) END AS generation_end,
        CASE WHEN ordinal = sharers THEN commitment_cost
            ELSE money_until(commitment_cost, share_end) END AS commitment_end
    FROM parts
)
SELECT provider, seller, source, model, model_key, start_ms, end_ms, currency, without_rate, charge_ids, team, share,
    cost_end - coalesce(lag(cost_end) OVER line, 0) AS cost,
    prompt_end - coalesce(lag(prompt_end) OVER line, 0) AS prompt_cost,
    generation_end - coalesce(lag(generation_end) OVER line, 0) AS generation_cost,
    commitment_end - coalesce(lag(commitment_end) OVER line, 0) AS commitment_cost,
    prompt_tokens * share AS prompt_tokens, cached_tokens * share AS cached_tokens,
    generation_tokens * share AS generation_tokens
FROM ends
WINDOW line AS (PARTITION BY line_id ORDER BY ordinal);
