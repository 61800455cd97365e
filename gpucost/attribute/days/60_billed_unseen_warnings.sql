-- reads: billed_hours, billed_nodes, nodes, coverage_gaps, settings
-- writes: warnings (stored), one row per cluster and month: machines with GPUs of its accounts that are no node, and were billed only while nothing was collected of it
-- invariant: a machine that was billed for more than 10 minutes of collected time is not the cluster's: metrics would tell of it
INSERT INTO warnings BY NAME
WITH accounts AS (
    SELECT DISTINCT n.cluster, h.provider, h.account
    FROM billed_hours AS h JOIN billed_nodes AS b USING (instance_key) JOIN nodes AS n USING (node_id)
),
strangers AS (
    SELECT a.cluster, h.instance_key, h.from_ms, h.to_ms, sum(h.instance_hours) AS hours, sum(h.effective_cost * h.rate) AS cost
    FROM billed_hours AS h
    JOIN accounts AS a ON a.provider = h.provider AND a.account IS NOT DISTINCT FROM h.account
    ANTI JOIN billed_nodes AS b ON b.instance_key = h.instance_key
    GROUP BY ALL
),
missed AS (
    SELECT p.cluster, p.from_ms, p.to_ms, sum(least(p.to_ms, g.to_ms) - greatest(p.from_ms, g.from_ms)) AS missed_ms
    FROM (SELECT DISTINCT cluster, from_ms, to_ms FROM strangers) AS p
    JOIN coverage_gaps AS g ON g.cluster = p.cluster AND g.kind IN ('not_collected', 'off') AND g.from_ms < p.to_ms AND p.from_ms < g.to_ms
    GROUP BY ALL
),
unseen AS (
    SELECT s.*
    FROM strangers AS s LEFT JOIN missed AS m USING (cluster, from_ms, to_ms)
    QUALIFY bool_and(s.hours * 3600000 <= coalesce(m.missed_ms, 0) + 600000) OVER (PARTITION BY s.cluster, s.instance_key)
)
SELECT 'billed_unseen' AS code, cluster, cluster AS subject, min(from_ms) AS from_ms, max(to_ms) AS to_ms,
    format('{} with GPUs {} billed only while nothing was collected of cluster {}: {:.1f} hours and {:.2f} {} between {}Z and {}Z are in no row',
        CASE count(DISTINCT instance_key) WHEN 1 THEN 'one machine' ELSE count(DISTINCT instance_key) || ' machines' END,
        CASE count(DISTINCT instance_key) WHEN 1 THEN 'was' ELSE 'were' END,
        cluster, sum(hours), coalesce(sum(cost), 0)::DOUBLE, any_value(c.currency),
        strftime(epoch_ms(min(from_ms)), '%Y-%m-%dT%H:%M'), strftime(epoch_ms(max(to_ms)), '%Y-%m-%dT%H:%M')) AS message,
    'gpucost reconcile lists them: they may be the cluster''s' AS fix
FROM unseen CROSS JOIN settings AS c
GROUP BY cluster, date_trunc('month', epoch_ms(from_ms));
