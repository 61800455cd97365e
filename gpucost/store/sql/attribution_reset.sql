-- reads: nothing
-- writes: attribution_state
-- invariant: no load has this number, so the next attribution looks at everything again
UPDATE attribution_state SET last_load_id = -1;
