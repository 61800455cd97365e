-- reads: allocated
-- writes: allocations (stored), one row per pod that held GPUs
-- invariant: one row per allocation_id
INSERT INTO allocations BY NAME SELECT * FROM allocated;
