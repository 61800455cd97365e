-- reads: the variables accelerators and other_resources (pricing/resources.csv)
-- writes: is_unlisted(resource), whether no table says what a resource is: it may be an accelerator
-- invariant: of no resource both is_accelerator and is_unlisted hold
CREATE OR REPLACE TEMP MACRO is_unlisted(resource) AS
    NOT regexp_full_match(resource, getvariable('accelerators') || '|' || getvariable('other_resources'));
