-- reads: report_facts
-- writes: nothing; answers every workload there is in the period
-- invariant: a name that is in no row of this answer would select nothing
SELECT DISTINCT workload FROM report_facts WHERE kind = 'allocated' ORDER BY workload;
