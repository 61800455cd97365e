-- reads: nothing
-- writes: allocations, allocation_traits, pending_requests, node_leftovers, attribution_state: what inventory knows of pods and nodes besides who held what: the type of each workload, when a pod began to run, what waits and what is left over
-- invariant: rebuilt whole with each attribution; one row per allocation in allocation_traits

-- 'Deployment', 'Job', ...: the kind of the topmost owner. The type of a workload (training, inference, ...) is another thing.
ALTER TABLE allocations RENAME COLUMN workload_type TO workload_kind;

CREATE TABLE allocation_traits (
    allocation_id   UBIGINT NOT NULL,            -- allocations.allocation_id
    workload_type   VARCHAR NOT NULL,            -- 'training', 'inference', 'development', 'batch', 'other'
    started_ms      BIGINT,                      -- bound but Pending until then: pulling images, starting; null where that was not seen
    failed          BOOLEAN NOT NULL             -- it ended in the phase Failed: crashed or evicted
);

-- GPUs of a node that its MIG layout leaves over: no slice is made of them.
CREATE TABLE node_leftovers (
    node_id   UBIGINT NOT NULL,
    from_ms   BIGINT NOT NULL,
    to_ms     BIGINT NOT NULL,
    gpus      DOUBLE NOT NULL
);

-- Pods that asked for GPUs and were on no node yet.
CREATE TABLE pending_requests (
    cluster     VARCHAR NOT NULL,
    namespace   VARCHAR NOT NULL,
    pod         VARCHAR NOT NULL,
    uid         VARCHAR NOT NULL,
    gpus        DOUBLE NOT NULL,                 -- of slices and slots the smallest that they are worth in the cluster
    from_ms     BIGINT NOT NULL,
    to_ms       BIGINT NOT NULL
);

-- Inventory fills these when it runs next; what was attributed stands.
UPDATE attribution_state SET last_load_id = -1;
