-- reads: pricing/prices.csv ($path)
-- writes: catalog_prices, list prices per hour of a whole instance; an empty field is null and means any
-- invariant: one row per (provider, region, zone, instance_type, purchase_option, term_years, payment_option, currency, price_as_of)
CREATE OR REPLACE TEMP TABLE catalog_prices AS
SELECT * FROM read_csv($path, header = true, auto_detect = false, delim = ',', quote = '"', columns = {
    'provider': 'VARCHAR', 'region': 'VARCHAR', 'zone': 'VARCHAR', 'instance_type': 'VARCHAR', 'purchase_option': 'VARCHAR',
    'term_years': 'INTEGER', 'payment_option': 'VARCHAR', 'price_per_hour': 'DECIMAL(24, 12)', 'currency': 'VARCHAR',
    'price_as_of': 'DATE', 'source_id': 'VARCHAR'});
