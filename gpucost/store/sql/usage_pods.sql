-- reads: allocations, usage_teams; $from_ms, $to_ms the period; $teams, $namespaces, $workloads, $clusters filter (empty: all), workloads by globs of Kind/name or of name
-- writes: usage_pods, the pods asked for, clipped to the period
-- invariant: held_from_ms < held_to_ms
CREATE OR REPLACE TEMP TABLE usage_pods AS
SELECT a.* REPLACE (greatest(a.held_from_ms, $from_ms) AS held_from_ms, least(a.held_to_ms, $to_ms) AS held_to_ms), t.team
FROM allocations AS a JOIN usage_teams AS t USING (allocation_id)
WHERE a.gpus > 0 AND a.held_from_ms < $to_ms AND $from_ms < a.held_to_ms
    AND (len($teams::VARCHAR[]) = 0 OR list_contains($teams::VARCHAR[], t.team))
    AND (len($namespaces::VARCHAR[]) = 0 OR list_contains($namespaces::VARCHAR[], a.namespace))
    AND (len($workloads::VARCHAR[]) = 0 OR len(list_filter($workloads::VARCHAR[], lambda name: a.workload GLOB name OR split_part(a.workload, '/', 2) GLOB name)) > 0)
    AND (len($clusters::VARCHAR[]) = 0 OR list_contains($clusters::VARCHAR[], a.cluster));
