-- reads: cost_hourly, allocations; $from_ms, $to_ms the period
-- writes: nothing; answers whose pods held GPUs in the period
-- invariant: no combination twice
SELECT DISTINCT c.team, a.namespace, a.workload, a.cluster
FROM cost_hourly AS c JOIN allocations AS a USING (allocation_id)
WHERE c.from_ms < $to_ms AND $from_ms < c.to_ms;
