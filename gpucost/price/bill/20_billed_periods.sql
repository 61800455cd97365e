-- reads: billed_rows, billed_nodes, nodes
-- writes: billed_periods, one row per (machine, charge period, currency), whichever bills tell of it: what it is, its hours and their cost
-- invariant: hours > 0; is_priced is false where a part of the cost is missing or it cost nothing, and nothing says why, and where only corrections of it are known
CREATE OR REPLACE TEMP TABLE billed_periods AS
WITH summed AS (
    SELECT instance_key, currency, from_ms, to_ms, min(provider) AS provider, min(account) AS account, min(region) AS region,
        min(instance_type) AS instance_type, min(operating_system) AS operating_system, min(tenancy) AS tenancy,
        CASE WHEN bool_or(is_spot) THEN 'spot' WHEN bool_or(is_block) THEN 'capacity_block' WHEN bool_or(is_reserved) THEN 'reserved' ELSE 'on_demand' END AS capacity_type,
        CASE WHEN NOT bool_or(is_spot) THEN min(reservation) END AS reservation,
        -- a correction of the price repeats the hours, or has none; one that takes hours back has them below 0
        sum(instance_hours) FILTER (NOT is_correction) AS told_hours,
        sum(instance_hours) FILTER (is_correction) AS corrected_hours,
        coalesce(min(instance_hours) FILTER (is_correction) < 0, false) AS takes_back,
        sum(effective_cost) AS cost,
        bool_and(is_correction) AS is_correction_only,
        bool_or(lacks_cost) OR bool_or(is_free) AND sum(effective_cost - discount_cost) FILTER (NOT is_rider) = 0 AS is_unexplained
    FROM billed_rows
    GROUP BY instance_key, currency, from_ms, to_ms
),
hours AS (
    SELECT *, coalesce(told_hours, 0) + CASE WHEN takes_back THEN corrected_hours ELSE 0 END AS hours FROM summed
),
lived AS (
    SELECT h.instance_key, h.from_ms, h.to_ms,
        sum(greatest(0, least(n.up_to_ms, h.to_ms) - greatest(n.up_from_ms, h.from_ms))) / 3600000::DECIMAL(38, 12) AS hours
    FROM (SELECT DISTINCT instance_key, from_ms, to_ms FROM hours WHERE hours <= 0) AS h
    JOIN billed_nodes AS b USING (instance_key)
    JOIN nodes AS n USING (node_id)
    GROUP BY ALL
),
spot_nodes AS (
    SELECT DISTINCT b.instance_key FROM billed_nodes AS b JOIN nodes AS n USING (node_id) WHERE n.capacity_type = 'spot'
)
SELECT h.* EXCLUDE (told_hours, corrected_hours, takes_back, is_correction_only, hours),
    -- a bill that tells no hours is of those that its nodes were up, or of the whole charge period
    CASE WHEN h.hours > 0 THEN h.hours WHEN l.hours > 0 THEN l.hours ELSE (h.to_ms - h.from_ms) / 3600000.0 END::DECIMAL(38, 12) AS hours,
    NOT h.is_unexplained AND NOT h.is_correction_only AS is_priced,
    -- no price of a machine that was launched otherwise may be that of a spot node
    s.instance_key IS NOT NULL AND h.capacity_type <> 'spot' AS is_alone
FROM hours AS h
LEFT JOIN lived AS l USING (instance_key, from_ms, to_ms)
LEFT JOIN spot_nodes AS s USING (instance_key);
