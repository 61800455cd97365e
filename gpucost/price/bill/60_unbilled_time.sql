-- reads: coverage_gaps, billed_hours, billed_nodes, nodes, collected, billed_accounts, covered_hours
-- writes: gaps_before, gaps_after, coverage_gaps (stored): hours that were not collected are 'off' if the bills of all the cluster's accounts cover them without a GPU machine, unless a node without a bill was up before or after
-- invariant: time that was neither collected nor billed for 10 minutes of any machine is off; all else stays
CREATE OR REPLACE TEMP TABLE gaps_before AS FROM coverage_gaps WHERE kind = 'not_collected' AND cluster IN (
    SELECT n.cluster FROM billed_nodes AS b JOIN nodes AS n USING (node_id));
CREATE OR REPLACE TEMP TABLE gaps_after AS
WITH
-- gaps with a node without a bill at one end: no bill shows whether it ran
ends AS (
    SELECT g.cluster, g.from_ms AS gap_ms, coalesce(max(c.to_ms) FILTER (c.to_ms <= g.from_ms), g.from_ms) AS seen_to_ms,
        coalesce(min(c.from_ms) FILTER (c.from_ms >= g.to_ms), g.to_ms) AS seen_from_ms
    FROM gaps_before AS g LEFT JOIN collected AS c USING (cluster)
    GROUP BY g.cluster, g.from_ms, g.to_ms
),
unpriced AS (
    SELECT DISTINCT e.cluster, e.gap_ms
    FROM ends AS e
    JOIN nodes AS n ON n.cluster = e.cluster AND n.up_from_ms - 600000 <= e.seen_from_ms AND n.up_to_ms + 600000 >= e.seen_to_ms
    WHERE n.node_id NOT IN (SELECT node_id FROM billed_nodes)
),
missed AS (
    SELECT g.cluster, g.from_ms AS gap_ms, c.hour, greatest(g.from_ms, c.hour * 3600000) AS from_ms, least(g.to_ms, (c.hour + 1) * 3600000) AS to_ms
    FROM gaps_before AS g
    JOIN covered_hours AS c ON c.cluster = g.cluster AND c.hour * 3600000 < g.to_ms AND g.from_ms < (c.hour + 1) * 3600000
    WHERE (g.cluster, g.from_ms) NOT IN (SELECT (cluster, gap_ms) FROM unpriced)
),
owners AS (
    SELECT DISTINCT b.instance_key, n.cluster FROM billed_nodes AS b JOIN nodes AS n USING (node_id)
),
-- machines of the cluster, and machines without an owner, which may be its own
machines AS (
    SELECT a.cluster, h.instance_key, h.from_ms, h.to_ms, sum(h.instance_hours) * 3600000 AS billed_ms
    FROM billed_hours AS h
    JOIN billed_accounts AS a ON a.provider = h.provider AND a.account IS NOT DISTINCT FROM h.account
    JOIN (SELECT min(from_ms) AS from_ms, max(to_ms) AS to_ms FROM missed) AS m ON h.from_ms < m.to_ms AND m.from_ms < h.to_ms
    LEFT JOIN owners AS o USING (instance_key)
    WHERE coalesce(o.cluster, a.cluster) = a.cluster AND h.instance_hours > 0
    GROUP BY a.cluster, h.instance_key, h.from_ms, h.to_ms
),
-- charge periods by hour: pairs of hours and machines' hours would be too many
periods AS (
    SELECT *, unnest(range(from_ms // 3600000, (to_ms - 1) // 3600000 + 1)) AS hour FROM (SELECT DISTINCT cluster, from_ms, to_ms FROM machines)
),
shares AS (
    SELECT p.cluster, p.from_ms, p.to_ms, m.from_ms AS missed_ms, (least(p.to_ms, m.to_ms) - greatest(p.from_ms, m.from_ms)) / (p.to_ms - p.from_ms) AS share
    FROM periods AS p JOIN missed AS m USING (cluster, hour)
    WHERE p.from_ms < m.to_ms AND m.from_ms < p.to_ms
),
seen AS (
    SELECT b.instance_key, greatest(n.up_from_ms, c.from_ms) AS from_ms, least(n.up_to_ms, c.to_ms) AS to_ms,
        coalesce(n.gpu_count / n.machine_gpus, 1) AS machine_share
    FROM billed_nodes AS b
    JOIN nodes AS n USING (node_id)
    JOIN collected AS c ON c.cluster = n.cluster AND c.from_ms < n.up_to_ms AND n.up_from_ms < c.to_ms
),
running AS (
    SELECT m.cluster, m.from_ms, m.to_ms,
        greatest(0, m.billed_ms - coalesce(sum((least(s.to_ms, m.to_ms) - greatest(s.from_ms, m.from_ms)) * s.machine_share) FILTER (s.to_ms IS NOT NULL), 0)) AS unseen_ms
    FROM machines AS m
    SEMI JOIN shares AS h ON h.cluster = m.cluster AND h.from_ms = m.from_ms AND h.to_ms = m.to_ms
    LEFT JOIN seen AS s ON s.instance_key = m.instance_key AND s.from_ms < m.to_ms AND m.from_ms < s.to_ms
    GROUP BY m.cluster, m.instance_key, m.from_ms, m.to_ms, m.billed_ms
),
summed AS (
    SELECT cluster, from_ms, to_ms, sum(unseen_ms) AS unseen_ms FROM running GROUP BY cluster, from_ms, to_ms
),
billed AS (
    SELECT cluster, s.missed_ms AS from_ms, sum(r.unseen_ms * s.share) AS billed_ms
    FROM shares AS s JOIN summed AS r USING (cluster, from_ms, to_ms)
    GROUP BY cluster, s.missed_ms
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
