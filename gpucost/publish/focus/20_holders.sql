-- reads: focus_charges, billed_hours, billed_nodes, nodes, collected, hourly_costs, allocations, api_shares
-- writes: focus_holders, one row per (machine, charge period, holder): its share of the machine's charge, and its GPU-hours
-- invariant: per machine and charge period the shares add up to 1, up to rounding; unallocated, not collected, and time without metrics are holders of their own
CREATE OR REPLACE TEMP TABLE focus_holders AS
WITH charged AS (
    SELECT DISTINCT instance_key, from_ms, to_ms FROM focus_charges
),
billed AS (
    -- from all bills: a correction in a later billing period repeats no hours
    SELECT c.instance_key, c.from_ms, c.to_ms, sum(h.instance_hours::DECIMAL(38, 12))::DOUBLE * 3600000 AS billed_ms
    FROM charged AS c JOIN billed_hours AS h USING (instance_key, from_ms, to_ms)
    GROUP BY ALL
    UNION ALL
    -- the period of a discount or fee: its part of the hours that it overlaps
    SELECT c.instance_key, c.from_ms, c.to_ms,
        sum((h.instance_hours * ((least(h.to_ms, c.to_ms) - greatest(h.from_ms, c.from_ms)) / (h.to_ms - h.from_ms)))::DECIMAL(38, 12))::DOUBLE * 3600000
    FROM (FROM charged ANTI JOIN billed_hours USING (instance_key, from_ms, to_ms)) AS c
    JOIN billed_hours AS h ON h.instance_key = c.instance_key AND h.from_ms < c.to_ms AND c.from_ms < h.to_ms
    GROUP BY ALL
),
seen AS (
    SELECT b.instance_key, b.from_ms, b.to_ms, count(n.node_id) > 0 AS has_node,
        coalesce(sum(greatest(0, least(n.up_to_ms, k.to_ms, b.to_ms) - greatest(n.up_from_ms, k.from_ms, b.from_ms))) FILTER (k.cluster IS NOT NULL), 0) AS seen_ms
    FROM billed AS b
    LEFT JOIN billed_nodes AS m USING (instance_key)
    LEFT JOIN nodes AS n USING (node_id)
    LEFT JOIN collected AS k ON k.cluster = n.cluster AND k.from_ms < b.to_ms AND b.from_ms < k.to_ms
    GROUP BY ALL
),
-- billed time of each, and the fraction of it with metrics, 0 to 1; a machine without a node has none
machine_periods AS MATERIALIZED (
    SELECT instance_key, from_ms, to_ms, has_node, billed_ms,
        CASE WHEN billed_ms > 0 THEN least(1, seen_ms / billed_ms) WHEN seen_ms > 0 THEN 1 ELSE 0 END AS seen_ratio
    FROM billed JOIN seen USING (instance_key, from_ms, to_ms)
),
cells AS (
    SELECT p.instance_key, p.from_ms, p.to_ms, p.seen_ratio, p.billed_ms, c.kind, c.team, n.cluster, n.node, n.gpu_model, n.capacity_type, a.namespace, a.workload,
        (least(c.to_ms, p.to_ms) - greatest(c.from_ms, p.from_ms)) / (c.to_ms - c.from_ms) AS part,
        c.cost + c.unallocated_cost + c.not_collected_cost AS cost, c.allocated_gpu_ms + c.unallocated_gpu_ms + c.not_collected_gpu_ms AS gpu_ms,
        c.not_collected_gpu_ms / nullif(n.gpu_count, 0) AS unseen_ms
    FROM machine_periods AS p
    JOIN billed_nodes AS m USING (instance_key)
    JOIN nodes AS n USING (node_id)
    JOIN hourly_costs((SELECT min(from_ms) - 3600000 FROM charged), (SELECT max(to_ms) + 3600000 FROM charged)) AS c ON c.node_id = n.node_id AND c.from_ms < p.to_ms AND p.from_ms < c.to_ms
    LEFT JOIN allocations AS a ON a.allocation_id = c.allocation_id
),
summed AS (
    SELECT instance_key, from_ms, to_ms, seen_ratio, billed_ms, kind, team, cluster, node, gpu_model, capacity_type, namespace, workload,
        -- decimals: sums of doubles depend on the order of rows
        sum((cost * part)::DECIMAL(38, 9)) AS cost, sum((gpu_ms * part)::DECIMAL(38, 6)) AS gpu_ms,
        coalesce(sum((unseen_ms * part)::DECIMAL(38, 6)), 0) AS unseen_ms
    FROM cells
    GROUP BY ALL
),
weighed AS (
    -- shares are by cost, which includes cores and memory if they are charged, or by time if the cost is zero; time
    -- without metrics gets its part of the billed time, and the holders share the rest
    SELECT *, CASE WHEN sum(cost) OVER w > 0 THEN cost / sum(cost) OVER w WHEN sum(gpu_ms) OVER w > 0 THEN gpu_ms / sum(gpu_ms) OVER w ELSE 0 END AS weight
    FROM summed
    WINDOW w AS (PARTITION BY instance_key, from_ms, to_ms, kind = 'not_collected')
),
held AS (
    SELECT instance_key, from_ms, to_ms, kind, team, cluster, node, namespace, workload, gpu_model, capacity_type,
        weight * CASE WHEN kind = 'not_collected'
            THEN least(1 - seen_ratio, sum(unseen_ms) OVER (PARTITION BY instance_key, from_ms, to_ms) / nullif(billed_ms, 0))
            ELSE seen_ratio END AS share, gpu_ms / 3600000 AS gpu_hours
    FROM weighed
    WHERE weight > 0
),
rest AS (
    SELECT p.instance_key, p.from_ms, p.to_ms, CASE WHEN p.has_node THEN 'outside_node_life' ELSE 'instance_without_metrics' END AS kind,
        1 - coalesce(sum(h.share::DECIMAL(38, 15)), 0)::DOUBLE AS share
    FROM machine_periods AS p
    LEFT JOIN held AS h USING (instance_key, from_ms, to_ms)
    GROUP BY p.instance_key, p.from_ms, p.to_ms, p.has_node
    HAVING 1 - coalesce(sum(h.share::DECIMAL(38, 15)), 0)::DOUBLE > 1e-9
)
SELECT * FROM held
UNION ALL BY NAME
SELECT * FROM rest
UNION ALL BY NAME
SELECT 'api ' || unnest(charge_ids) AS instance_key, start_ms AS from_ms, end_ms AS to_ms, 'api' AS kind, team, share, 0 AS gpu_hours
FROM api_shares;
