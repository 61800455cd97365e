-- reads: nothing
-- writes: pending_requests, node_leftovers: henceforth pending_pods and mig_fragmentation, by the words of the field
-- invariant: their rows stay
ALTER TABLE pending_requests RENAME TO pending_pods;
ALTER TABLE node_leftovers RENAME TO mig_fragmentation;
