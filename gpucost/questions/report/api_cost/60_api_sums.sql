-- reads: api_rows; $by the dimensions of a report
-- writes: nothing; returns one row per part and combination of the dimensions, the most expensive first
-- invariant: with any dimensions the costs add up to the same total
WITH known AS (
    -- bought tokens have a team and a time, and no other dimension
    SELECT *, NULL AS cluster, NULL AS namespace, NULL AS account, NULL AS "user", NULL AS partition, NULL AS qos,
        NULL AS reservation, NULL AS workload, NULL AS workload_type, NULL AS pod, NULL AS uid, NULL AS node,
        NULL AS gpu_model, NULL AS capacity_type, NULL AS region, NULL AS zone, NULL::MAP(VARCHAR, VARCHAR) AS labels
    FROM api_rows
),
sums AS (
    SELECT part_of(team) AS part, dimensions($by::VARCHAR[], f) AS keys, sum(api_cost) AS api_cost,
        sum(commitment_cost) AS commitment_cost,
        sum(prompt_tokens::DECIMAL(38, 6))::DOUBLE AS prompt_tokens,
        sum(cached_tokens::DECIMAL(38, 6))::DOUBLE AS cached_tokens,
        sum(generation_tokens::DECIMAL(38, 6))::DOUBLE AS generation_tokens
    FROM known AS f
    GROUP BY ALL
)
SELECT part, unnest(keys), * EXCLUDE (part, keys) FROM sums ORDER BY api_cost DESC, keys;
