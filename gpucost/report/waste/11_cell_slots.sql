-- reads: node_hourly, node_daily, waste_slots; variables waste_from_ms, waste_to_ms bound the period
-- writes: waste_cell_slots, the part of the period that each cell or day which begins at from_ms lies in
-- invariant: one row per from_ms
CREATE OR REPLACE TEMP TABLE waste_cell_slots AS
SELECT c.from_ms, s.from_ms AS slot
FROM (
    SELECT from_ms FROM node_hourly WHERE from_ms >= getvariable('waste_from_ms') AND to_ms <= getvariable('waste_to_ms')
    UNION
    SELECT from_ms FROM node_daily WHERE from_ms >= getvariable('waste_from_ms') AND to_ms <= getvariable('waste_to_ms')
) AS c
JOIN waste_slots AS s ON c.from_ms >= s.from_ms AND c.from_ms < s.to_ms;
