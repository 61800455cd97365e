-- reads: node_devices, gpu_aliases, gpu_models
-- writes: device_spans, one row per (node life, GPU measured on it): its first to its last sample, and whether it appeared in MIG instances only; node_models, one row per (life with several models, GPU model that its exporter names): the most at one time, their slices, and the profiles of their instances; mixed_spans, the same of lives with several models
-- invariant: from_ms < to_ms; gpu_count > 0; a life with a single model has no row in node_models
CREATE OR REPLACE TEMP TABLE device_spans AS
SELECT node_id, uuid, max(model_name) AS model_name, bool_and(gpu_instance_id <> '') AS is_sliced,
    list(DISTINCT lower(profile)) FILTER (profile IS NOT NULL) AS profiles, min(first_ms) AS from_ms, max(last_ms) + 1 AS to_ms
FROM node_devices
WHERE unit = 'device'
GROUP BY node_id, uuid;

CREATE OR REPLACE TEMP VIEW mixed_spans AS
FROM device_spans SEMI JOIN (SELECT node_id FROM device_spans GROUP BY node_id HAVING min(model_name) < max(model_name)) USING (node_id);

-- only with: mixed_spans
-- otherwise: node_models (node_id UBIGINT, gpu_model VARCHAR, uuids VARCHAR[], is_sliced BOOLEAN, profiles VARCHAR[], mig_slices DOUBLE, gpu_count DOUBLE)
CREATE OR REPLACE TEMP TABLE node_models AS
WITH modeled AS (
    SELECT d.*, coalesce(a.gpu_model, model_name(d.model_name)) AS gpu_model
    FROM mixed_spans AS d LEFT JOIN gpu_aliases AS a ON a.alias = model_key(d.model_name)
    WHERE d.model_name IS NOT NULL
    QUALIFY count(DISTINCT coalesce(a.gpu_model, model_name(d.model_name))) OVER (PARTITION BY d.node_id) > 1
),
levels AS (
    SELECT node_id, gpu_model, sum(sum(change)) OVER (PARTITION BY node_id, gpu_model ORDER BY at_ms) AS gpu_count
    FROM (SELECT node_id, gpu_model, unnest([from_ms, to_ms]) AS at_ms, unnest([1, -1]) AS change FROM modeled)
    GROUP BY node_id, gpu_model, at_ms
)
SELECT m.node_id, m.gpu_model, list(m.uuid) AS uuids, bool_and(m.is_sliced) AS is_sliced,
    list_distinct(flatten(coalesce(list(m.profiles) FILTER (m.profiles IS NOT NULL), []))) AS profiles,
    any_value(slices_of(m.gpu_model, g.mig_slices))::DOUBLE AS mig_slices, any_value(l.gpu_count)::DOUBLE AS gpu_count
FROM modeled AS m
JOIN (SELECT node_id, gpu_model, max(gpu_count) AS gpu_count FROM levels GROUP BY ALL) AS l USING (node_id, gpu_model)
LEFT JOIN gpu_models AS g USING (gpu_model)
GROUP BY m.node_id, m.gpu_model;
