-- reads: cost_daily or cost_hourly; $from, $to bound the period, $by_day: the period is whole local days, and nothing finer is asked for
-- writes: report_cost_cells, the cells of the period
-- invariant: sums are the same by day and by hour
CREATE OR REPLACE TEMP TABLE report_cost_cells AS
SELECT * FROM cost_daily WHERE $by_day AND from_ms >= $from AND to_ms <= $to
UNION ALL BY NAME
SELECT * FROM cost_hourly WHERE NOT $by_day AND from_ms >= $from AND to_ms <= $to;
