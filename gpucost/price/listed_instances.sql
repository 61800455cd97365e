-- reads: catalog_instances, instance_types
-- writes: listed_instances, the GPUs of each instance type: from the newest list of a cloud's API, otherwise from the catalog
-- invariant: one row per (provider, instance_type), both in lower case; gpu_count may be a fraction and is above zero
CREATE OR REPLACE TEMP TABLE listed_instances AS
WITH known AS (
    SELECT lower(provider) AS provider, lower(instance_type) AS instance_type, gpu_model, gpu_count::DECIMAL(12, 6) AS gpu_count,
        NULL::DATE AS seen_on
    FROM catalog_instances
    UNION ALL
    SELECT lower(provider), lower(instance_type), gpu_model, gpu_count::DECIMAL(12, 6), seen_on
    FROM instance_types
)
SELECT provider, instance_type, gpu_model, gpu_count
FROM known
WHERE gpu_count > 0 -- an API without fractional GPUs counts 0
QUALIFY row_number() OVER (PARTITION BY provider, instance_type ORDER BY seen_on DESC NULLS LAST, gpu_model) = 1;
