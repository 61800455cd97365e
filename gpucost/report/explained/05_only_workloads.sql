-- reads: report_facts; $workloads are the workloads asked for, as Kind/name or by their names
-- writes: report_facts, only their rows
-- invariant: what is left was there before
CREATE OR REPLACE TEMP TABLE report_facts AS
SELECT * FROM report_facts
WHERE list_contains($workloads::VARCHAR[], workload) OR list_contains($workloads::VARCHAR[], split_part(workload, '/', -1));
