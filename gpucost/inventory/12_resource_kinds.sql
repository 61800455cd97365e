-- reads: facts, resources
-- writes: resource_kinds, one row per resource that pods or nodes speak of: what it is, 'unlisted' where no table says
-- invariant: one row per resource; devices (the resource that counts what it is a part of) stands for parts alone
CREATE OR REPLACE TEMP TABLE resource_kinds AS
SELECT f.resource, coalesce(r.kind, 'unlisted') AS kind, r.vendor, r.size, r.devices
FROM (SELECT DISTINCT resource FROM facts WHERE resource IS NOT NULL) AS f
LEFT JOIN (FROM resources WHERE kind <> 'claim') AS r ON regexp_full_match(f.resource, r.pattern)
QUALIFY row_number() OVER (PARTITION BY f.resource ORDER BY r.kind = 'none' DESC, r.instance_type IS NULL DESC) = 1;
