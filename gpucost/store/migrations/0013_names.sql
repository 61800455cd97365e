-- reads: nothing
-- writes: pending_requests, node_leftovers: renamed to pending_pods and mig_fragmentation, the usual terms
-- invariant: their rows stay
ALTER TABLE pending_requests RENAME TO pending_pods;
ALTER TABLE node_leftovers RENAME TO mig_fragmentation;
