-- reads: facts, resource_kinds
-- writes: virtual_devices, the resources that a scheduler of memory and cores (HAMi) counts virtual devices by: on which nodes it was seen to
-- invariant: one row per (cluster, node, resource); virtual devices are no slots: a bare one is a whole device
CREATE OR REPLACE TEMP TABLE virtual_devices AS
SELECT DISTINCT f.cluster, f.node, k.devices AS resource
FROM facts AS f JOIN resource_kinds AS k USING (resource)
WHERE k.kind IN ('memory', 'percentage', 'cores') AND coalesce(f.node, '') <> '' AND f.value > 0;
