-- reads: call_texts; $file is the number of the file, $gateway wrote it, $failures are globs of statuses, $currency that of spend where none is named
-- writes: calls, the calls that a log tells of; key tells calls apart, without an id by all that is known of them and their number in the file, wrong names what cannot be read of a row and value what stands there
-- invariant: a row for each of the log that names a model or tokens
INSERT INTO calls
WITH texts AS (
    SELECT *, TRY_CAST(time AS DOUBLE) AS seconds,
        coalesce(len(list_filter($failures::VARCHAR[], lambda one: status GLOB one)) > 0, false) AS is_failure,
        coalesce(lower(from_cache) IN ('true', 't', '1', 'yes'), false) AS is_cached
    FROM call_texts
    WHERE model IS NOT NULL OR prompt_tokens IS NOT NULL OR generation_tokens IS NOT NULL
),
numbers AS (
    SELECT *, CASE WHEN seconds IS NULL THEN epoch_ms(TRY_CAST(time AS TIMESTAMPTZ))
            WHEN seconds >= 0 AND seconds < 32503680000 THEN round(seconds * 1000)::BIGINT
            WHEN seconds >= 0 AND seconds < 32503680000000 THEN round(seconds)::BIGINT END AS at_ms,
        CASE WHEN prompt_tokens IS NULL THEN 0 ELSE TRY_CAST(prompt_tokens AS DOUBLE) END AS prompt,
        CASE WHEN cached_tokens IS NULL THEN 0 ELSE TRY_CAST(cached_tokens AS DOUBLE) END AS cached,
        CASE WHEN generation_tokens IS NULL THEN 0 ELSE TRY_CAST(generation_tokens AS DOUBLE) END AS generation,
        CASE WHEN spend IS NULL THEN 0 ELSE TRY_CAST(spend AS DOUBLE) END AS money,
        upper(coalesce(currency, $currency)) AS money_of
    FROM texts
),
wrongs AS (
    SELECT *, CASE WHEN not_json IS NOT NULL THEN not_json
            WHEN at_ms IS NULL OR at_ms NOT BETWEEN 0 AND 32503680000000 THEN 'time'
            WHEN coalesce(prompt NOT BETWEEN 0 AND 1e15, true) THEN 'prompt_tokens'
            WHEN coalesce(cached NOT BETWEEN 0 AND 1e15, true) THEN 'cached_tokens'
            WHEN coalesce(generation NOT BETWEEN 0 AND 1e15, true) THEN 'generation_tokens'
            WHEN coalesce(money NOT BETWEEN 0 AND 1e15, true) THEN 'spend'
            WHEN NOT regexp_full_match(money_of, '[A-Z]{3}') THEN 'currency' END AS wrong
    FROM numbers
),
names AS (
    -- a failed call may be tried again under its id; without ids calls that are alike are told apart within a file alone
    SELECT concat($gateway, chr(1), id, CASE WHEN is_failure THEN concat(chr(1), at_ms) END) AS name, *
    FROM wrongs WHERE id IS NOT NULL
    UNION ALL
    SELECT concat(name, chr(1), row_number() OVER (PARTITION BY name ORDER BY file_row_number)) AS name, * EXCLUDE (name)
    FROM (
        SELECT concat_ws(chr(1), $gateway, '', at_ms, coalesce(model, ''), coalesce(tenant, ''), coalesce(team, ''), prompt, cached, generation,
            money, is_failure) AS name, *
        FROM wrongs WHERE id IS NULL)
)
SELECT $file AS file, file_row_number + 1 AS row,
    md5_number_lower(name) AS key, at_ms, coalesce(model, '') AS model, coalesce(provider, '') AS provider, coalesce(api_base, '') AS api_base,
    coalesce(team, '') AS team, coalesce(tenant, '') AS tenant, money_of AS currency, is_failure,
    -- what the gateway had in its own cache nobody computed, and nobody sold
    CASE WHEN is_cached THEN 0 ELSE prompt END AS prompt, CASE WHEN is_cached THEN 0 ELSE least(cached, prompt) END AS cached,
    CASE WHEN is_cached THEN 0 ELSE generation END AS generation, money AS spend, wrong,
    CASE wrong WHEN 'time' THEN time WHEN 'prompt_tokens' THEN prompt_tokens WHEN 'cached_tokens' THEN cached_tokens
        WHEN 'generation_tokens' THEN generation_tokens WHEN 'spend' THEN spend WHEN 'currency' THEN currency END AS value
FROM names;
