-- reads: pricing/prices.csv ($path)
-- writes: catalog_prices, list prices per hour of a whole instance; an empty field is null and means any; offering as the store's list_prices tell them, '' where it is not known
-- invariant: one row per (provider, region, zone, instance_type, purchase_option, term_years, payment_option, currency, price_as_of)
CREATE TEMP TABLE IF NOT EXISTS catalog_prices AS
-- the sources tell no offerings apart; of AWS' reservations they hold the standard one
SELECT *, CASE WHEN provider = 'aws' AND purchase_option = 'reserved' THEN 'standard' ELSE '' END AS offering FROM read_csv($path, header = true, auto_detect = false, delim = ',', quote = '"', columns = {
    'provider': 'VARCHAR', 'region': 'VARCHAR', 'zone': 'VARCHAR', 'instance_type': 'VARCHAR', 'purchase_option': 'VARCHAR',
    'term_years': 'INTEGER', 'payment_option': 'VARCHAR', 'price_per_hour': 'DECIMAL(24, 12)', 'currency': 'VARCHAR',
    'price_as_of': 'DATE', 'source_id': 'VARCHAR'});
