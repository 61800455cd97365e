-- reads: [[prices.discounts]], bound as one list per column; gpu_aliases
-- writes: discounts, what is left of a price; a null field matches anything
-- invariant: one row per discount, in the config's order; text is lower-cased; factor is in (0, 1)
CREATE OR REPLACE TEMP TABLE discounts AS
WITH bound AS (
    SELECT
        unnest($number::INTEGER[]) AS number,
        unnest($factor::VARCHAR[])::DECIMAL(13, 12) AS factor,
        nullif(lower(unnest($provider::VARCHAR[])), '') AS provider,
        nullif(lower(unnest($instance_family::VARCHAR[])), '') AS instance_family,
        unnest($gpu_model::VARCHAR[]) AS gpu_model,
        unnest($capacity_type::VARCHAR[]) AS capacity_type,
        unnest($price_sources::VARCHAR[][]) AS price_sources,
        coalesce(unnest($from_ms::BIGINT[]), -4611686018427387904) AS from_ms,
        coalesce(unnest($to_ms::BIGINT[]), 4611686018427387904) AS to_ms
)
SELECT b.* REPLACE (coalesce(a.gpu_model, b.gpu_model) AS gpu_model), b.gpu_model IS NULL OR a.gpu_model IS NOT NULL AS is_known
FROM bound AS b
LEFT JOIN gpu_aliases AS a
    ON a.alias = regexp_replace(regexp_replace(lower(b.gpu_model), '[^a-z0-9]', '', 'g'), '^(nvidia|tesla)+', '');
