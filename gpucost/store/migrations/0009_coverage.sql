-- reads: cost_hourly, cost_daily, allocations, allocation_traits, nodes
-- writes: coverage_gaps, asked_hours, cost_hourly, cost_daily, attributed_days, attribution_state, costs, daily_costs: time that was not collected, with reasons; repeated queries of hours; cost of time that was not collected
-- invariant: per node and cell, sum(cost + unallocated_cost + not_collected_cost) = node cost, exactly

-- Time of a cluster without complete data. Together with `collected`, which includes bridged time, the rows of kinds
-- 'not_collected' and 'off' cover all time, past and future.
CREATE TABLE coverage_gaps (
    cluster      VARCHAR NOT NULL,
    from_ms      BIGINT NOT NULL,
    to_ms        BIGINT NOT NULL,
    -- 'not_collected', 'bridged', 'partial' (a server's answer was partial), 'off' (declared, or not billed)
    kind         VARCHAR NOT NULL,
    -- missing families: 'nodes', 'pods', 'requests', 'phases'; a shard as 'shard 2 of 3'
    families     VARCHAR[] NOT NULL,
    reason       VARCHAR NOT NULL,       -- a phrase: 'before its first sample', 'kube-state-metrics was silent', ...
    accepted_by  VARCHAR,                -- who signed it ([coverage] accept): it no longer causes exit code 4
    accepted_why VARCHAR
);

-- The last two answers of a source for an hour: incomplete hours are queried again until two counts agree.
CREATE TABLE asked_hours (
    source       VARCHAR NOT NULL,
    hour         INTEGER NOT NULL,       -- hours since 1970-01-01T00:00Z
    samples      BIGINT NOT NULL,        -- samples in the last answer
    first_at     TIMESTAMP NOT NULL,     -- since when answers have had this count
    last_at      TIMESTAMP NOT NULL,     -- time of the last query
    -- the server marked its answer as partial, and [prometheus] partial_response accepts that
    is_partial   BOOLEAN NOT NULL
);

ALTER TABLE cost_hourly ADD COLUMN not_collected_gpu_ms DOUBLE DEFAULT 0;
ALTER TABLE cost_hourly ADD COLUMN not_collected_cost DECIMAL(38, 9) DEFAULT 0;
ALTER TABLE cost_daily ADD COLUMN not_collected_gpu_ms DOUBLE DEFAULT 0;
ALTER TABLE cost_daily ADD COLUMN not_collected_cost DECIMAL(38, 9) DEFAULT 0;

CREATE OR REPLACE VIEW costs AS
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

CREATE OR REPLACE VIEW daily_costs AS
SELECT
    epoch_ms(c.from_ms) AS from_time, epoch_ms(c.to_ms) AS to_time, c.kind, c.team, n.cluster, a.namespace, a.workload, t.workload_type, a.pod, a.uid,
    n.node, n.provider, n.region, n.zone, n.instance_type, n.gpu_model, n.capacity_type,
    c.allocated_gpu_ms / 3600000 AS allocated_gpu_hours, c.active_gpu_ms / 3600000 AS active_gpu_hours, c.idle_gpu_ms / 3600000 AS idle_gpu_hours,
    c.unmeasured_gpu_ms / 3600000 AS unmeasured_gpu_hours, c.unallocated_gpu_ms / 3600000 AS unallocated_gpu_hours,
    c.unavailable_gpu_ms / 3600000 AS unavailable_gpu_hours, c.not_collected_gpu_ms / 3600000 AS not_collected_gpu_hours,
    c.cost, c.idle_cost, c.unallocated_cost, c.not_collected_cost, c.estimated_cost
FROM cost_daily AS c
JOIN nodes AS n USING (node_id)
LEFT JOIN allocations AS a ON a.allocation_id = c.allocation_id
LEFT JOIN allocation_traits AS t ON t.allocation_id = c.allocation_id;

-- Everything is attributed again.
DELETE FROM attributed_days;
DELETE FROM attribution_state;
