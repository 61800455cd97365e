-- reads: nodes, node_prices, charges; $from_ms and $to_ms: lists of when days begin and end
-- writes: nothing; answers a row per (provider, region, instance type): node time, the most nodes at a time, and own prices on demand, on spot and in all, as amounts and the time that they are of
-- invariant: a price under a commitment is none on demand, nor is a bill's if it knows commitments of the provider
WITH days AS (
    SELECT unnest($from_ms::BIGINT[]) AS from_ms, unnest($to_ms::BIGINT[]) AS to_ms
),
committed AS (
    SELECT DISTINCT lower(provider) AS provider FROM charges
    WHERE commitment_discount_id IS NOT NULL AND epoch_ms(charge_period_start) < list_max($to_ms::BIGINT[])
        AND list_min($from_ms::BIGINT[]) < epoch_ms(charge_period_end)
),
used AS (
    SELECT n.node_id, coalesce(n.provider, '') AS provider, coalesce(n.region, '') AS region,
        coalesce(n.instance_type, n.gpu_model, 'unknown') AS instance_type, n.gpu_model, n.gpu_count, n.instance_type IS NULL AS is_own,
        greatest(p.from_ms, d.from_ms) AS from_ms, least(p.to_ms, d.to_ms) AS to_ms, p.price_per_hour, p.price_as_of, p.price_source,
        p.price_source <> 'none' AS is_priced, p.price_source <> 'none' AND n.capacity_type = 'spot' AS is_spot,
        p.price_source <> 'none' AND n.capacity_type IN ('on_demand', 'unknown')
            AND coalesce(p.purchase_option NOT IN ('reserved', 'savings_plan', 'cud'), true)
            AND NOT (p.price_source = 'bill' AND c.provider IS NOT NULL) AS is_on_demand
    FROM nodes AS n
    JOIN node_prices AS p USING (node_id)
    JOIN days AS d ON p.from_ms < d.to_ms AND d.from_ms < p.to_ms
    LEFT JOIN committed AS c ON c.provider = lower(n.provider)
),
edges AS (
    SELECT provider, region, instance_type, from_ms AS at_ms, 1 AS step FROM used
    UNION ALL
    SELECT provider, region, instance_type, to_ms, -1 FROM used
),
counted AS (
    SELECT provider, region, instance_type, sum(step) OVER (PARTITION BY provider, region, instance_type ORDER BY at_ms, step
        ROWS UNBOUNDED PRECEDING) AS nodes
    FROM edges
),
peaks AS (
    SELECT provider, region, instance_type, max(nodes) AS most_nodes FROM counted GROUP BY ALL
)
SELECT provider, region, instance_type, any_value(gpu_model) AS gpu_model, bool_and(is_own) AS is_own, max(gpu_count) AS gpus,
    any_value(most_nodes)::INTEGER AS most_nodes, sum(ms)::BIGINT AS node_ms,
    sum(ms) FILTER (is_priced)::BIGINT AS priced_ms, sum(cost) FILTER (is_priced) AS priced,
    sum(ms) FILTER (is_on_demand)::BIGINT AS on_demand_ms, sum(cost) FILTER (is_on_demand) AS on_demand,
    string_agg(DISTINCT source, ', ' ORDER BY source) FILTER (is_on_demand) AS on_demand_source,
    max(price_as_of) FILTER (is_on_demand) AS on_demand_as_of,
    sum(ms) FILTER (is_spot)::BIGINT AS spot_ms, sum(cost) FILTER (is_spot) AS spot,
    string_agg(DISTINCT source, ', ' ORDER BY source) FILTER (is_spot) AS spot_source,
    max(price_as_of) FILTER (is_spot) AS spot_as_of
FROM (SELECT *, to_ms - from_ms AS ms, ms::DECIMAL(18, 0) * price_per_hour AS cost, replace(price_source, '_', ' ') AS source FROM used)
JOIN peaks USING (provider, region, instance_type)
GROUP BY provider, region, instance_type
ORDER BY node_ms DESC, provider, region, instance_type;
