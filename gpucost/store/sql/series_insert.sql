-- reads: new_series (registered: series met for the first time)
-- writes: series
-- invariant: a key is entered once; labels hold neither __name__ nor empty values
INSERT INTO series
SELECT series_id, key, $source, cluster, metric,
       map_from_entries(list_filter(list_zip(label_names, label_values), lambda pair: pair[1] <> ''))
FROM new_series
ORDER BY series_id;
