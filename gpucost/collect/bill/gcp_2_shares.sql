-- reads: gcp_rows, catalog_instances
-- writes: gcp_hours: the running hours of each VM, on rows of one of its parts; gcp_fees: each row's share of commitments: covered rows their part of the fee, fee rows the unused part
-- invariant: the hours of a VM are counted once, on the rows of its cores, or of its GPUs or memory if no cores are billed; a usage window has at most the hours of its length; per pool of commitments and time slot, shares + unused = fees
CREATE OR REPLACE TEMP TABLE gcp_hours AS
WITH parts AS (
    SELECT
        r.row_id,
        r.instance_key,
        r.start_at,
        r.end_at,
        CASE r.component WHEN 'core' THEN 1 WHEN 'gpu' THEN 2 WHEN 'ram' THEN 3 END AS rank,
        -- Hours of one vCPU or GPU, GiB-hours of memory. Base units are exact; some exports round pricing units.
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
    -- Sum a VM's core rows of two kinds (such as predefined and extended).
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
        -- The machine's size is missing or wrong: it ran through the whole window. Rows of one window (such as GKE
        -- namespaces) share it.
        WHEN unsized > 0 OR hours > span * 1.001 THEN CASE WHEN all_units = 0 THEN 0 ELSE span * units / all_units END
        ELSE units / size
    END AS instance_hours
FROM windows;

CREATE OR REPLACE TEMP TABLE gcp_fees AS
WITH charges AS (
    SELECT * REPLACE (CASE WHEN family IN ('', 'n1') THEN 'n1' ELSE family END AS family), kind = 'commitment_fee' AS is_fee
    FROM gcp_rows
    WHERE kind = 'commitment_fee' OR resource_cud <> 0 OR spend_cud <> 0
),
entries AS (
    -- A fee with offsets is the newer model: the offsets are the used part, and usage is charged the discounted price.
    SELECT
        row_id,
        true AS is_fee,
        -- Commitments on resources cover vCPUs, memory or GPUs of a region; commitments on spend cover a product
        -- everywhere.
        CASE WHEN regexp_matches(lower(sku), 'dollar|spend|flex') THEN 'spend' ELSE 'resource' END AS basis,
        sku AS words,
        service,
        region,
        component,
        family,
        billing_account_id,
        currency,
        start_at,
        epoch(end_at - start_at) AS seconds,
        cost + usage_credits AS fee,
        NULL::DECIMAL(38, 12) AS covered,
        pricing_amount AS units,
        pricing_unit
    FROM charges WHERE is_fee AND NOT has_offset
    UNION ALL
    -- Google's deduction at the row's own price: the number of units covered by the commitment.
    SELECT
        row_id, false, 'resource', sku, service, region, component, family, billing_account_id, currency,
        start_at, NULL, NULL, -resource_cud,
        CASE WHEN cost <> 0 THEN pricing_amount * CAST(-resource_cud AS DOUBLE) / CAST(cost AS DOUBLE) END, pricing_unit
    FROM charges WHERE NOT is_fee AND resource_cud <> 0
    UNION ALL
    SELECT
        row_id, false, 'spend', spend_cud_words, service, region, component, family, billing_account_id, currency,
        start_at, NULL, NULL, -spend_cud, NULL, pricing_unit
    FROM charges WHERE NOT is_fee AND spend_cud <> 0
),
pooled AS (
    SELECT
        *,
        CASE basis
            WHEN 'resource' THEN concat_ws('|', billing_account_id, currency, basis, region, component, family)
            ELSE concat_ws('|', billing_account_id, currency, basis, CASE
                WHEN regexp_matches(lower(words), '\bgce\b|compute|flex') THEN 'compute engine' ELSE lower(service)
            END)
        END AS pool
    FROM entries
),
slotted AS (
    -- Fees are hourly, in some exports daily or monthly: a pool is compared in the intervals of its longest fee.
    -- Google's days and months begin at midnight Pacific time.
    SELECT
        *,
        CASE
            WHEN max(CASE WHEN is_fee THEN seconds END) OVER (PARTITION BY pool) <= 3600 THEN date_trunc('hour', start_at)
            WHEN max(CASE WHEN is_fee THEN seconds END) OVER (PARTITION BY pool) <= 90000
            THEN date_trunc('day', start_at AT TIME ZONE 'UTC' AT TIME ZONE 'America/Los_Angeles')
            ELSE date_trunc('month', start_at AT TIME ZONE 'UTC' AT TIME ZONE 'America/Los_Angeles')
        END AS slot
    FROM pooled
),
slots AS (
    SELECT
        pool,
        slot,
        sum(fee) AS fee,
        sum(covered) AS covered,
        sum(units) FILTER (is_fee) AS committed_units,
        sum(units) FILTER (NOT is_fee) AS covered_units,
        -- Units are comparable if every row has them and they are of one kind.
        count(DISTINCT pricing_unit) = 1 AND count(*) = count(units) AS has_units
    FROM slotted GROUP BY pool, slot
),
used AS (
    SELECT
        *,
        CASE
            WHEN coalesce(fee, 0) <= 0 OR coalesce(covered, 0) <= 0 THEN 0
            WHEN has_units AND committed_units > 0 AND covered_units > 0 THEN least(1, covered_units / committed_units)
            -- Commitments on spend bill no units. If fully used, a fee / its covered cost = the commitment's price /
            -- the on-demand price: use the pool's minimum over its slots.
            ELSE least(1, CAST(covered AS DOUBLE) / CAST(fee AS DOUBLE) * min(CASE WHEN fee > 0 AND covered > 0
                THEN CAST(fee AS DOUBLE) / CAST(covered AS DOUBLE) END) OVER (PARTITION BY pool))
        END AS used_share
    FROM slots
),
shares AS (
    SELECT
        e.row_id,
        e.is_fee,
        e.pool,
        e.slot,
        u.fee AS slot_fee,
        coalesce(u.fee, 0) = 0 AS is_without_fee,
        CASE
            WHEN e.is_fee THEN CAST(CAST(e.fee AS DOUBLE) * (1 - u.used_share) AS DECIMAL(38, 12))
            WHEN u.used_share = 0 THEN 0
            ELSE CAST(CAST(u.fee AS DOUBLE) * u.used_share * CAST(e.covered AS DOUBLE) / CAST(u.covered AS DOUBLE) AS DECIMAL(38, 12))
        END AS share
    FROM slotted AS e JOIN used AS u USING (pool, slot)
)
-- A row covered by two commitments has a share of both.
SELECT row_id, bool_or(is_fee) AS is_fee, bool_or(is_without_fee) AS is_without_fee, sum(share) AS share
FROM (
    SELECT
        * EXCLUDE (share),
        -- The rounding remainder goes to a fee row, so that the whole fee is kept.
        share + CASE
            WHEN is_fee AND row_number() OVER (PARTITION BY pool, slot ORDER BY is_fee DESC, share DESC, row_id) = 1
            THEN slot_fee - sum(share) OVER (PARTITION BY pool, slot)
            ELSE 0
        END AS share
    FROM shares
)
GROUP BY row_id;
