-- reads: unit_increases, progress_series, progress_values; $from_ms, $to_ms the period; $globs of what gateways call providers with the $sellers that they are; $self_hosting and $compatible providers; $own, $bought: globs of the configuration
-- writes: gateway_usage, what gateways passed on in the period, per quarter of an hour and whom it was for, and whether own pods served it
-- invariant: sum(amount + failed) is the sum of the increases in the period, less what counters tell of quarters of an hour that a gateway's log tells of, and of the next
CREATE OR REPLACE TEMP TABLE gateway_usage AS
WITH logs AS (
    SELECT DISTINCT s.gateway, v.at_ms // 900000 AS quarter
    FROM progress_series AS s JOIN progress_values AS v USING (series_id)
    WHERE s.gateway IS NOT NULL AND s.kind = 'event' AND v.at_ms >= ($from_ms // 900000 - 1) * 900000
),
served AS (
    SELECT DISTINCT lower(model) AS model
    FROM progress_series
    WHERE gateway IS NULL AND model IS NOT NULL AND (pod IS NOT NULL OR workload IS NOT NULL)
),
quarters AS (
    SELECT i.series_id, min(i.at_ms) AS at_ms, sum(i.amount::DECIMAL(38, 12))::DOUBLE AS amount
    FROM unit_increases AS i JOIN progress_series AS s USING (series_id)
    WHERE i.at_ms >= $from_ms AND i.at_ms < $to_ms AND i.amount > 0
        -- a log's calls are known by the quarter; a counter shows a call when it is looked at next
        AND NOT (s.kind = 'counter' AND EXISTS (FROM logs AS l WHERE l.gateway = s.gateway AND i.at_ms // 900000 - l.quarter IN (0, 1)))
    GROUP BY i.series_id, i.at_ms // 900000
),
words AS (
    -- LiteLLM writes `provider/model`, and where it has a label of the provider it may still do so
    SELECT series_id, api_base, lower(provider) AS provider, lower(split_part(model, '/', 1)) AS prefix, model,
        regexp_extract(lower(api_base), '^(?:[a-z][a-z0-9+.-]*://)?(?:[^/@]*@)?(\[[^\]]*\]|[^/:?#]+)', 1) AS host
    FROM progress_series WHERE gateway IS NOT NULL
),
found AS (
    SELECT *, list_position(list_transform($globs::VARCHAR[], lambda one: provider GLOB one), true) AS place,
        CASE WHEN contains(model, '/') THEN list_position(list_transform($globs::VARCHAR[], lambda one: prefix GLOB one), true) END AS prefix_place
    FROM words
),
named AS (
    SELECT series_id, api_base, host, model AS whole_model,
        coalesce(provider, CASE WHEN prefix_place IS NOT NULL THEN prefix END) AS provider,
        CASE WHEN provider IS NULL THEN list_extract($sellers::VARCHAR[], prefix_place) ELSE coalesce(list_extract($sellers::VARCHAR[], place), provider) END AS seller,
        place IS NOT NULL OR prefix_place IS NOT NULL AS is_known,
        CASE WHEN contains(model, '/') AND (prefix = provider OR (prefix_place IS NOT NULL AND coalesce(list_extract($sellers::VARCHAR[], prefix_place) = list_extract($sellers::VARCHAR[], place), provider IS NULL)))
            THEN substr(model, strpos(model, '/') + 1) ELSE model END AS model
    FROM found
),
models AS (
    -- how Bedrock is called is no part of a model's name
    SELECT * REPLACE (CASE WHEN seller = 'aws' THEN regexp_replace(model, '^(converse|invoke)/', '') ELSE model END AS model),
        list_filter([provider, seller, lower(api_base), host, lower(whole_model), lower(model)], lambda name: name IS NOT NULL) AS names,
        regexp_full_match(host, '[^.:\[]+|.*\.(svc|local|internal|localhost)|.*\.svc\..*|(10|127)(\.[0-9]+){3}|(169\.254|192\.168|172\.(1[6-9]|2[0-9]|3[01]))(\.[0-9]+){2}'
            '|100\.(6[4-9]|[7-9][0-9]|1[01][0-9]|12[0-7])(\.[0-9]+){2}|\[(::1|f[cd].*|fe80.*)\]') AS is_private
    FROM named
),
owners AS (
    SELECT series_id, seller, nullif(model, '') AS model,
        CASE WHEN len(list_filter($bought::VARCHAR[], lambda one: len(list_filter(names, lambda name: name GLOB one)) > 0)) > 0 THEN false
            WHEN len(list_filter($own::VARCHAR[], lambda one: len(list_filter(names, lambda name: name GLOB one)) > 0)) > 0 THEN true
            WHEN list_contains($self_hosting::VARCHAR[], provider) THEN true
            -- a cloud's model behind a private address is reached through its network
            WHEN seller IN ('anthropic', 'aws', 'azure', 'gcp') THEN false
            WHEN is_private THEN true
            ELSE coalesce((NOT is_known OR list_contains($compatible::VARCHAR[], provider)) AND NOT coalesce(host GLOB '*.openai.com', false)
                AND lower(model) IN (SELECT model FROM served), false) END AS is_own
    FROM models
)
SELECT min(q.at_ms) AS at_ms, s.gateway, o.seller AS provider, o.is_own, o.model, s.team, s.tenant, s.unit, s.currency,
    coalesce(sum(q.amount::DECIMAL(38, 12)) FILTER (NOT s.is_failure), 0)::DOUBLE AS amount, coalesce(sum(q.amount::DECIMAL(38, 12)) FILTER (s.is_failure), 0)::DOUBLE AS failed
FROM quarters AS q JOIN progress_series AS s USING (series_id) JOIN owners AS o USING (series_id)
GROUP BY q.at_ms // 900000, s.gateway, o.seller, o.is_own, o.model, s.team, s.tenant, s.unit, s.currency;
