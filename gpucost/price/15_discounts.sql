-- reads: [[prices.discounts]], bound as rows; gpu_aliases
-- writes: discounts, the factors of discounts; a null field matches anything; discount_fits, discount_in_force (macros): whether a discount applies to a seller's instance type with a GPU model, one rule for nodes and list prices, and to a purchase option's price from a source at a moment
-- invariant: one row per discount, in the config's order; text is in lower case; factor is in (0, 1)
CREATE OR REPLACE TEMP MACRO discount_fits(discount, seller, instance_type, gpu_model) AS
    coalesce(discount.provider = seller, discount.provider IS NULL)
    AND coalesce(model_spelling(discount.gpu_model) = model_spelling(gpu_model), discount.gpu_model IS NULL)
    AND (discount.instance_family IS NULL OR coalesce(starts_with(instance_type, discount.instance_family)
        -- p5 does not include p5en, nor g1 g16; Standard_ND includes Standard_ND96
        AND NOT regexp_matches(right(discount.instance_family, 1) || instance_type[length(discount.instance_family) + 1], '^([a-z0-9][a-z]|[0-9][0-9])$'), false));
CREATE OR REPLACE TEMP MACRO discount_in_force(discount, option, source, at_ms) AS
    coalesce(option IN (discount.purchase_option, discount.capacity_type), true) AND list_contains(discount.price_sources, source)
    AND discount.from_ms <= at_ms AND at_ms < discount.to_ms;
CREATE OR REPLACE TEMP TABLE discounts AS
WITH bound AS (
    SELECT d.* REPLACE (
        d.factor::DECIMAL(13, 12) AS factor, nullif(lower(d.provider), '') AS provider, nullif(lower(d.instance_family), '') AS instance_family,
        coalesce(d.from_ms, -4611686018427387904) AS from_ms, coalesce(d.to_ms, 4611686018427387904) AS to_ms)
    FROM (SELECT unnest($rows::STRUCT(
        number INTEGER, factor VARCHAR, provider VARCHAR, instance_family VARCHAR, gpu_model VARCHAR, capacity_type VARCHAR,
        purchase_option VARCHAR, price_sources VARCHAR[], from_ms BIGINT, to_ms BIGINT)[]) AS d)
)
SELECT b.* REPLACE (coalesce(a.gpu_model, b.gpu_model) AS gpu_model), b.gpu_model IS NULL OR a.gpu_model IS NOT NULL AS is_known
FROM bound AS b
LEFT JOIN gpu_aliases AS a ON a.alias = model_spelling(b.gpu_model);
