-- reads: nothing
-- writes: sample_offsets(offsets_ms, samples, first_offset_ms, step_ms), valid_until(at_ms, next_ms, interval_ms)
-- invariant: offsets are in order; a sample without a next one is valid for one interval
-- The moments of a block's samples, from the start of its hour.
CREATE OR REPLACE TEMP MACRO sample_offsets(offsets_ms, samples, first_offset_ms, step_ms) AS
    coalesce(offsets_ms, list_transform(range(samples), lambda i: (first_offset_ms + i * coalesce(step_ms, 0))::INTEGER));
-- The end of a sample's validity: the next sample, or one scrape interval later if that is over 2.5 intervals away.
CREATE OR REPLACE TEMP MACRO valid_until(at_ms, next_ms, interval_ms) AS
    CASE WHEN next_ms - at_ms <= 2.5 * interval_ms THEN next_ms ELSE at_ms + interval_ms END;
