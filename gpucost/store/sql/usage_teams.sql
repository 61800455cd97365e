-- reads: cost_hourly; $from_ms, $to_ms the period
-- writes: usage_teams, one row per allocation that held GPUs in the period: its team, the last one where labels changed
-- invariant: one row per allocation_id
CREATE OR REPLACE TEMP TABLE usage_teams AS
SELECT allocation_id, arg_max(team, from_ms) AS team
FROM cost_hourly
WHERE allocation_id IS NOT NULL AND from_ms < $to_ms AND $from_ms < to_ms
GROUP BY allocation_id;
