-- reads: the rows of the price book, bound as one list per column
-- writes: price_book, the user's prices; a null field matches anything, a null start_ms is since ever
-- invariant: one row per line of the file; text is lower-cased, but for labels and their values
CREATE OR REPLACE TEMP TABLE price_book AS
SELECT
    unnest($line::INTEGER[]) AS line,
    unnest($specificity::INTEGER[]) AS specificity,
    unnest($provider::VARCHAR[]) AS provider,
    unnest($region::VARCHAR[]) AS region,
    unnest($zone::VARCHAR[]) AS zone,
    unnest($instance_type::VARCHAR[]) AS instance_type,
    unnest($purchase_option::VARCHAR[]) AS purchase_option,
    unnest($price_per_hour::VARCHAR[])::DECIMAL(21, 12) AS price_per_hour,
    unnest($currency::VARCHAR[]) AS currency,
    unnest($per_gpu::BOOLEAN[]) AS per_gpu,
    unnest($selector_labels::VARCHAR[][]) AS selector_labels,
    unnest($selector_values::VARCHAR[][]) AS selector_values,
    unnest($start_ms::BIGINT[]) AS start_ms,
    unnest($price_as_of::DATE[]) AS price_as_of;
