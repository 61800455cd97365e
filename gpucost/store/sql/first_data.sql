-- reads: loads
-- writes: nothing; answers one row, null where the source never gave anything
-- invariant: windows that held nothing are logged too, and do not count
SELECT min(from_ms) FROM loads WHERE kind = $kind AND source = $source AND rows + dropped > 0;
