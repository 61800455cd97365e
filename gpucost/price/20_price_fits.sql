-- reads: nodes, price_book, price_offers
-- writes: price_fits, every price that fits a node, with the moment from which it may hold
-- invariant: a row for another capacity type never fits a spot node; list prices have specificity -1 and no start
CREATE OR REPLACE TEMP TABLE price_fits AS
WITH asked AS (
    SELECT node_id, gpu_count::DECIMAL(12, 6) AS gpu_count, labels,
        lower(provider) AS provider, lower(zone) AS zone, lower(instance_type) AS instance_type,
        -- aws spells a zone us-east-1a or us-west-2-lax-1a, gcp us-central1-a, azure eastus-1
        coalesce(lower(region),
            nullif(regexp_extract(lower(zone), '^([a-z]+(-[a-z]+)+-[0-9]+)', 1), ''),
            nullif(regexp_extract(lower(zone), '^(.+)-[a-z0-9]$', 1), '')) AS region,
        CASE capacity_type WHEN 'unknown' THEN 'on_demand' ELSE capacity_type END AS capacity_type
    FROM nodes
),
listed AS (
    SELECT a.node_id, o.price_per_hour, o.price_as_of,
        o.zone IS NULL AS regional, coalesce(o.zone IN (a.zone, lower(a.labels['label_topology_k8s_aws_zone_id'])), false) AS zonal
    FROM asked AS a
    JOIN price_offers AS o
        ON o.instance_type = a.instance_type AND o.capacity_type = a.capacity_type
        AND coalesce(o.provider = a.provider, true) AND coalesce(o.region = a.region, o.region IS NULL)
),
list_price AS (
    -- spot is listed by zone: without the node's own zone, the lower median of its region's zones stands for it
    SELECT node_id,
        coalesce(min(price_per_hour) FILTER (zonal), min(price_per_hour) FILTER (regional), quantile_disc(price_per_hour, 0.5)) AS price_per_hour,
        min(price_as_of) AS price_as_of
    FROM listed
    GROUP BY node_id
)
SELECT a.node_id, b.line, b.specificity, [b.selector_labels, b.selector_values] AS selector,
    coalesce(b.start_ms, -4611686018427387904) AS start_ms,
    (b.price_per_hour * CASE WHEN b.per_gpu THEN a.gpu_count ELSE 1 END)::DECIMAL(38, 9) AS price_per_hour,
    'price_book' AS price_source, b.price_as_of
FROM asked AS a
JOIN price_book AS b
    ON coalesce(b.provider = a.provider, b.provider IS NULL)
    AND coalesce(b.region = a.region, b.region IS NULL)
    AND coalesce(b.zone = a.zone, b.zone IS NULL)
    AND coalesce(b.instance_type = a.instance_type, b.instance_type IS NULL)
    AND coalesce(b.capacity_type = a.capacity_type, b.capacity_type IS NULL)
    AND coalesce(list_bool_and(list_transform(range(1, len(b.selector_labels) + 1), lambda i:
        coalesce(coalesce(
            a.labels[b.selector_labels[i]],
            -- newer kube-state-metrics turn camelCase into snake_case
            a.labels[lower(regexp_replace(b.selector_labels[i], '([a-z0-9])([A-Z])', '\1_\2', 'g'))]
        ) = b.selector_values[i], false))), true)
    AND (a.gpu_count > 0 OR NOT b.per_gpu)
UNION ALL
SELECT node_id, NULL, -1, NULL, -4611686018427387904, price_per_hour::DECIMAL(38, 9), 'catalog', price_as_of
FROM list_price;
