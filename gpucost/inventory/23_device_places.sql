-- reads: node_lives, device_series
-- writes: device_places, one row per activity series whose exporter names its host: the node of that name
-- invariant: one row per series_id
CREATE OR REPLACE TEMP TABLE device_places AS
WITH names AS (
    SELECT DISTINCT cluster, node FROM node_lives
),
hosts AS (
    SELECT DISTINCT cluster, host, node_label FROM device_series
),
-- exporters differ in what they call the host: the node's name, a label put there by relabeling, or its short name
matches AS (
    SELECT h.*, n.node, 1 AS rank FROM hosts AS h JOIN names AS n ON n.cluster = h.cluster AND n.node = h.host
    UNION ALL
    SELECT h.*, n.node, 2 FROM hosts AS h JOIN names AS n ON n.cluster = h.cluster AND n.node = h.node_label
    UNION ALL
    SELECT h.*, n.node, 3
    FROM hosts AS h
    JOIN names AS n ON n.cluster = h.cluster AND split_part(n.node, '.', 1) = split_part(h.host, '.', 1)
    WHERE h.host <> '' AND h.host NOT SIMILAR TO '[0-9.]+'
),
hosted AS (
    SELECT cluster, host, node_label, arg_min(node, rank) AS node FROM matches GROUP BY ALL
)
SELECT d.series_id, d.cluster, h.node FROM device_series AS d JOIN hosted AS h USING (cluster, host, node_label);
