-- reads: gcp_rows, catalog_instances
-- writes: gcp_hours: how long each VM ran, on rows of one of its parts: (row_id, instance_hours)
-- invariant: the hours of a VM stand once, on the rows of its cores; of its GPUs or memory where no cores are billed; a window of usage
-- holds no more hours than it lasts
CREATE OR REPLACE TEMP TABLE gcp_hours AS
WITH parts AS (
    SELECT
        r.row_id,
        r.instance_key,
        r.start_at,
        r.end_at,
        CASE r.component WHEN 'core' THEN 1 WHEN 'gpu' THEN 2 WHEN 'ram' THEN 3 END AS rank,
        -- Hours of one vCPU or GPU, GiB-hours of memory. The base units are exact, the pricing units are rounded in some exports.
        CASE
            WHEN r.component = 'ram' THEN CASE WHEN r.pricing_unit ILIKE 'gibibyte hour%' THEN r.pricing_amount ELSE r.amount / 3600 / 1073741824 END
            WHEN r.unit ILIKE 'second%' THEN r.amount / 3600
            ELSE r.pricing_amount
        END AS units,
        CASE r.component
            WHEN 'core' THEN coalesce(c.vcpus, r.cores)
            WHEN 'gpu' THEN coalesce(c.gpu_count, TRY_CAST(nullif(regexp_extract(r.machine_type, '-(\d+)g$', 1), '') AS DOUBLE))
            WHEN 'ram' THEN coalesce(c.memory_gib, r.memory_gib)
        END AS size
    FROM gcp_rows AS r
    LEFT JOIN catalog_instances AS c ON c.provider = 'gcp' AND c.instance_type = r.machine_type
    WHERE r.kind = 'instance' AND r.component IN ('core', 'gpu', 'ram') AND r.end_at > r.start_at
),
clocks AS (
    -- A VM with one kind of core row and two (predefined and extended, say) sums them.
    SELECT * FROM parts WHERE units IS NOT NULL QUALIFY rank = min(rank) OVER (PARTITION BY instance_key)
),
windows AS (
    SELECT
        *,
        epoch(end_at - start_at) / 3600 AS span,
        sum(units / nullif(size, 0)) OVER w AS hours,
        sum(units) OVER w AS all_units,
        count(*) FILTER (size IS NULL OR size = 0) OVER w AS unsized
    FROM clocks
    WINDOW w AS (PARTITION BY instance_key, start_at, end_at)
)
SELECT
    row_id,
    CASE
        -- What the machine holds is unknown, or told wrongly: it ran through the window. Rows of one window (namespaces of
        -- GKE, say) share it.
        WHEN unsized > 0 OR hours > span * 1.001 THEN CASE WHEN all_units = 0 THEN 0 ELSE span * units / all_units END
        ELSE units / size
    END AS instance_hours
FROM windows;
