-- reads: leftovers
-- writes: node_leftovers (stored), what MIG layouts leave over
-- invariant: one row per row of leftovers
INSERT INTO node_leftovers BY NAME SELECT * FROM leftovers;
