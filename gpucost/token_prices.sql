-- reads: the files of pricing/, by catalog_csv; token_prices, $day
-- writes: token_price_list, what a million tokens of a model costs at who sells it: of what the catalog and the store know, the newest of $day or before, else the oldest
-- invariant: one row per provider and model, in any case of letters; what was collected wins over the catalog of its day
CREATE OR REPLACE TEMP TABLE token_price_list AS
WITH facts AS (
    SELECT provider, model, input_price_per_million, cached_input_price_per_million, output_price_per_million, currency, price_as_of,
        source_id AS source, 'catalog' AS origin
    FROM catalog_csv('tokens.csv', {
        'provider': 'VARCHAR', 'model': 'VARCHAR', 'input_price_per_million': 'DECIMAL(38, 9)',
        'cached_input_price_per_million': 'DECIMAL(38, 9)', 'output_price_per_million': 'DECIMAL(38, 9)', 'currency': 'VARCHAR',
        'price_as_of': 'DATE', 'source_id': 'VARCHAR'})
    UNION ALL
    SELECT provider, model, input_price_per_million, cached_input_price_per_million, output_price_per_million, currency, price_as_of,
        source, 'store'
    FROM token_prices
)
SELECT * EXCLUDE (origin)
FROM facts
QUALIFY row_number() OVER (
    PARTITION BY provider, lower(model)
    ORDER BY price_as_of > $day::DATE, abs(price_as_of - $day::DATE), origin = 'store' DESC
) = 1;
