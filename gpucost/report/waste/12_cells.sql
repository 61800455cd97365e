-- reads: cost_hourly, waste_cell_slots; variables waste_from_ms, waste_to_ms bound the period
-- writes: waste_cells, the cells of cost_hourly in the period (a view: they are many) with the part of the period that each lies in
-- invariant: one row per row of cost_hourly in the period
CREATE OR REPLACE TEMP VIEW waste_cells AS
SELECT c.*, s.slot FROM cost_hourly AS c JOIN waste_cell_slots AS s USING (from_ms)
WHERE c.from_ms >= getvariable('waste_from_ms') AND c.to_ms <= getvariable('waste_to_ms');
