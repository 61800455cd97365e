-- reads: series, states, blocks
-- writes: nothing; answers one row, the moment of a source's newest sample; null where it has none
-- invariant: what a log of loads says does not count, but samples
SELECT greatest(
    (SELECT max(t.last_ms) FROM states AS t JOIN series AS s USING (series_id) WHERE s.source = $source),
    (SELECT max(b.hour::BIGINT * 3600000 + b.last_offset_ms) FROM blocks AS b JOIN series AS s USING (series_id) WHERE s.source = $source));
