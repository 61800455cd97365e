-- reads: cost_daily or cost_hourly; variables report_from_ms, report_to_ms bound the period, report_by_day: whole local days, nothing finer asked for
-- writes: report_cost_cells, the cells of the period (a view: they are many, and most reports read them once)
-- invariant: sums are the same by day and by hour
CREATE OR REPLACE TEMP VIEW report_cost_cells AS
SELECT * FROM cost_daily
WHERE getvariable('report_by_day') AND from_ms >= getvariable('report_from_ms') AND to_ms <= getvariable('report_to_ms')
UNION ALL BY NAME
SELECT * FROM cost_hourly
WHERE NOT getvariable('report_by_day') AND from_ms >= getvariable('report_from_ms') AND to_ms <= getvariable('report_to_ms');
