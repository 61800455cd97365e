-- reads: nothing
-- writes: compute_slices(profile), how many compute slices of its GPU a MIG profile names
-- invariant: 1 to 99; null where the name is no profile's
CREATE OR REPLACE TEMP MACRO compute_slices(profile) AS
    quantity(regexp_extract(profile, '^([0-9]+)g', 1), 99);
