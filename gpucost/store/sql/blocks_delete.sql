-- reads: incoming (temporary)
-- writes: blocks
-- invariant: what is removed comes back with at least as many samples in the same transaction
DELETE FROM blocks
USING incoming
WHERE blocks.series_id = incoming.series_id AND blocks.hour = incoming.hour;
