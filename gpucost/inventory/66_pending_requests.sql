-- reads: waiting
-- writes: pending_requests (stored), pods that asked for GPUs and were on no node yet
-- invariant: one row per (cluster, uid)
INSERT INTO pending_requests BY NAME SELECT * FROM waiting;
