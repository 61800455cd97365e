-- reads: the rates of [prices.fx] and fx_rates, bound as one list per column
-- writes: fx_rates, what one unit of a currency is worth in the config's; null before its first day
-- invariant: per currency, half-open intervals that cover all time without overlap; the config's own currency is worth 1 at all times
CREATE OR REPLACE TEMP TABLE fx_rates AS
SELECT
    unnest($currency::VARCHAR[]) AS currency,
    coalesce(unnest($from_ms::BIGINT[]), -4611686018427387904) AS from_ms,
    coalesce(unnest($to_ms::BIGINT[]), 4611686018427387904) AS to_ms,
    unnest($rate::VARCHAR[])::DECIMAL(18, 12) AS rate;
