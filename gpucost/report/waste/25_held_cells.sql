-- reads: cost_daily, waste_cells, waste_cell_slots, waste_days; variable waste_by_day
-- writes: waste_held_cells, what pods held in the period (a view: they are many), by the day where that tells as much, by the hour elsewhere
-- invariant: sums are those of cost_hourly in the period
CREATE OR REPLACE TEMP VIEW waste_held_cells AS
SELECT c.*, s.slot
FROM cost_daily AS c
JOIN waste_cell_slots AS s USING (from_ms)
SEMI JOIN (FROM waste_days WHERE NOT is_fine) AS d ON d.allocation_id = c.allocation_id AND d.from_ms = c.from_ms
UNION ALL BY NAME
SELECT c.* FROM waste_cells AS c
WHERE c.allocation_id IS NOT NULL AND NOT getvariable('waste_by_day')
UNION ALL BY NAME
SELECT c.* FROM waste_cells AS c
JOIN (FROM waste_days WHERE is_fine) AS d ON d.allocation_id = c.allocation_id AND d.from_ms <= c.from_ms AND c.from_ms < d.to_ms
WHERE getvariable('waste_by_day');
