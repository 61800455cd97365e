-- reads: the span [span_from_ms, span_to_ms)
-- writes: attributed_days, cost_runs, node_runs, activity_hours, cost_daily, node_daily, without what they held of the span
-- invariant: rows outside the span are untouched
DELETE FROM attributed_days WHERE from_ms >= getvariable('span_from_ms') AND from_ms < getvariable('span_to_ms');
DELETE FROM cost_runs WHERE from_ms >= getvariable('span_from_ms') AND from_ms < getvariable('span_to_ms');
DELETE FROM node_runs WHERE from_ms >= getvariable('span_from_ms') AND from_ms < getvariable('span_to_ms');
DELETE FROM activity_hours WHERE from_ms >= getvariable('span_from_ms') AND from_ms < getvariable('span_to_ms');
DELETE FROM cost_daily WHERE from_ms >= getvariable('span_from_ms') AND from_ms < getvariable('span_to_ms');
DELETE FROM node_daily WHERE from_ms >= getvariable('span_from_ms') AND from_ms < getvariable('span_to_ms');
