-- reads: progress_new (registered: series met for the first time; texts are empty where there is none)
-- writes: progress_series
-- invariant: a key is entered once
INSERT INTO progress_series
SELECT series_id, key, identity, $source, mapping, unit, kind, marks, resumes, is_failure,
    nullif(cluster, ''), nullif(namespace, ''), nullif(pod, ''), nullif(workload, ''), nullif(model, ''), nullif(run_id, ''),
    map_from_entries(list_filter(list_zip(label_names, label_values), lambda pair: pair[1] <> ''))
FROM progress_new
ORDER BY series_id;
