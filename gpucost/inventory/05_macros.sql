-- reads: the variables accelerators and other_resources (pricing/resources.csv), and cost_basis
-- writes: is_accelerator(resource), is_unlisted(resource), is_host_resource(resource), quantity(text, most), compute_slices(profile), model_key(name), model_name(name), slices_of(gpu_model, listed)
-- invariant: a resource has kube-state-metrics' name in lower case; is_accelerator and is_unlisted exclude each other; is_host_resource is false with the cost basis `node`

-- A GPU or another accelerator, or a part of one. This macro alone finds the holders of accelerators.
CREATE OR REPLACE TEMP MACRO is_accelerator(resource) AS
    regexp_full_match(resource, getvariable('accelerators')) AND NOT regexp_full_match(resource, getvariable('other_resources'));
-- A resource that no table lists; it may be an accelerator.
CREATE OR REPLACE TEMP MACRO is_unlisted(resource) AS
    NOT regexp_full_match(resource, getvariable('accelerators') || '|' || getvariable('other_resources'));
-- A node resource other than GPUs that the cost basis charges by request.
CREATE OR REPLACE TEMP MACRO is_host_resource(resource) AS
    getvariable('cost_basis') <> 'node' AND resource IN ('cpu', 'memory');
-- The number in a label or an annotation; null if invalid, nan, not above 0, or above the sensible maximum.
CREATE OR REPLACE TEMP MACRO quantity(text, most) AS
    CASE WHEN try_cast(text AS DOUBLE) > 0 AND try_cast(text AS DOUBLE) <= most THEN try_cast(text AS DOUBLE) END;
-- The compute slices in the name of a MIG profile, 1 to 99; null for other names.
CREATE OR REPLACE TEMP MACRO compute_slices(profile) AS
    quantity(regexp_extract(profile, '^([0-9]+)g', 1), 99);
-- A GPU model's name as in gpu_aliases, and as in reports if no alias lists it.
CREATE OR REPLACE TEMP MACRO model_key(name) AS
    model_spelling(regexp_replace(name, '(-MIG-.*|-SHARED)$', ''));
CREATE OR REPLACE TEMP MACRO model_name(name) AS
    regexp_replace(regexp_replace(name, '(-MIG-.*|-SHARED)$', ''), '^(NVIDIA|Tesla)[ -]', '');
-- The MIG slices of a GPU; `listed` is the catalog's number for its model.
CREATE OR REPLACE TEMP MACRO slices_of(gpu_model, listed) AS
    coalesce(nullif(listed, 0), CASE WHEN gpu_model SIMILAR TO '(A30|RTX[- ]?PRO[- ]?6000).*' THEN 4 ELSE 7 END);
