-- reads: gateway_usage, api_charges, api_team_values, api_team_globs, fx_rates
-- writes: api_usage, per hour, seller, model and team what gateways passed on to sellers: tokens, and what they priced it at, in the report's currency, null where that has no rate; is_covered where a bill or an invoice tells of the same calls
-- invariant: what own pods served is not in it
CREATE OR REPLACE TEMP TABLE api_usage AS
WITH hours AS (
    SELECT at_ms // 3600000 * 3600000 AS hour_ms, provider AS seller, model, team AS name, unit, coalesce(currency, 'USD') AS currency,
        sum(amount::DECIMAL(38, 12)) AS amount
    FROM gateway_usage
    WHERE NOT is_own
    GROUP BY ALL
),
names AS (
    SELECT n.name, coalesce(arg_min(v.team, v.ordinal), arg_min(g.team, g.ordinal), n.name) AS team
    FROM (SELECT DISTINCT name FROM hours WHERE name IS NOT NULL) AS n
    LEFT JOIN api_team_values AS v ON v.value = n.name
    LEFT JOIN api_team_globs AS g ON n.name GLOB g.pattern
    GROUP BY n.name
),
covered AS (
    -- from the begin of the month, as bills are, to the last charge: a commitment of the whole month says nothing of how far that is
    SELECT seller, sold_vendor, epoch_ms(strptime(billing_period || '-01', '%Y-%m-%d')) AS from_ms,
        coalesce(max(end_ms) FILTER (token_kind IN ('prompt', 'cached', 'generation')), max(end_ms)) AS to_ms
    FROM api_charges GROUP BY ALL
),
summed AS (
    SELECT h.hour_ms, h.seller, h.model, n.team, h.currency, f.rate IS NULL AS lacks_rate,
        sum(CASE WHEN h.unit = 'spend' THEN (h.amount * coalesce(f.rate, 0))::DECIMAL(38, 9) END) AS spend,
        sum(CASE WHEN h.unit = 'spend' THEN h.amount END) AS own_spend,
        coalesce(sum(h.amount) FILTER (h.unit = 'prompt_token'), 0)::DOUBLE AS prompt_tokens,
        (sum(h.amount) FILTER (h.unit = 'cached_token'))::DOUBLE AS cached_tokens,
        coalesce(sum(h.amount) FILTER (h.unit = 'generation_token'), 0)::DOUBLE AS generation_tokens
    FROM hours AS h
    LEFT JOIN names AS n USING (name)
    LEFT JOIN fx_rates AS f ON f.currency = h.currency AND f.from_ms <= h.hour_ms AND h.hour_ms < f.to_ms
    GROUP BY ALL
)
SELECT s.* EXCLUDE (lacks_rate, own_spend) REPLACE (CASE WHEN NOT lacks_rate OR coalesce(own_spend, 0) = 0 THEN coalesce(spend, 0) END AS spend),
    model_key(s.model) AS model_key,
    EXISTS (FROM covered AS c WHERE c.seller = s.seller AND c.from_ms <= s.hour_ms AND s.hour_ms < c.to_ms
        AND (c.sold_vendor IS NULL OR coalesce(c.sold_vendor = model_vendor(s.model), false))) AS is_covered
FROM summed AS s;
