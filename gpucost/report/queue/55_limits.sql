-- reads: queue_parts; $from_ms
-- writes: nothing; answers the newest borrowing limit of each (cluster, queue, resource), summed over flavors, and its cohort
-- invariant: infinite where one flavor has no limit; null where none was told
SELECT cluster, cluster_queue, resource, sum(borrowing_limit) AS borrowing_limit, max(cohort) AS cohort
FROM (
    SELECT cluster, cluster_queue, resource, part, arg_max(borrowing_limit, from_ms) AS borrowing_limit, arg_max(cohort, from_ms) AS cohort
    FROM queue_parts
    WHERE to_ms > $from_ms AND resource IS NOT NULL
    GROUP BY ALL
)
GROUP BY ALL
ORDER BY ALL;
