-- reads: api_shares, time_buckets; $teams filter (empty: all)
-- writes: api_rows, cost and number of bought tokens by team, provider, model, source and time bucket
-- invariant: the rows of adjoining periods add up to api_shares, exactly
CREATE OR REPLACE TEMP TABLE api_rows AS
WITH pieces AS (
    SELECT s.*, b.month, b.day, b.hour,
        -- a charge for an instant belongs to the bucket of that instant
        CASE WHEN s.end_ms <= s.start_ms OR s.end_ms <= b.to_ms THEN 1
            ELSE (b.to_ms - s.start_ms) / (s.end_ms - s.start_ms) END AS until,
        CASE WHEN s.start_ms >= b.from_ms THEN 0 ELSE (b.from_ms - s.start_ms) / (s.end_ms - s.start_ms) END AS since
    FROM api_shares AS s
    JOIN time_buckets AS b ON s.start_ms < b.to_ms AND (s.end_ms > b.from_ms OR s.start_ms >= b.from_ms)
    WHERE passes($teams, s.team)
)
SELECT team, provider, model, source, month, day, hour,
    sum(money_until(cost, until) - money_until(cost, since)) AS api_cost,
    sum(money_until(prompt_cost, until) - money_until(prompt_cost, since)) AS prompt_cost,
    sum(money_until(generation_cost, until) - money_until(generation_cost, since)) AS generation_cost,
    sum(money_until(commitment_cost, until) - money_until(commitment_cost, since)) AS commitment_cost,
    sum((prompt_tokens * (until - since))::DECIMAL(38, 6))::DOUBLE AS prompt_tokens,
    sum((cached_tokens * (until - since))::DECIMAL(38, 6))::DOUBLE AS cached_tokens,
    sum((generation_tokens * (until - since))::DECIMAL(38, 6))::DOUBLE AS generation_tokens
FROM pieces
GROUP BY ALL;
