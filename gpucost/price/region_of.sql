-- reads: nothing
-- writes: region_of(zone), the region that a zone's name tells, lower-cased; null where it tells none
-- invariant: aws spells a zone us-east-1a or us-west-2-lax-1a, gcp us-central1-a, azure eastus-1
CREATE OR REPLACE TEMP MACRO region_of(zone) AS coalesce(
    nullif(regexp_extract(lower(zone), '^([a-z]+(-[a-z]+)+-[0-9]+)', 1), ''),
    nullif(regexp_extract(lower(zone), '^(.+)-[a-z0-9]$', 1), ''));
