-- reads: progress_runs_batch (registered; texts are empty, numbers null, where there is none)
-- writes: progress_runs
-- invariant: one row per source and run, if the caller has deleted the former
INSERT INTO progress_runs
SELECT $source, run_id, nullif(parent_id, ''), experiment, name, status, started_ms, nullif(ended_ms, 0),
    nullif(cluster, ''), nullif(namespace, ''), nullif(pod, ''), nullif(workload, ''), nullif(planned_epochs, 0),
    map_from_entries(list_transform(list_filter(list_zip(metric_names, metric_values), lambda pair: pair[1] <> ''),
        lambda pair: {"k": pair[1], "v": pair[2]::DOUBLE}))
FROM progress_runs_batch;
