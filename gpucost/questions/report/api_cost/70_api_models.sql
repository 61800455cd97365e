-- reads: api_rows
-- writes: nothing; returns the purchases of each team by model, the most expensive first
-- invariant: the costs add up to the cost of api_rows
SELECT part_of(team) AS part, team, provider, model, source, sum(api_cost) AS api_cost,
    sum(commitment_cost) AS commitment_cost,
    sum(prompt_cost) AS prompt_cost, sum(generation_cost) AS generation_cost,
    sum(prompt_tokens::DECIMAL(38, 6))::DOUBLE AS prompt_tokens,
    sum(cached_tokens::DECIMAL(38, 6))::DOUBLE AS cached_tokens,
    sum(generation_tokens::DECIMAL(38, 6))::DOUBLE AS generation_tokens
FROM api_rows
GROUP BY team, provider, model, source
ORDER BY api_cost DESC, team, provider, model, source;
