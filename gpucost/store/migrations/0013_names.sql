-- reads: nothing
-- writes: pending_pods, mig_fragmentation: tables of inventory by the field's names
-- invariant: their rows stay
ALTER TABLE pending_requests RENAME TO pending_pods;
ALTER TABLE node_leftovers RENAME TO mig_fragmentation;
