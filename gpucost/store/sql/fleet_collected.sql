-- reads: nodes
-- writes: collected
-- invariant: all time of a cluster's nodes is collected
INSERT INTO collected SELECT cluster, min(up_from_ms), max(up_to_ms) FROM nodes GROUP BY cluster;
