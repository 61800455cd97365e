-- reads: cost_rows; $bys are lists of dimensions to group by, $most limits the allocated rows of each list and part
-- writes: nothing; returns, for each list by its position, one row per kind and combination of its dimensions, the most expensive first, other dimensions null
-- invariant: with any list the measures add up to the same totals
-- one statement for all lists: planning takes longer than running
WITH asked AS (
    SELECT generate_subscripts($bys::VARCHAR[][], 1) AS place, unnest($bys::VARCHAR[][]) AS by, unnest($most::BIGINT[]) AS most
),
sums AS (
    SELECT a.place, a.most, kind, part_of(f.team) AS part, dimensions(a.by, f) AS keys,
        total_ms(allocated_gpu_ms) AS allocated_gpu_ms,
        total_ms(active_gpu_ms) AS active_gpu_ms,
        total_ms(idle_gpu_ms) AS idle_gpu_ms,
        total_ms(unmeasured_gpu_ms) AS unmeasured_gpu_ms,
        total_ms(utilization_gpu_ms) AS utilization_gpu_ms,
        total_ms(CASE WHEN capacity_type = 'spot' THEN allocated_gpu_ms ELSE 0 END) AS spot_gpu_ms,
        total_ms(CASE WHEN capacity_type <> 'unknown' THEN allocated_gpu_ms ELSE 0 END) AS known_capacity_gpu_ms,
        total_ms(unallocated_gpu_ms) AS unallocated_gpu_ms,
        total_ms(unavailable_gpu_ms) AS unavailable_gpu_ms,
        total_ms(not_collected_gpu_ms) AS not_collected_gpu_ms,
        sum(cost)                                                                                            AS cost,
        sum(idle_cost)                                                                                       AS idle_cost,
        sum(CASE WHEN capacity_type = 'spot' THEN cost ELSE 0 END)                                           AS spot_cost,
        sum(unallocated_cost)                                                                                AS unallocated_cost,
        sum(not_collected_cost)                                                                              AS not_collected_cost,
        sum(estimated_cost)                                                                                  AS estimated_cost
    FROM cost_rows AS f CROSS JOIN asked AS a
    GROUP BY ALL
)
SELECT unnest(keys), * EXCLUDE (most, keys)
FROM sums
QUALIFY row_number() OVER (
    PARTITION BY place, part ORDER BY kind, cost DESC, keys.cluster NULLS LAST, keys.namespace NULLS LAST, keys.workload NULLS LAST, keys
) <= most OR kind <> 'allocated'
ORDER BY place, kind, cost DESC, keys.cluster NULLS LAST, keys.namespace NULLS LAST, keys.workload NULLS LAST;
