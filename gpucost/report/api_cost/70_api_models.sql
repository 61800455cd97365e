-- reads: api_rows; $each_team whether of each team apart
-- writes: nothing; answers what each team bought of each model, from whom and what says so, the dearest first; prompt and generation cost are null where not all of it is known by kinds of tokens
-- invariant: the costs add up to those of api_rows
SELECT CASE WHEN $each_team THEN team END AS part, team, provider, model, source, sum(api_cost) AS api_cost,
    CASE WHEN source = 'gateway' THEN sum(api_cost) ELSE 0 END AS estimated_api_cost, sum(commitment_cost) AS commitment_cost,
    CASE WHEN count(prompt_cost) = count(*) THEN sum(prompt_cost) END AS prompt_cost,
    CASE WHEN count(generation_cost) = count(*) THEN sum(generation_cost) END AS generation_cost,
    sum(prompt_tokens::DECIMAL(38, 6))::DOUBLE AS prompt_tokens, sum(cached_tokens::DECIMAL(38, 6))::DOUBLE AS cached_tokens,
    sum(generation_tokens::DECIMAL(38, 6))::DOUBLE AS generation_tokens
FROM api_rows
GROUP BY team, provider, model, source
ORDER BY api_cost DESC, team, provider, model, source;
