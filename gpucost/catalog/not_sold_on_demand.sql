-- reads: pricing/not_sold_on_demand.csv ($path)
-- writes: not_sold_on_demand, instance types (or series of them) whose missing on-demand price is a fact, and how they are sold instead
-- invariant: one row per (provider, instance_type); sold_as holds purchase options, none where nothing has a public price
CREATE TEMP TABLE IF NOT EXISTS not_sold_on_demand AS
SELECT * REPLACE (coalesce(string_split(sold_as, ' '), []) AS sold_as)
FROM read_csv($path, header = true, auto_detect = false, delim = ',', quote = '"', columns = {
    'provider': 'VARCHAR', 'instance_type': 'VARCHAR', 'sold_as': 'VARCHAR', 'fact': 'VARCHAR', 'as_of': 'DATE', 'source_id': 'VARCHAR'});
