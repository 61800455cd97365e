-- reads: node_daily or node_hourly; variables report_from_ms, report_to_ms bound the period, report_by_day: whole local days, nothing finer asked for
-- writes: report_node_cells, capacity and cost of the nodes in the period (a view)
-- invariant: sums are the same by day and by hour
CREATE OR REPLACE TEMP VIEW report_node_cells AS
SELECT * FROM node_daily
WHERE getvariable('report_by_day') AND from_ms >= getvariable('report_from_ms') AND to_ms <= getvariable('report_to_ms')
UNION ALL BY NAME
SELECT * FROM node_hourly
WHERE NOT getvariable('report_by_day') AND from_ms >= getvariable('report_from_ms') AND to_ms <= getvariable('report_to_ms');
