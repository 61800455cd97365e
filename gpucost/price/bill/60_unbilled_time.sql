-- reads: coverage_gaps, billed_hours, billed_nodes, nodes, collected, bills, bill_rows
-- writes: coverage_gaps (stored): hours that were not collected, that the bills of the cluster's accounts cover, and in which they hold no GPU machine, are 'off'
-- invariant: what was neither collected nor billed for 10 minutes of any machine is off; all else stays
CREATE OR REPLACE TEMP TABLE gaps_before AS FROM coverage_gaps WHERE kind = 'not_collected' AND cluster IN (
    SELECT n.cluster FROM billed_nodes AS b JOIN nodes AS n USING (node_id));
CREATE OR REPLACE TEMP TABLE gaps_after AS
WITH accounts AS (
    SELECT DISTINCT n.cluster, h.provider, h.account
    FROM billed_hours AS h JOIN billed_nodes AS b USING (instance_key) JOIN nodes AS n USING (node_id)
    WHERE n.cluster IN (SELECT cluster FROM gaps_before)
),
covered AS (
    SELECT a.cluster, a.provider, a.account, epoch_ms(min(r.charge_period_start)) // 3600000 AS from_hour, epoch_ms(max(r.charge_period_end)) // 3600000 AS to_hour
    FROM bill_rows AS r
    JOIN bills AS b USING (bill_id)
    JOIN accounts AS a ON a.provider = b.provider AND a.account IS NOT DISTINCT FROM coalesce(r.sub_account_id, r.billing_account_id)
    GROUP BY a.cluster, a.provider, a.account, b.billing_period
),
hours AS (
    SELECT c.cluster, unnest(range(c.from_hour, c.to_hour)) AS hour FROM covered AS c
),
covered_hours AS (
    SELECT h.cluster, h.hour FROM hours AS h
    GROUP BY h.cluster, h.hour
    HAVING count(*) >= (SELECT count(*) FROM accounts AS a WHERE a.cluster = h.cluster)
),
missed AS (
    SELECT g.cluster, g.from_ms AS gap_ms, c.hour, greatest(g.from_ms, c.hour * 3600000) AS from_ms, least(g.to_ms, (c.hour + 1) * 3600000) AS to_ms
    FROM gaps_before AS g
    JOIN covered_hours AS c ON c.cluster = g.cluster AND c.hour * 3600000 < g.to_ms AND g.from_ms < (c.hour + 1) * 3600000
),
-- machines of the cluster, and those that are nobody's: they may be its own
machines AS (
    SELECT DISTINCT a.cluster, h.instance_key, h.from_ms, h.to_ms
    FROM billed_hours AS h
    JOIN accounts AS a ON a.provider = h.provider AND a.account IS NOT DISTINCT FROM h.account
    LEFT JOIN billed_nodes AS b USING (instance_key)
    LEFT JOIN nodes AS n USING (node_id)
    WHERE coalesce(n.cluster, a.cluster) = a.cluster AND h.instance_hours > 0
),
running AS (
    SELECT m.cluster, m.instance_key, m.from_ms, m.to_ms,
        (SELECT sum(h.instance_hours) * 3600000 FROM billed_hours AS h WHERE h.instance_key = m.instance_key AND h.from_ms = m.from_ms) AS billed_ms,
        (SELECT coalesce(sum(greatest(0, least(n.up_to_ms, c.to_ms, m.to_ms) - greatest(n.up_from_ms, c.from_ms, m.from_ms))), 0)
            FROM billed_nodes AS b JOIN nodes AS n USING (node_id) JOIN collected AS c ON c.cluster = n.cluster
            WHERE b.instance_key = m.instance_key) AS seen_ms
    FROM machines AS m
),
billed AS (
    SELECT m.cluster, m.from_ms, sum(greatest(0, r.billed_ms - r.seen_ms) * (least(r.to_ms, m.to_ms) - greatest(r.from_ms, m.from_ms)) / (r.to_ms - r.from_ms)) AS billed_ms
    FROM missed AS m JOIN running AS r ON r.cluster = m.cluster AND r.from_ms < m.to_ms AND m.from_ms < r.to_ms
    GROUP BY ALL
),
unbilled AS (
    SELECT m.* FROM missed AS m LEFT JOIN billed AS b ON b.cluster = m.cluster AND b.from_ms = m.from_ms WHERE coalesce(b.billed_ms, 0) <= 600000
),
edges AS (
    SELECT cluster, from_ms AS gap_ms, unnest([from_ms, to_ms]) AS at_ms FROM gaps_before
    UNION SELECT cluster, gap_ms, unnest([from_ms, to_ms]) FROM unbilled
),
pieces AS (
    SELECT cluster, gap_ms, at_ms AS from_ms, lead(at_ms) OVER (PARTITION BY cluster, gap_ms ORDER BY at_ms) AS to_ms FROM edges
),
marked AS (
    SELECT p.*, u.from_ms IS NOT NULL AS is_off,
        coalesce(is_off <> lag(u.from_ms IS NOT NULL) OVER (PARTITION BY p.cluster, p.gap_ms ORDER BY p.from_ms), true) AS begins
    FROM pieces AS p LEFT JOIN unbilled AS u ON u.cluster = p.cluster AND u.from_ms = p.from_ms
    WHERE p.to_ms IS NOT NULL
),
runs AS (
    SELECT *, count(*) FILTER (begins) OVER (PARTITION BY cluster, gap_ms ORDER BY from_ms) AS run FROM marked
),
joined AS (
    SELECT cluster, gap_ms, is_off, min(from_ms) AS from_ms, max(to_ms) AS to_ms FROM runs GROUP BY cluster, gap_ms, is_off, run
)
SELECT j.cluster, j.from_ms, j.to_ms, CASE WHEN j.is_off THEN 'off' ELSE g.kind END AS kind, g.families,
    CASE WHEN j.is_off THEN 'none of its machines was billed' ELSE g.reason END AS reason,
    CASE WHEN NOT j.is_off THEN g.accepted_by END AS accepted_by, CASE WHEN NOT j.is_off THEN g.accepted_why END AS accepted_why
FROM joined AS j JOIN gaps_before AS g ON g.cluster = j.cluster AND g.from_ms = j.gap_ms;
DELETE FROM coverage_gaps WHERE kind = 'not_collected' AND cluster IN (SELECT cluster FROM gaps_before);
INSERT INTO coverage_gaps BY NAME FROM gaps_after;
