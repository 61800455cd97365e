-- reads: coverage_gaps, covered_hours, nodes, billed_nodes, billed_hours
-- writes: node_stops (stored): of nodes that are billed, the bridged hours that their bill leaves out; it says more than their boots
-- invariant: rows of a node do not overlap; a node of which an hour is billed has no stop in that hour
CREATE OR REPLACE TEMP TABLE bridged_hours AS
SELECT n.node_id, b.instance_key, c.hour,
    greatest(g.from_ms, n.up_from_ms, c.hour * 3600000) AS from_ms, least(g.to_ms, n.up_to_ms, (c.hour + 1) * 3600000) AS to_ms
FROM coverage_gaps AS g
JOIN covered_hours AS c ON c.cluster = g.cluster AND c.hour * 3600000 < g.to_ms AND g.from_ms < (c.hour + 1) * 3600000
JOIN nodes AS n ON n.cluster = g.cluster AND n.up_from_ms < g.to_ms AND g.from_ms < n.up_to_ms
JOIN billed_nodes AS b ON b.node_id = n.node_id AND NOT b.is_scale_set
WHERE g.kind = 'bridged' AND greatest(g.from_ms, n.up_from_ms, c.hour * 3600000) < least(g.to_ms, n.up_to_ms, (c.hour + 1) * 3600000);
DELETE FROM node_stops AS s
WHERE EXISTS (FROM bridged_hours AS h WHERE h.node_id = s.node_id AND h.from_ms < s.to_ms AND s.from_ms < h.to_ms);
INSERT INTO node_stops BY NAME
SELECT h.node_id, h.from_ms, h.to_ms, 'bill' AS reason
FROM bridged_hours AS h
WHERE NOT EXISTS (
    FROM billed_hours AS b
    WHERE b.instance_key = h.instance_key AND b.instance_hours > 0 AND b.from_ms < h.to_ms AND h.from_ms < b.to_ms);
