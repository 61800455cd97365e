-- reads: the variables accelerators and other_resources (pricing/resources.csv), and cost_basis
-- writes: is_accelerator(resource), is_unlisted(resource), is_host_resource(resource), quantity(text, most), compute_slices(profile), model_key(name), model_name(name), slices_of(gpu_model, listed)
-- invariant: a resource is named as kube-state-metrics does, lower-cased; of none both is_accelerator and is_unlisted hold; is_host_resource holds of none with the cost basis `node`

-- A GPU or another accelerator, or a part of one: what holds accelerators is found by it alone.
CREATE OR REPLACE TEMP MACRO is_accelerator(resource) AS
    regexp_full_match(resource, getvariable('accelerators')) AND NOT regexp_full_match(resource, getvariable('other_resources'));
-- No table says what it is: it may be an accelerator.
CREATE OR REPLACE TEMP MACRO is_unlisted(resource) AS
    NOT regexp_full_match(resource, getvariable('accelerators') || '|' || getvariable('other_resources'));
-- One of the node's besides GPUs that the cost basis charges by request.
CREATE OR REPLACE TEMP MACRO is_host_resource(resource) AS
    getvariable('cost_basis') <> 'node' AND resource IN ('cpu', 'memory');
-- The number that a label or an annotation tells, null where it is none, not above 0 (nan) or above the most that makes sense (inf).
CREATE OR REPLACE TEMP MACRO quantity(text, most) AS
    CASE WHEN try_cast(text AS DOUBLE) > 0 AND try_cast(text AS DOUBLE) <= most THEN try_cast(text AS DOUBLE) END;
-- How many compute slices of its GPU a MIG profile names, 1 to 99; null where the name is no profile's.
CREATE OR REPLACE TEMP MACRO compute_slices(profile) AS
    quantity(regexp_extract(profile, '^([0-9]+)g', 1), 99);
-- A GPU model's name as gpu_aliases spells it, and as reports do where no alias lists it.
CREATE OR REPLACE TEMP MACRO model_key(name) AS
    model_spelling(regexp_replace(name, '(-MIG-.*|-SHARED)$', ''));
CREATE OR REPLACE TEMP MACRO model_name(name) AS
    regexp_replace(regexp_replace(name, '(-MIG-.*|-SHARED)$', ''), '^(NVIDIA|Tesla)[ -]', '');
-- How many MIG slices a GPU has; `listed` is what the catalog has of its model.
CREATE OR REPLACE TEMP MACRO slices_of(gpu_model, listed) AS
    coalesce(nullif(listed, 0), CASE WHEN gpu_model SIMILAR TO '(A30|RTX[- ]?PRO[- ]?6000).*' THEN 4 ELSE 7 END);
