-- reads: api_rows; $sellers and $models, pairs by position (a seller of null is any)
-- writes: nothing; returns a row: the models' cost, its sources, its tokens (0: unknown)
-- invariant: no row of api_rows counts twice
WITH asked AS (
    SELECT DISTINCT seller, model, model_key(model) AS model_key
    FROM (SELECT unnest($sellers::VARCHAR[]) AS seller, unnest($models::VARCHAR[]) AS model)
),
found AS (
    SELECT *,
        EXISTS (
            FROM asked AS a
            WHERE (a.seller IS NULL OR a.seller = r.seller) AND a.model_key = r.model_key) AS is_asked,
        EXISTS (FROM asked AS a WHERE a.seller IS NULL OR a.seller = r.seller) AS is_theirs
    FROM api_rows AS r
),
unpriced AS (
    SELECT DISTINCT model FROM asked AS a
    WHERE NOT EXISTS (
        FROM api_rows AS r
        WHERE (a.seller IS NULL OR a.seller = r.seller) AND a.model_key = r.model_key AND r.api_cost > 0)
)
SELECT coalesce(sum(api_cost) FILTER (is_asked), 0) AS cost,
    sum(prompt_cost) FILTER (is_asked) AS prompt_cost, sum(generation_cost) FILTER (is_asked) AS generation_cost,
    CASE WHEN count(*) FILTER (
            is_asked AND api_cost <> commitment_cost AND coalesce(prompt_tokens + generation_tokens, 0) = 0) > 0 THEN 0
        ELSE coalesce(sum((prompt_tokens + generation_tokens)::DECIMAL(38, 6)) FILTER (is_asked), 0)
    END::DOUBLE AS tokens,
    coalesce(list(DISTINCT source ORDER BY source) FILTER (is_asked), []) AS sources,
    coalesce(list(DISTINCT provider ORDER BY provider) FILTER (is_asked), []) AS providers,
    coalesce(sum(api_cost) FILTER (is_theirs AND model IS NULL), 0) AS unclear_cost,
    coalesce(sum(api_cost) FILTER (is_theirs AND NOT is_asked AND model IS NOT NULL), 0) AS other_cost,
    coalesce((SELECT list(model ORDER BY model) FROM unpriced), []) AS unpriced
FROM found;
