-- reads: allocated, pod_requests
-- writes: allocation_hosts, one row per (allocation, 'cpu' or 'memory'): the cores or bytes that it holds by request
-- invariant: units > 0; empty with the cost basis `node`
INSERT INTO allocation_hosts BY NAME
SELECT a.allocation_id, r.resource AS part, r.units
FROM allocated AS a JOIN pod_requests AS r USING (cluster, uid)
WHERE is_host_resource(r.resource);
