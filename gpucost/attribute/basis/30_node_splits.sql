-- reads: node_weights
-- writes: node_splits, one row per node whose price is split: its GPU and CPU fractions (memory has the rest)
-- invariant: one row per node_id; 0 <= gpu_fraction, cpu_fraction; gpu_fraction + cpu_fraction <= 1 up to rounding
CREATE OR REPLACE TEMP TABLE node_splits AS
SELECT node_id, is_fallback, gpu / (gpu + cpu + memory) AS gpu_fraction, cpu / (gpu + cpu + memory) AS cpu_fraction
FROM node_weights;
