-- reads: the variables accelerators and other_resources (pricing/resources.csv)
-- writes: is_accelerator(resource), whether a resource (as kube-state-metrics names it, lower-cased) is a GPU or another accelerator, or a part of one
-- invariant: what holds accelerators is found by it alone
CREATE OR REPLACE TEMP MACRO is_accelerator(resource) AS
    regexp_full_match(resource, getvariable('accelerators')) AND NOT regexp_full_match(resource, getvariable('other_resources'));
