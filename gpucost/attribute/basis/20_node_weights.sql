-- reads: nodes, node_hosts, catalog_instances, price_list, place_rank, region_of, host_prices
-- writes: node_weights, one row per node whose price is split: the weights of GPU, CPU and memory
-- invariant: one row per node_id; weights >= 0 and not all 0; is_fallback: the cloud has no prices of cores and memory there
CREATE OR REPLACE TEMP TABLE node_weights AS
WITH asked AS (
    SELECT n.node_id, n.gpu_model, n.gpu_count, lower(n.provider) AS provider, lower(n.instance_type) AS instance_type,
        coalesce(lower(n.region), region_of(n.zone)) AS region, lower(n.zone) AS zone,
        lower(n.labels['label_topology_k8s_aws_zone_id']) AS zone_id, n.up_from_ms,
        -- a3-megagpu has its own prices, which Google calls A3Plus; a3-ultragpu likewise
        CASE
            WHEN n.instance_type ILIKE 'a3-megagpu-%' THEN 'a3plus'
            WHEN n.instance_type ILIKE 'a3-ultragpu-%' THEN 'a3ultra'
            ELSE lower(split_part(n.instance_type, '-', 1))
        END AS family
    FROM nodes AS n
),
types AS (
    SELECT lower(instance_type) AS instance_type, max(gpu_count)::DOUBLE AS gpus, max(vcpus)::DOUBLE AS cores, max(memory_gib)::DOUBLE AS gib
    FROM catalog_instances
    GROUP BY ALL
),
sized AS (
    -- the sizes of the instance type, since nodes report a little less; without a known type, the reported ones
    SELECT a.*, coalesce(nullif(t.gpus, 0), a.gpu_count) AS gpus, coalesce(t.cores, c.units) AS cores, coalesce(t.gib, m.units / 1073741824) AS gib
    FROM asked AS a
    LEFT JOIN types AS t USING (instance_type)
    JOIN node_hosts AS c ON c.node_id = a.node_id AND c.part = 'cpu'
    JOIN node_hosts AS m ON m.node_id = a.node_id AND m.part = 'memory'
),
listed AS (
    -- as of the node's beginning, so that a later price change does not split days again
    SELECT a.node_id, p.currency, p.price_per_hour::DOUBLE AS price
    FROM asked AS a
    JOIN price_list AS p
        ON p.instance_type = a.instance_type AND coalesce(p.provider = a.provider, true)
        AND place_rank(p.region, p.zone, a.region, a.zone, a.zone_id) IS NOT NULL
    WHERE p.purchase_option = 'on_demand' AND p.from_ms <= a.up_from_ms AND a.up_from_ms < p.to_ms
    QUALIFY row_number() OVER (
        PARTITION BY a.node_id ORDER BY place_rank(p.region, p.zone, a.region, a.zone, a.zone_id) DESC, p.provider) = 1
),
plain AS (
    -- OpenCost's default prices per hour; AWS split cost allocation data: a core weighs 9 GiB, a GPU 9 cores and 9 GiB
    SELECT node_id, 'opencost' AS basis, false AS is_fallback, 0.95 * gpus AS gpu, 0.031611 * cores AS cpu, 0.004237 * gib AS memory FROM sized
    UNION ALL
    SELECT node_id, 'scad', false, 90 * gpus, 9 * cores, gib FROM sized
),
by_price AS (
    -- the cloud's own prices of the family there; the instance's price above its host's is for GPUs and local SSD
    SELECT s.node_id, 'sku' AS basis, false AS is_fallback, coalesce(l.price - p.core * s.cores - p.gib * s.gib, g.gpu * s.gpus) AS gpu,
        p.core * s.cores AS cpu, p.gib * s.gib AS memory
    FROM sized AS s
    JOIN host_prices AS p
        ON p.provider = s.provider AND p.region = s.region AND p.family = s.family AND p.gpu_model = '' AND p.core > 0 AND p.gib > 0
    LEFT JOIN listed AS l ON l.node_id = s.node_id AND l.currency = p.currency
    -- the list has no price with GPUs for a machine with attached GPUs
    LEFT JOIN host_prices AS g
        ON g.provider = s.provider AND g.region = s.region AND g.family IN (s.family, '') AND g.gpu_model = s.gpu_model AND g.currency = p.currency
    UNION ALL
    -- as a host of A2 in us-central1, at Google's list price, which equals N1's there
    SELECT s.node_id, 'sku', true, l.price - p.core * s.cores - p.gib * s.gib, p.core * s.cores, p.gib * s.gib
    FROM sized AS s
    JOIN listed AS l USING (node_id)
    JOIN host_prices AS p
        ON p.provider = 'gcp' AND p.region = 'us-central1' AND p.family = 'a2' AND p.gpu_model = '' AND p.core > 0 AND p.gib > 0
        AND p.currency = l.currency
),
weighed AS (
    FROM plain
    UNION ALL
    FROM by_price WHERE gpu IS NOT NULL
)
SELECT node_id, is_fallback, greatest(gpu, 0) AS gpu, cpu, memory FROM weighed
WHERE basis = getvariable('cost_basis')
-- the machine's own GPU price before one for any machine
QUALIFY row_number() OVER (PARTITION BY node_id ORDER BY is_fallback, gpu) = 1;
