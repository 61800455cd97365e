-- reads: nothing
-- writes: nodes, allocations, node_prices, collected, cuts, node_hourly, cost_hourly, node_daily, cost_daily, warnings, attributed_days, attribution_state: the attributed result, which reports read
-- invariant: per node and cell, sum(cost_hourly.cost + cost_hourly.unallocated_cost) = node_hourly.node_cost, exactly

-- One row per (cell, node): what the node cost. A cell is an hour, cut at local midnight and at the ends of reported periods.
CREATE TABLE node_hourly (
    from_ms                BIGINT NOT NULL,
    to_ms                  BIGINT NOT NULL,
    node_id                UBIGINT NOT NULL,     -- nodes.node_id
    capacity_gpu_ms        DOUBLE NOT NULL,      -- GPUs x collected time the node was up
    over_allocated_gpu_ms  DOUBLE NOT NULL,
    node_cost              DECIMAL(38, 9) NOT NULL,
    price_source           VARCHAR NOT NULL,     -- 'price_book', 'catalog', 'none'
    price_as_of            DATE
);

-- One row per (cell, node, pod), and one per (cell, node) for what nobody held (kind 'unallocated', pod columns null).
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
    unavailable_gpu_ms    DOUBLE NOT NULL,       -- the part of unallocated that nobody could have held
    cost                  DECIMAL(38, 9) NOT NULL,
    idle_cost             DECIMAL(38, 9) NOT NULL,
    unallocated_cost      DECIMAL(38, 9) NOT NULL
);

-- The same by local day, which reports over whole days read. from_ms, to_ms are the day.
CREATE TABLE node_daily AS FROM node_hourly WITH NO DATA;
CREATE TABLE cost_daily AS FROM cost_hourly WITH NO DATA;

-- What there was: node identities, and the pods that held GPUs on them. Rebuilt whole with each attribution.
CREATE TABLE nodes (
    node_id         UBIGINT NOT NULL,
    cluster         VARCHAR NOT NULL,
    node            VARCHAR NOT NULL,
    machine_id      VARCHAR,                     -- provider id, else system uuid
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
    resource        VARCHAR NOT NULL,            -- 'nvidia_com_gpu', 'nvidia_com_mig_1g_5gb', ...; 'mixed' where several
    units           DOUBLE NOT NULL,
    gpus            DOUBLE NOT NULL,             -- physical GPUs held: sum of units x share of a GPU
    held_from_ms    BIGINT NOT NULL,
    held_to_ms      BIGINT NOT NULL,
    workload_type   VARCHAR NOT NULL,            -- 'Deployment', 'Job', 'CronJob', 'StatefulSet', ..., 'Pod'
    workload        VARCHAR NOT NULL             -- 'Kind/name' of the topmost owner that metrics show
);

CREATE TABLE node_prices (
    node_id         UBIGINT NOT NULL,
    from_ms         BIGINT NOT NULL,             -- the segment [from_ms, to_ms)
    to_ms           BIGINT NOT NULL,
    price_per_hour  DECIMAL(38, 9) NOT NULL,     -- of the whole node
    price_source    VARCHAR NOT NULL,
    price_as_of     DATE
);

-- Time that was collected, per cluster: outside it a report says not_collected.
CREATE TABLE collected (
    cluster   VARCHAR NOT NULL,
    from_ms   BIGINT NOT NULL,
    to_ms     BIGINT NOT NULL
);

-- What a reader of the figures should know, and what mends it.
CREATE TABLE warnings (
    code      VARCHAR NOT NULL,                  -- 'unpriced_node', 'over_allocated', 'unknown_capacity_type', ...
    cluster   VARCHAR,
    subject   VARCHAR,                           -- the node, namespace or metric meant
    from_ms   BIGINT,
    to_ms     BIGINT,
    message   VARCHAR NOT NULL,
    fix       VARCHAR
);

-- Which local days were attributed from which inputs; a day whose fingerprint changed is attributed again.
CREATE TABLE attributed_days (
    from_ms       BIGINT NOT NULL,
    to_ms         BIGINT NOT NULL,
    fingerprint   UBIGINT NOT NULL
);

-- Instants at which cells are cut besides hours and local midnights: ends of periods that were reported.
CREATE TABLE cuts (
    at_ms   BIGINT NOT NULL
);

-- What the result as a whole was made from: compared before a report, so that nothing is redone needlessly.
CREATE TABLE attribution_state (
    inputs        VARCHAR NOT NULL,              -- digest of the configuration, price book and catalog
    last_load_id  BIGINT NOT NULL
);
