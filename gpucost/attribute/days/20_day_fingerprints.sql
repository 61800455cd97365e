-- reads: local_days, unseen_time, absences, loads, cuts, nodes, node_stops, node_prices, collected, allocations, allocation_devices, node_devices, profile_devices, told_activity, allocation_teams, allocation_hosts, node_hosts, basis_spans
-- writes: day_fingerprints, one row per local day: a digest of all inputs of its cells
-- invariant: rows are clipped to the day, so that only events of the day (or, for samples, close to it) change it
CREATE OR REPLACE TEMP TABLE day_fingerprints AS
WITH held AS (
    SELECT d.from_ms AS day_ms, d.to_ms AS day_to_ms, a.*,
        greatest(a.held_from_ms, d.from_ms) AS from_ms, least(a.held_to_ms, d.to_ms) AS to_ms
    FROM allocations AS a JOIN local_days AS d ON a.held_from_ms < d.to_ms AND d.from_ms < a.held_to_ms
),
inputs AS (
    SELECT day_ms, hash('held', allocation_id, node_id, gpus, from_ms, to_ms) AS input FROM held
    UNION ALL
    -- the loads below cover how a device was scraped
    SELECT h.day_ms, hash('device', h.allocation_id, v.device_id, v.weight)
    FROM held AS h JOIN allocation_devices AS v USING (allocation_id)
    UNION ALL
    -- the unit of a series, if it differs from the metric's usual one: a later sample may prove it
    SELECT h.day_ms, hash('scale', h.allocation_id, n.series_id, n.scale)
    FROM (
        FROM (SELECT series_id, device_id, scale, usual_scale, first_ms, end_ms FROM node_devices UNION ALL SELECT * EXCLUDE (measure) FROM profile_devices)
        WHERE scale IS DISTINCT FROM usual_scale) AS n
    JOIN allocation_devices AS v USING (device_id)
    JOIN held AS h ON h.allocation_id = v.allocation_id AND h.from_ms < n.end_ms AND n.first_ms < h.to_ms
    UNION ALL
    SELECT h.day_ms, hash('told', h.allocation_id, t.utilization) FROM held AS h JOIN told_activity AS t USING (allocation_id)
    UNION ALL
    SELECT h.day_ms, hash('team', h.allocation_id, t.team, greatest(t.from_ms, h.from_ms - 3600000), least(t.to_ms, h.to_ms))
    FROM held AS h
    JOIN allocation_teams AS t ON t.allocation_id = h.allocation_id AND t.from_ms < h.to_ms AND h.from_ms - 3600000 < t.to_ms
    UNION ALL
    SELECT h.day_ms, hash('request', r.allocation_id, r.part, r.units) FROM held AS h JOIN allocation_hosts AS r USING (allocation_id)
    UNION ALL
    SELECT d.from_ms, hash('split', s.node_id, s.gpu_fraction, s.cpu_fraction, n.part, n.units,
        greatest(s.from_ms, d.from_ms), least(s.to_ms, d.to_ms))
    FROM basis_spans AS s
    JOIN node_hosts AS n USING (node_id)
    JOIN local_days AS d ON s.from_ms < d.to_ms AND d.from_ms < s.to_ms
    UNION ALL
    SELECT d.from_ms, hash('node', n.node_id, n.gpu_count, greatest(n.up_from_ms, d.from_ms), least(n.up_to_ms, d.to_ms))
    FROM nodes AS n JOIN local_days AS d ON n.up_from_ms < d.to_ms AND d.from_ms < n.up_to_ms
    UNION ALL
    SELECT d.from_ms, hash('stop', s.node_id, greatest(s.from_ms, d.from_ms), least(s.to_ms, d.to_ms))
    FROM node_stops AS s JOIN local_days AS d ON s.from_ms < d.to_ms AND d.from_ms < s.to_ms
    UNION ALL
    SELECT d.from_ms, hash('absence', a.node_id, a.cause, a.gpus, greatest(a.from_ms, d.from_ms), least(a.to_ms, d.to_ms))
    FROM absences AS a JOIN local_days AS d ON a.from_ms < d.to_ms AND d.from_ms < a.to_ms
    UNION ALL
    SELECT d.from_ms, hash('price', p.node_id, p.price_per_hour, p.price_source, p.price_as_of,
        greatest(p.from_ms, d.from_ms), least(p.to_ms, d.to_ms))
    FROM node_prices AS p JOIN local_days AS d ON p.from_ms < d.to_ms AND d.from_ms < p.to_ms
    UNION ALL
    SELECT d.from_ms, hash('collected', c.cluster, greatest(c.from_ms, d.from_ms), least(c.to_ms, d.to_ms))
    FROM collected AS c JOIN local_days AS d ON c.from_ms < d.to_ms AND d.from_ms < c.to_ms
    UNION ALL
    SELECT d.from_ms, hash('unseen', u.node_id, u.price_per_hour, u.price_as_of, u.up_ratio, greatest(u.from_ms, d.from_ms), least(u.to_ms, d.to_ms))
    FROM unseen_time AS u JOIN local_days AS d ON u.from_ms < d.to_ms AND d.from_ms < u.to_ms
    UNION ALL
    -- three hours on either side, as in 66_device_hours: a sample may be valid into the next hour, the next one ends
    -- it, and neighboring hours give the scrape interval
    SELECT d.from_ms, hash('load', l.load_id)
    FROM loads AS l JOIN local_days AS d ON l.from_ms - 10800000 < d.to_ms AND d.from_ms < l.to_ms + 10800000
    -- the prices above cover other loads
    WHERE l.kind IN ('prometheus', 'slurm')
    UNION ALL
    SELECT d.from_ms, hash('cut', c.at_ms) FROM cuts AS c JOIN local_days AS d ON d.from_ms < c.at_ms AND c.at_ms < d.to_ms
)
SELECT d.from_ms, d.to_ms, hash(coalesce(sum(i.input), 0)) AS fingerprint
FROM local_days AS d LEFT JOIN inputs AS i ON i.day_ms = d.from_ms
GROUP BY ALL;
