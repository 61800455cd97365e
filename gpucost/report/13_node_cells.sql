-- reads: node_daily or node_hourly; $from, $to bound the period, $by_day: the period is whole local days, and nothing finer is asked for
-- writes: report_node_cells, capacity and cost of the nodes in the period
-- invariant: sums are the same by day and by hour
CREATE OR REPLACE TEMP TABLE report_node_cells AS
SELECT * FROM node_daily WHERE $by_day AND from_ms >= $from AND to_ms <= $to
UNION ALL BY NAME
SELECT * FROM node_hourly WHERE NOT $by_day AND from_ms >= $from AND to_ms <= $to;
