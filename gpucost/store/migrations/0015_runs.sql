-- reads: nodes, allocations, allocation_traits
-- writes: cost_hourly, node_hourly (tables dropped), cost_runs, node_runs, activity_hours, hourly_costs, hourly_node_costs, costs, attributed_days, attribution_state: runs of equal hours, with views of single hours
-- invariant: per node and cell, sum(cost + unallocated_cost + not_collected_cost) = node cost, exactly
DROP VIEW costs;
DROP TABLE cost_hourly;
DROP TABLE node_hourly;

-- One row per (run, node, pod), and one per (run, node) for unallocated and not collected time (pod columns null). A
-- run is `hours` equal cells in sequence: from_ms, to_ms and all amounts refer to its first cell. GPU time is in
-- GPU-milliseconds.
CREATE TABLE cost_runs (
    kind                VARCHAR NOT NULL,          -- 'allocated', 'unallocated', 'not_collected'
    from_ms             BIGINT NOT NULL,
    to_ms               BIGINT NOT NULL,
    hours               INTEGER NOT NULL,          -- 1 if the cell is shorter than an hour
    node_id             UBIGINT NOT NULL,
    allocation_id       UBIGINT,
    team                VARCHAR,
    gpu_ms              DOUBLE NOT NULL,
    unavailable_gpu_ms  DOUBLE NOT NULL,           -- the part of unallocated that no pod could have held
    cost                DECIMAL(38, 9) NOT NULL,
    estimated_cost      DECIMAL(38, 9) NOT NULL
);

-- One row per (run, node): capacity and cost of each of its cells.
CREATE TABLE node_runs (
    from_ms                BIGINT NOT NULL,
    to_ms                  BIGINT NOT NULL,
    hours                  INTEGER NOT NULL,
    node_id                UBIGINT NOT NULL,
    capacity_gpu_ms        DOUBLE NOT NULL,        -- GPUs x collected time while the node was up
    over_allocated_gpu_ms  DOUBLE NOT NULL,
    node_cost              DECIMAL(38, 9) NOT NULL,
    price_source           VARCHAR NOT NULL,
    price_as_of            DATE
);

-- One row per (cell, pod) in which one of its devices was measured.
CREATE TABLE activity_hours (
    allocation_id       UBIGINT NOT NULL,
    run_from_ms         BIGINT NOT NULL,           -- cost_runs.from_ms of the run that contains the cell
    from_ms             BIGINT NOT NULL,           -- of the cell
    measured_gpu_ms     DOUBLE NOT NULL,
    idle_gpu_ms         DOUBLE NOT NULL,
    utilization_gpu_ms  DOUBLE NOT NULL,           -- activity (0-1) x measured GPU time
    idle_cost           DECIMAL(38, 9) NOT NULL
);

-- The cells in [start_ms, end_ms): one row per (cell, node, pod), and one per (cell, node) for unallocated and not
-- collected time.
CREATE MACRO hourly_costs(start_ms, end_ms) AS TABLE
WITH cells AS (
    SELECT kind, from_ms + later_ms AS from_ms, to_ms + later_ms AS to_ms, * EXCLUDE (kind, from_ms, to_ms, hours, later_ms)
    FROM (
        SELECT *, unnest(range(greatest(0, (start_ms - from_ms + 3599999) // 3600000), least(hours, (end_ms - to_ms) // 3600000 + 1))) * 3600000 AS later_ms
        FROM cost_runs
        WHERE to_ms <= end_ms AND from_ms + (hours - 1) * 3600000 >= start_ms
    )
)
SELECT c.kind, c.from_ms, c.to_ms, c.node_id, c.allocation_id, c.team,
    CASE c.kind WHEN 'allocated' THEN c.gpu_ms ELSE 0 END AS allocated_gpu_ms,
    coalesce(a.measured_gpu_ms - a.idle_gpu_ms, 0) AS active_gpu_ms,
    coalesce(a.idle_gpu_ms, 0) AS idle_gpu_ms,
    CASE c.kind WHEN 'allocated' THEN c.gpu_ms - coalesce(a.measured_gpu_ms, 0) ELSE 0 END AS unmeasured_gpu_ms,
    coalesce(a.utilization_gpu_ms, 0) AS utilization_gpu_ms,
    CASE c.kind WHEN 'unallocated' THEN c.gpu_ms ELSE 0 END AS unallocated_gpu_ms,
    c.unavailable_gpu_ms,
    CASE c.kind WHEN 'allocated' THEN c.cost ELSE 0 END AS cost,
    coalesce(a.idle_cost, 0) AS idle_cost,
    CASE c.kind WHEN 'unallocated' THEN c.cost ELSE 0 END AS unallocated_cost,
    c.estimated_cost,
    CASE c.kind WHEN 'not_collected' THEN c.gpu_ms ELSE 0 END AS not_collected_gpu_ms,
    CASE c.kind WHEN 'not_collected' THEN c.cost ELSE 0 END AS not_collected_cost
FROM cells AS c
LEFT JOIN (FROM activity_hours WHERE from_ms >= start_ms AND from_ms < end_ms) AS a USING (allocation_id, from_ms);

CREATE MACRO hourly_node_costs(start_ms, end_ms) AS TABLE
SELECT from_ms + later_ms AS from_ms, to_ms + later_ms AS to_ms, * EXCLUDE (from_ms, to_ms, hours, later_ms)
FROM (
    SELECT *, unnest(range(greatest(0, (start_ms - from_ms + 3599999) // 3600000), least(hours, (end_ms - to_ms) // 3600000 + 1))) * 3600000 AS later_ms
    FROM node_runs
    WHERE to_ms <= end_ms AND from_ms + (hours - 1) * 3600000 >= start_ms
);

CREATE VIEW cost_hourly AS FROM hourly_costs(0, 253402300800000);
CREATE VIEW node_hourly AS FROM hourly_node_costs(0, 253402300800000);

CREATE VIEW costs AS
SELECT
    epoch_ms(c.from_ms) AS from_time, epoch_ms(c.to_ms) AS to_time, c.kind, c.team, n.cluster, a.namespace, a.workload, t.workload_type, a.pod, a.uid,
    n.node, n.provider, n.region, n.zone, n.instance_type, n.gpu_model, n.capacity_type,
    c.allocated_gpu_ms / 3600000 AS allocated_gpu_hours, c.active_gpu_ms / 3600000 AS active_gpu_hours, c.idle_gpu_ms / 3600000 AS idle_gpu_hours,
    c.unmeasured_gpu_ms / 3600000 AS unmeasured_gpu_hours, c.unallocated_gpu_ms / 3600000 AS unallocated_gpu_hours,
    c.unavailable_gpu_ms / 3600000 AS unavailable_gpu_hours, c.not_collected_gpu_ms / 3600000 AS not_collected_gpu_hours,
    c.cost, c.idle_cost, c.unallocated_cost, c.not_collected_cost, c.estimated_cost
FROM cost_hourly AS c
JOIN nodes AS n USING (node_id)
LEFT JOIN allocations AS a ON a.allocation_id = c.allocation_id
LEFT JOIN allocation_traits AS t ON t.allocation_id = c.allocation_id;

-- Everything is attributed again. The digest of all inputs decides whether anything is recomputed; the digest of inputs
-- outside the days' fingerprints decides whether every day is.
DELETE FROM attributed_days;
CREATE OR REPLACE TABLE attribution_state (
    inputs        VARCHAR NOT NULL,
    own_inputs    VARCHAR NOT NULL,
    last_load_id  BIGINT NOT NULL
);
