-- reads: nothing
-- writes: nodes, allocations, node_prices, collected, cuts, node_hourly, cost_hourly, node_daily, cost_daily, warnings, attributed_days, attribution_state: the attributed result that reports read
-- invariant: per node and cell, sum(cost_hourly.cost + cost_hourly.unallocated_cost) = node_hourly.node_cost, exactly

-- One row per (cell, node): the node's cost. A cell is an hour, cut at local midnight and at the ends of reported
-- periods.
CREATE TABLE node_hourly (
    from_ms                BIGINT NOT NULL,
    to_ms                  BIGINT NOT NULL,
    node_id                UBIGINT NOT NULL,     -- nodes.node_id
    capacity_gpu_ms        DOUBLE NOT NULL,      -- GPUs x collected time while the node was up
    over_allocated_gpu_ms  DOUBLE NOT NULL,
    node_cost              DECIMAL(38, 9) NOT NULL,
    price_source           VARCHAR NOT NULL,     -- 'price_book', 'catalog', 'none'
    price_as_of            DATE
);

-- One row per (cell, node, pod), and one per (cell, node) for unallocated GPUs (kind 'unallocated', pod columns null).
-- GPU time is in GPU-milliseconds: 3,600,000 are one GPU-hour.
CREATE TABLE cost_hourly (
    kind                  VARCHAR NOT NULL,      -- 'allocated', 'unallocated'
    from_ms               BIGINT NOT NULL,
    to_ms                 BIGINT NOT NULL,
    node_id               UBIGINT NOT NULL,
    allocation_id         UBIGINT,               -- allocations.allocation_id
    team                  VARCHAR,
    allocated_gpu_ms      DOUBLE NOT NULL,
    active_gpu_ms         DOUBLE NOT NULL,
    idle_gpu_ms           DOUBLE NOT NULL,
    unmeasured_gpu_ms     DOUBLE NOT NULL,
    utilization_gpu_ms    DOUBLE NOT NULL,       -- sum of activity (0-1) x measured GPU time
    unallocated_gpu_ms    DOUBLE NOT NULL,
    unavailable_gpu_ms    DOUBLE NOT NULL,       -- the part of unallocated that no pod could have held
    cost                  DECIMAL(38, 9) NOT NULL,
    idle_cost             DECIMAL(38, 9) NOT NULL,
    unallocated_cost      DECIMAL(38, 9) NOT NULL
);

-- The same by local day, for reports over whole days. from_ms and to_ms are the day's bounds.
CREATE TABLE node_daily AS FROM node_hourly WITH NO DATA;
CREATE TABLE cost_daily AS FROM cost_hourly WITH NO DATA;

-- Node identities, and the pods that held GPUs on them. Rebuilt completely with each attribution.
CREATE TABLE nodes (
    node_id         UBIGINT NOT NULL,
    cluster         VARCHAR NOT NULL,
    node            VARCHAR NOT NULL,
    machine_id      VARCHAR,                     -- provider id, otherwise system uuid
    created_ms      BIGINT,
    up_from_ms      BIGINT NOT NULL,
    up_to_ms        BIGINT NOT NULL,
    provider        VARCHAR,                     -- 'aws', 'gcp', 'azure', ...
    region          VARCHAR,
    zone            VARCHAR,
    instance_type   VARCHAR,
    capacity_type   VARCHAR NOT NULL,            -- 'on_demand', 'spot', 'reserved', 'unknown'
    gpu_model       VARCHAR,
    gpu_count       DOUBLE NOT NULL,             -- physical GPUs
    labels          MAP(VARCHAR, VARCHAR)        -- node labels as kube-state-metrics names them
);

CREATE TABLE allocations (
    allocation_id   UBIGINT NOT NULL,
    cluster         VARCHAR NOT NULL,
    namespace       VARCHAR NOT NULL,
    pod             VARCHAR NOT NULL,
    uid             VARCHAR NOT NULL,
    node_id         UBIGINT NOT NULL,
    resource        VARCHAR NOT NULL,            -- 'nvidia_com_gpu', 'nvidia_com_mig_1g_5gb', ...; 'mixed' for several
    units           DOUBLE NOT NULL,
    gpus            DOUBLE NOT NULL,             -- physical GPUs held: sum of units x share of a GPU
    held_from_ms    BIGINT NOT NULL,
    held_to_ms      BIGINT NOT NULL,
    workload_type   VARCHAR NOT NULL,            -- 'Deployment', 'Job', 'CronJob', 'StatefulSet', ..., 'Pod'
    workload        VARCHAR NOT NULL             -- 'Kind/name' of the topmost owner in the metrics
);

CREATE TABLE node_prices (
    node_id         UBIGINT NOT NULL,
    from_ms         BIGINT NOT NULL,             -- the segment [from_ms, to_ms)
    to_ms           BIGINT NOT NULL,
    price_per_hour  DECIMAL(38, 9) NOT NULL,     -- of the whole node
    price_source    VARCHAR NOT NULL,
    price_as_of     DATE
);

-- Collected time per cluster; other time is reported as not_collected.
CREATE TABLE collected (
    cluster   VARCHAR NOT NULL,
    from_ms   BIGINT NOT NULL,
    to_ms     BIGINT NOT NULL
);

-- Warnings about the figures, with their fixes.
CREATE TABLE warnings (
    code      VARCHAR NOT NULL,                  -- 'unpriced_node', 'over_allocated', 'unknown_capacity_type', ...
    cluster   VARCHAR,
    subject   VARCHAR,                           -- the affected node, namespace or metric
    from_ms   BIGINT,
    to_ms     BIGINT,
    message   VARCHAR NOT NULL,
    fix       VARCHAR
);

-- Attributed local days and their inputs; a day is attributed again when its fingerprint changes.
CREATE TABLE attributed_days (
    from_ms       BIGINT NOT NULL,
    to_ms         BIGINT NOT NULL,
    fingerprint   UBIGINT NOT NULL
);

-- Instants that cut cells in addition to hours and local midnights: ends of reported periods.
CREATE TABLE cuts (
    at_ms   BIGINT NOT NULL
);

-- Inputs of the whole result: compared before a report, to avoid needless recomputation.
CREATE TABLE attribution_state (
    inputs        VARCHAR NOT NULL,              -- digest of the configuration, price book and catalog
    last_load_id  BIGINT NOT NULL
);
