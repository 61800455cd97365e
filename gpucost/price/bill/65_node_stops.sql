-- reads: coverage_gaps, covered_hours, collected, nodes, billed_nodes, billed_hours, node_stops
-- writes: bridged_hours, bill_stops, node_stops (stored): for nodes billed by the hour, the bridged time that their bill excludes; this replaces their boot stops
-- invariant: rows of a node do not overlap; billed time of an hour beyond its collected time ran within the bridged time
CREATE OR REPLACE TEMP TABLE bridged_hours AS
SELECT n.node_id, b.instance_key, c.hour,
    greatest(g.from_ms, n.up_from_ms, c.hour * 3600000) AS from_ms, least(g.to_ms, n.up_to_ms, (c.hour + 1) * 3600000) AS to_ms
FROM coverage_gaps AS g
JOIN covered_hours AS c ON c.cluster = g.cluster AND c.hour * 3600000 < g.to_ms AND g.from_ms < (c.hour + 1) * 3600000
JOIN nodes AS n ON n.cluster = g.cluster AND n.up_from_ms < g.to_ms AND g.from_ms < n.up_to_ms
JOIN billed_nodes AS b ON b.node_id = n.node_id AND NOT b.is_scale_set
WHERE g.kind = 'bridged' AND greatest(g.from_ms, n.up_from_ms, c.hour * 3600000) < least(g.to_ms, n.up_to_ms, (c.hour + 1) * 3600000)
    -- a day's bill does not show which of its hours ran
    AND NOT EXISTS (
        FROM billed_hours AS d
        WHERE d.instance_key = b.instance_key AND d.to_ms - d.from_ms > 3600000 AND d.from_ms < (c.hour + 1) * 3600000 AND c.hour * 3600000 < d.to_ms);
CREATE OR REPLACE TEMP TABLE bill_stops AS
WITH billed AS (
    SELECT h.node_id, h.hour, h.from_ms, sum(b.instance_hours) * 3600000 AS billed_ms
    FROM bridged_hours AS h
    JOIN billed_hours AS b ON b.instance_key = h.instance_key AND b.from_ms < (h.hour + 1) * 3600000 AND h.hour * 3600000 < b.to_ms
    GROUP BY ALL
),
-- for a machine that was registered again, include the other nodes' time
seen AS (
    SELECT h.node_id, h.hour, h.from_ms,
        sum(least(n.up_to_ms, c.to_ms, (h.hour + 1) * 3600000) - greatest(n.up_from_ms, c.from_ms, h.hour * 3600000)) AS up_ms
    FROM bridged_hours AS h
    JOIN billed_nodes AS b USING (instance_key)
    JOIN nodes AS n ON n.node_id = b.node_id AND n.up_from_ms < (h.hour + 1) * 3600000 AND h.hour * 3600000 < n.up_to_ms
    JOIN collected AS c ON c.cluster = n.cluster AND c.from_ms < least(n.up_to_ms, (h.hour + 1) * 3600000) AND greatest(n.up_from_ms, h.hour * 3600000) < c.to_ms
    GROUP BY ALL
),
bridged AS (
    SELECT *, sum(to_ms - from_ms) OVER (PARTITION BY instance_key, hour) AS bridged_ms FROM bridged_hours
),
ran AS (
    SELECT h.*, s.to_ms AS boot_ms,
        h.to_ms - h.from_ms - least(h.to_ms - h.from_ms,
            greatest(0, coalesce(b.billed_ms, 0) - (coalesce(n.up_ms, 0) - h.bridged_ms)) * ((h.to_ms - h.from_ms) / h.bridged_ms))::BIGINT AS stopped_ms
    FROM bridged AS h
    LEFT JOIN billed AS b USING (node_id, hour, from_ms)
    LEFT JOIN seen AS n USING (node_id, hour, from_ms)
    LEFT JOIN node_stops AS s ON s.node_id = h.node_id AND h.from_ms < s.to_ms AND s.to_ms <= h.to_ms
    -- a bill with less of an hour than its collected time is incomplete
    WHERE coalesce(n.up_ms, 0) - h.bridged_ms <= coalesce(b.billed_ms, 0) + 600000
)
-- it was off at the end of the hour in which it stopped, and at the beginning of the hour in which it booted
SELECT node_id, CASE WHEN boot_ms IS NULL THEN to_ms - stopped_ms ELSE from_ms END AS from_ms,
    CASE WHEN boot_ms IS NULL THEN to_ms ELSE from_ms + stopped_ms END AS to_ms, 'bill' AS reason
FROM ran
-- clocks and scrapes differ from bills a little
WHERE stopped_ms > CASE WHEN boot_ms IS NULL THEN 600000 ELSE 0 END;
DELETE FROM node_stops AS s
WHERE EXISTS (FROM bridged_hours AS h WHERE h.node_id = s.node_id AND h.from_ms < s.to_ms AND s.from_ms < h.to_ms);
INSERT INTO node_stops BY NAME FROM bill_stops;
