-- reads: local_days
-- writes: covered_days, attributed_days, cost_runs, node_runs, activity_hours, cost_daily, node_daily, without days that neither metrics nor a bill cover any more
-- invariant: local_days adjoin: rows within them are untouched; where there are none, nothing stays
CREATE OR REPLACE TEMP TABLE covered_days AS
SELECT coalesce(min(from_ms), 0) AS from_ms, coalesce(max(to_ms), 0) AS to_ms FROM local_days;
DELETE FROM attributed_days AS a USING covered_days AS d WHERE a.from_ms < d.from_ms OR a.from_ms >= d.to_ms;
DELETE FROM cost_runs AS a USING covered_days AS d WHERE a.from_ms < d.from_ms OR a.from_ms >= d.to_ms;
DELETE FROM node_runs AS a USING covered_days AS d WHERE a.from_ms < d.from_ms OR a.from_ms >= d.to_ms;
DELETE FROM activity_hours AS a USING covered_days AS d WHERE a.from_ms < d.from_ms OR a.from_ms >= d.to_ms;
DELETE FROM cost_daily AS a USING covered_days AS d WHERE a.from_ms < d.from_ms OR a.from_ms >= d.to_ms;
DELETE FROM node_daily AS a USING covered_days AS d WHERE a.from_ms < d.from_ms OR a.from_ms >= d.to_ms;
