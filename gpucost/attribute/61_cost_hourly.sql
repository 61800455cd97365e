-- reads: cell_costs
-- writes: cost_hourly (stored), the costs of the span's cells
-- invariant: one row per row of cell_costs
INSERT INTO cost_hourly BY NAME FROM cell_costs;
