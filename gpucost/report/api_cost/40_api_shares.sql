-- reads: api_lines, api_usage, api_charges
-- writes: api_shares, what of each line is whose: all of one that says so; others are split by what gateways, or a cloud's repeated charges, tell of the same time and model, else of the same time, else of the month; unassigned where none does
-- invariant: per line, sum(cost) is the line's cost, exactly
CREATE OR REPLACE TEMP TABLE api_shares AS
WITH weights AS (
    SELECT seller, model_key, hour_ms, team, sum(spend) AS spend, sum(tokens) AS tokens
    FROM (
        SELECT seller, model_key, hour_ms, coalesce(team, 'unassigned') AS team, spend, (prompt_tokens + generation_tokens)::DECIMAL(38, 6) AS tokens FROM api_usage
        UNION ALL
        SELECT seller, model_key, start_ms // 3600000 * 3600000, owner, cost, tokens::DECIMAL(38, 6) FROM api_charges WHERE is_repeated AND owner IS NOT NULL
    )
    GROUP BY ALL
),
hourly AS (SELECT seller, hour_ms, team, sum(spend) AS spend, sum(tokens) AS tokens FROM weights GROUP BY ALL),
monthly AS (SELECT seller, date_trunc('month', epoch_ms(hour_ms)) AS month, team, sum(spend) AS spend, sum(tokens) AS tokens FROM hourly GROUP BY ALL),
pools AS (
    SELECT row_number() OVER () AS pool_id, dense_rank() OVER (ORDER BY seller, start_ms, end_ms) AS span_id, *
    FROM (SELECT DISTINCT seller, model_key, start_ms, greatest(end_ms, start_ms + 1) AS end_ms FROM api_lines WHERE owner IS NULL)
),
-- by the hour, so that joins are by equality: charges and calls are both many
span_hours AS (
    SELECT span_id, seller, unnest(range(greatest(start_ms // 3600000 * 3600000, (SELECT min(hour_ms) FROM hourly)), least(end_ms, (SELECT max(hour_ms) + 1 FROM hourly)), 3600000)) AS hour_ms
    FROM (SELECT DISTINCT span_id, seller, start_ms, end_ms FROM pools)
),
claims AS (
    SELECT p.pool_id, 1 AS level, w.team, sum(w.spend) AS spend, sum(w.tokens) AS tokens
    FROM pools AS p JOIN span_hours AS h USING (span_id) JOIN weights AS w ON w.seller = p.seller AND w.model_key = p.model_key AND w.hour_ms = h.hour_ms
    GROUP BY ALL
    UNION ALL
    SELECT p.pool_id, 2, c.team, c.spend, c.tokens
    FROM pools AS p JOIN (
        SELECT h.span_id, w.team, sum(w.spend) AS spend, sum(w.tokens) AS tokens
        FROM span_hours AS h JOIN hourly AS w USING (seller, hour_ms) GROUP BY ALL
    ) AS c USING (span_id)
    UNION ALL
    SELECT p.pool_id, 3, w.team, w.spend, w.tokens
    FROM pools AS p JOIN monthly AS w ON w.seller = p.seller AND w.month = date_trunc('month', epoch_ms(p.start_ms))
),
weighed AS (
    SELECT pool_id, level, team, CASE WHEN sum(spend) OVER w > 0 THEN coalesce(spend, 0) ELSE coalesce(tokens, 0) END AS weight
    FROM claims
    WINDOW w AS (PARTITION BY pool_id, level)
),
chosen AS (
    SELECT pool_id, team, weight FROM weighed WHERE weight > 0 QUALIFY level = min(level) OVER (PARTITION BY pool_id)
),
parts AS (
    SELECT l.line_id, coalesce(c.team, l.owner, 'unassigned') AS team, row_number() OVER line AS ordinal, count(*) OVER (PARTITION BY l.line_id) AS sharers,
        coalesce((sum(c.weight) OVER line)::DOUBLE / nullif(sum(c.weight) OVER (PARTITION BY l.line_id), 0)::DOUBLE, 1) AS share_end,
        coalesce(c.weight::DOUBLE / nullif(sum(c.weight) OVER (PARTITION BY l.line_id), 0)::DOUBLE, 1) AS share,
        l.cost, l.prompt_cost, l.generation_cost, l.commitment_cost, l.prompt_tokens, l.cached_tokens, l.generation_tokens
    FROM api_lines AS l
    LEFT JOIN pools AS p ON l.owner IS NULL AND p.start_ms = l.start_ms AND p.end_ms = greatest(l.end_ms, l.start_ms + 1)
        AND (p.seller, p.model_key) IS NOT DISTINCT FROM (l.seller, l.model_key)
    LEFT JOIN chosen AS c USING (pool_id)
    WINDOW line AS (PARTITION BY l.line_id ORDER BY c.team)
),
ends AS (
    -- money is cut at the ends of the shares, so that no digit is lost
    SELECT *,
        CASE WHEN ordinal = sharers THEN cost ELSE money_until(cost, share_end) END AS cost_end,
        CASE WHEN ordinal = sharers THEN prompt_cost ELSE money_until(prompt_cost, share_end) END AS prompt_end,
        CASE WHEN ordinal = sharers THEN generation_cost ELSE money_until(generation_cost, share_end) END AS generation_end,
        CASE WHEN ordinal = sharers THEN commitment_cost ELSE money_until(commitment_cost, share_end) END AS commitment_end
    FROM parts
)
SELECT line_id, team, share,
    cost_end - coalesce(lag(cost_end) OVER line, 0) AS cost,
    prompt_end - coalesce(lag(prompt_end) OVER line, 0) AS prompt_cost,
    generation_end - coalesce(lag(generation_end) OVER line, 0) AS generation_cost,
    commitment_end - coalesce(lag(commitment_end) OVER line, 0) AS commitment_cost,
    prompt_tokens * share AS prompt_tokens, cached_tokens * share AS cached_tokens, generation_tokens * share AS generation_tokens
FROM ends
WINDOW line AS (PARTITION BY line_id ORDER BY ordinal);
