-- reads: allocations; the lists $claim_id, $depth, $cluster, $namespace, $workload, $pods (empty: all of the workload), $from_ms, $to_ms
-- writes: unit_claims, which intervals ask for the cost of which pods
-- invariant: one row per claim and pod
CREATE OR REPLACE TEMP TABLE unit_claims AS
WITH asked AS (
    SELECT unnest($claim_id::INTEGER[]) AS claim_id, unnest($depth::INTEGER[]) AS depth, unnest($cluster::VARCHAR[]) AS cluster,
        unnest($namespace::VARCHAR[]) AS namespace, unnest($workload::VARCHAR[]) AS workload, unnest($pods::VARCHAR[]) AS pods,
        unnest($from_ms::BIGINT[]) AS from_ms, unnest($to_ms::BIGINT[]) AS to_ms
)
SELECT s.claim_id, s.depth, a.allocation_id, s.from_ms, s.to_ms
FROM asked AS s
JOIN allocations AS a USING (cluster, namespace, workload)
WHERE (s.pods = '' OR list_contains(string_split(s.pods, ','), a.pod)) AND s.from_ms < s.to_ms;
