-- reads: allocated, pods, workload_types
-- writes: allocation_traits (stored), one row per allocation: its type, when it began to run, whether it failed
-- invariant: held_from_ms <= started_ms <= held_to_ms
INSERT INTO allocation_traits BY NAME
SELECT a.allocation_id, t.workload_type, p.failed,
    CASE WHEN p.pending_to_ms IS NOT NULL THEN greatest(a.held_from_ms, least(p.pending_to_ms, a.held_to_ms))::BIGINT END AS started_ms
FROM allocated AS a
JOIN workload_types AS t USING (allocation_id)
JOIN pods AS p ON p.cluster = a.cluster AND p.uid = a.uid;
