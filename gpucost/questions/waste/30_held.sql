-- reads: waste_held_cells, waste_pods, waste_serving; variable waste_by_gpus: the GPUs carry all cost, so that idle_cost is the cost of the idle time
-- writes: waste_held, one row per (node, allocation, team, time_bucket): allocated GPU time, cut into seven parts, each with its cost
-- invariant: the GPU time of the parts adds up to the allocated time, and their cost and host_cost to its cost, exactly
-- Each cell is cut on its own. Idle time: starting, then beyond (surplus-provisioned or forgotten), then the rest.
-- Other time: starting, unmeasured, surplus (active in replicas that the peak does not need), lost, and the rest: work.
-- The sums of costs up to each part are rounded, so that the differences of neighbors add up to the whole. Binary
-- fractions may leave a trace of a part without other time.
CREATE OR REPLACE TEMP TABLE waste_held AS
WITH timed AS (
    SELECT c.node_id, c.allocation_id, c.team, c.time_bucket, c.allocated_gpu_ms, c.idle_gpu_ms, c.cost, c.idle_cost,
        c.allocated_gpu_ms - c.idle_gpu_ms AS other_gpu_ms, p.workload_type, v.idle_part, v.active_part,
        least(c.allocated_gpu_ms, p.gpus * greatest(0, least(c.to_ms, p.started_ms) - greatest(c.from_ms, p.held_from_ms))) AS starting,
        least(c.idle_gpu_ms, starting) AS starting_idle,
        least(c.unmeasured_gpu_ms, starting - starting_idle) AS starting_unmeasured,
        c.idle_gpu_ms - starting_idle AS idle_left,
        -- the part of this cell's allocated time after a moment
        CASE WHEN p.forgotten_from_ms < c.to_ms THEN greatest(0, least(c.to_ms, p.held_to_ms) - greatest(c.from_ms, p.started_ms, p.forgotten_from_ms))
            / greatest(1, least(c.to_ms, p.held_to_ms) - greatest(c.from_ms, p.started_ms)) ELSE 0 END AS forgotten_part,
        CASE WHEN p.lost_from_ms < c.to_ms THEN greatest(0, least(c.to_ms, p.held_to_ms) - greatest(c.from_ms, p.held_from_ms, p.lost_from_ms))
            / greatest(1, least(c.to_ms, p.held_to_ms) - greatest(c.from_ms, p.held_from_ms)) ELSE 0 END AS lost_part,
        CASE p.workload_type
            WHEN 'inference' THEN idle_left * coalesce(v.idle_part, 0)
            WHEN 'development' THEN idle_left * forgotten_part
            ELSE 0
        END AS beyond,
        c.unmeasured_gpu_ms - starting_unmeasured AS unmeasured,
        c.active_gpu_ms * coalesce(v.active_part, 0) AS surplus,
        (c.active_gpu_ms - surplus) * lost_part AS lost
    FROM waste_held_cells AS c
    JOIN waste_pods AS p USING (allocation_id)
    LEFT JOIN waste_serving AS v
        ON p.workload_type = 'inference' AND v.cluster = p.cluster AND v.namespace = p.namespace AND v.workload = p.workload AND v.from_ms = c.from_ms
),
priced AS (
    SELECT *,
        CASE
            WHEN allocated_gpu_ms <= 0 OR idle_gpu_ms <= 0 THEN 0
            WHEN other_gpu_ms <= 0 THEN cost
            WHEN getvariable('waste_by_gpus') THEN idle_cost
            ELSE least(cost, (cost * (idle_gpu_ms / allocated_gpu_ms))::DECIMAL(38, 9))
        END AS idle_cost_all,
        CASE WHEN allocated_gpu_ms <= 0 THEN cost ELSE 0 END AS host_cost,
        cost - idle_cost_all - host_cost AS other_cost
    FROM timed
),
summed AS (
    SELECT *,
        CASE WHEN starting_idle > 0 THEN least(idle_cost_all, (idle_cost_all * (starting_idle / idle_gpu_ms))::DECIMAL(38, 9)) ELSE 0 END AS i1,
        CASE WHEN beyond > 0 THEN least(idle_cost_all, (idle_cost_all * ((starting_idle + beyond) / idle_gpu_ms))::DECIMAL(38, 9)) ELSE i1 END AS i2,
        CASE WHEN starting_unmeasured > 0 AND other_gpu_ms > 0 THEN least(other_cost, (other_cost * (starting_unmeasured / other_gpu_ms))::DECIMAL(38, 9)) ELSE 0 END AS o1,
        CASE WHEN unmeasured > 0 AND other_gpu_ms > 0
            THEN least(other_cost, (other_cost * ((starting_unmeasured + unmeasured) / other_gpu_ms))::DECIMAL(38, 9)) ELSE o1 END AS o2,
        CASE WHEN surplus > 0 AND other_gpu_ms > 0
            THEN least(other_cost, (other_cost * ((starting_unmeasured + unmeasured + surplus) / other_gpu_ms))::DECIMAL(38, 9)) ELSE o2 END AS o3,
        CASE WHEN lost > 0 AND other_gpu_ms > 0
            THEN least(other_cost, (other_cost * ((starting_unmeasured + unmeasured + surplus + lost) / other_gpu_ms))::DECIMAL(38, 9)) ELSE o3 END AS o4
    FROM priced
)
SELECT node_id, allocation_id, team, time_bucket,
    total_ms(starting_idle + starting_unmeasured) AS starting_gpu_ms, sum(i1 + o1)::DECIMAL(38, 9) AS starting_cost,
    total_ms(beyond) AS beyond_gpu_ms, sum(i2 - i1)::DECIMAL(38, 9) AS beyond_cost,
    total_ms(idle_left - beyond) AS idle_gpu_ms, sum(idle_cost_all - i2)::DECIMAL(38, 9) AS idle_cost,
    total_ms(unmeasured) AS unmeasured_gpu_ms, sum(o2 - o1)::DECIMAL(38, 9) AS unmeasured_cost,
    total_ms(surplus) AS surplus_gpu_ms, sum(o3 - o2)::DECIMAL(38, 9) AS surplus_cost,
    total_ms(lost) AS lost_gpu_ms, sum(o4 - o3)::DECIMAL(38, 9) AS lost_cost,
    total_ms(other_gpu_ms - starting_unmeasured - unmeasured - surplus - lost) AS work_gpu_ms, sum(other_cost - o4)::DECIMAL(38, 9) AS work_cost,
    sum(host_cost)::DECIMAL(38, 9) AS host_cost
FROM summed
GROUP BY ALL;
