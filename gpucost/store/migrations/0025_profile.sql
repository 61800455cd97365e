-- reads: nothing
-- writes: profile_hours: profiling metrics by pod and hour
-- invariant: other tables are unchanged

-- One row per (cell, pod, measure) of a profiling metric.
CREATE TABLE profile_hours (
    allocation_id    UBIGINT NOT NULL,
    from_ms          BIGINT NOT NULL,       -- of the cell
    measure          VARCHAR NOT NULL,      -- as in pricing/activity_metrics.csv
    measured_gpu_ms  DOUBLE NOT NULL,       -- GPU time with valid samples; of ratios: active time
    value_gpu_ms     DOUBLE NOT NULL        -- value (0-1, MiB or watts) x measured GPU time
);
