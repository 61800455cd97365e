-- reads: nothing
-- writes: allocations, allocation_traits, pending_requests, node_leftovers, attribution_state: more facts of pods and nodes: workload types, start times, pending pods and GPUs left over by MIG layouts
-- invariant: rebuilt completely with each attribution; one row per allocation in allocation_traits

-- 'Deployment', 'Job', ...: the kind of the topmost owner. It is distinct from the workload's type (training,
-- inference, ...).
ALTER TABLE allocations RENAME COLUMN workload_type TO workload_kind;

CREATE TABLE allocation_traits (
    allocation_id   UBIGINT NOT NULL,            -- allocations.allocation_id
    workload_type   VARCHAR NOT NULL,            -- 'training', 'inference', 'development', 'batch', 'other'
    started_ms      BIGINT,  -- bound but Pending until then: pulling images, starting; null if unknown
    failed          BOOLEAN NOT NULL             -- it ended in the phase Failed: crashed or evicted
);

-- GPUs of a node that its MIG layout leaves without a slice.
CREATE TABLE node_leftovers (
    node_id   UBIGINT NOT NULL,
    from_ms   BIGINT NOT NULL,
    to_ms     BIGINT NOT NULL,
    gpus      DOUBLE NOT NULL
);

-- Pods that requested GPUs while they had no node.
CREATE TABLE pending_requests (
    cluster     VARCHAR NOT NULL,
    namespace   VARCHAR NOT NULL,
    pod         VARCHAR NOT NULL,
    uid         VARCHAR NOT NULL,
    gpus        DOUBLE NOT NULL,  -- slices and slots count as the smallest share that they have in the cluster
    from_ms     BIGINT NOT NULL,
    to_ms       BIGINT NOT NULL
);

-- The next run of inventory fills these; attributed results stay.
UPDATE attribution_state SET last_load_id = -1;
