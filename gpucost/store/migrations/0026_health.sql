-- reads: nothing
-- writes: health_events, attribution_state: signs of failures of devices, nodes and pods
-- invariant: other tables are unchanged

-- One row per change of an error metric of a device, span in which a node's GPUs were unavailable, and restart or
-- eviction of a pod.
CREATE TABLE health_events (
    node_id         UBIGINT NOT NULL,
    cause           VARCHAR NOT NULL,      -- 'xid', 'uncorrectable_ecc', 'row_remap', 'row_remap_failure'; 'not_ready', 'cordoned', 'not_offered', 'slurm'; 'restarted', 'evicted'
    code            BIGINT,                -- of an XID; the number of restarts
    uuid            VARCHAR,               -- of the device
    allocation_ids  UBIGINT[] NOT NULL,    -- the pods that held the device, or the pod
    from_ms         BIGINT NOT NULL,       -- the first sample with it
    to_ms           BIGINT NOT NULL,       -- the end of the span; of others: from_ms
    is_witnessed    BOOLEAN NOT NULL,      -- samples up to ten minutes before do not have it
    gpus            DOUBLE,                -- of the span: GPUs that pods could not hold
    detail          VARCHAR                -- Slurm's reason
);
-- The next attribution finds them; attributed results stay.
UPDATE attribution_state SET last_load_id = -1;
