-- reads: gateway_usage, unit_days
-- writes: nothing; answers one row per day of unit_days (from_ms), seller and model: the tokens that gateways passed on to others than own pods
-- invariant: the sums over rows are those of gateway_usage in the days
SELECT d.from_ms, d.day, u.provider, u.model,
    coalesce(sum(u.amount::DECIMAL(38, 9)) FILTER (u.unit = 'prompt_token'), 0)::DOUBLE AS prompt_tokens,
    (sum(u.amount::DECIMAL(38, 9)) FILTER (u.unit = 'cached_token'))::DOUBLE AS cached_tokens,
    coalesce(sum(u.amount::DECIMAL(38, 9)) FILTER (u.unit = 'generation_token'), 0)::DOUBLE AS generation_tokens
FROM gateway_usage AS u JOIN unit_days AS d ON u.at_ms >= d.from_ms AND u.at_ms < d.to_ms
WHERE NOT u.is_own
GROUP BY d.from_ms, d.day, u.provider, u.model
HAVING sum(u.amount) FILTER (u.unit IN ('prompt_token', 'generation_token')) > 0
ORDER BY d.from_ms, u.provider, u.model;
