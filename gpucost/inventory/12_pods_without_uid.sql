-- reads: state_intervals, unnamed_samples
-- writes: incarnations, one row per pod whose name some series give without its uid: (cluster, namespace, pod, node, start), its known or made-up uid, and the span of its samples; state_intervals, rows without uid: one per matching pod, clipped to it
-- invariant: rows of one name cover all time without overlap; each ends at its own last sample. A new one begins when the start changes; without exported starts, with another node or after ten minutes without samples; every fact about a pod of a known name has a uid
-- only with: unnamed_samples
-- otherwise: incarnations (cluster VARCHAR, namespace VARCHAR, pod VARCHAR, is_given BOOLEAN, from_ms BIGINT, to_ms BIGINT, uid VARCHAR)
CREATE OR REPLACE TEMP TABLE incarnations AS
WITH names AS MATERIALIZED (
    SELECT DISTINCT cluster, namespace, pod FROM unnamed_samples
),
named AS MATERIALIZED (
    SELECT f.* FROM state_intervals AS f JOIN names USING (cluster, namespace, pod)
    WHERE f.metric IN ('kube_pod_status_scheduled_time', 'kube_pod_start_time', 'kube_pod_info')
),
dated AS (
    SELECT cluster, namespace, pod, metric, round(value * 1000)::BIGINT AS start_ms, max(uid) AS uid,
        min(first_ms) AS first_ms, max(last_ms) AS last_ms
    FROM named
    WHERE metric <> 'kube_pod_info'
    GROUP BY cluster, namespace, pod, metric, start_ms
    -- both are nearly equal: when it was bound, and when the kubelet noticed
    QUALIFY metric = max(metric) OVER (PARTITION BY cluster, namespace, pod)
),
bound AS (
    SELECT *, coalesce(node <> lag(node) OVER w OR first_ms - lag(last_ms) OVER w > 600000, true) AS begins
    FROM named
    WHERE metric = 'kube_pod_info' AND coalesce(node, '') <> '' AND (cluster, namespace, pod) NOT IN (SELECT (cluster, namespace, pod) FROM dated)
    WINDOW w AS (PARTITION BY cluster, namespace, pod ORDER BY first_ms, last_ms)
),
numbered AS (
    SELECT *, sum(begins::INTEGER) OVER (PARTITION BY cluster, namespace, pod ORDER BY first_ms, last_ms) AS number FROM bound
),
starts AS (
    SELECT cluster, namespace, pod, start_ms, uid, first_ms, last_ms FROM dated
    UNION ALL
    SELECT cluster, namespace, pod, min(first_ms), max(uid), min(first_ms), max(last_ms)
    FROM numbered
    GROUP BY cluster, namespace, pod, number
),
spans AS (
    SELECT *, coalesce(lag(last_ms) OVER w + 1, 0) AS from_ms,
        CASE WHEN lead(last_ms) OVER w IS NULL THEN 9223372036854775807 ELSE last_ms + 1 END AS to_ms
    FROM starts
    WINDOW w AS (PARTITION BY cluster, namespace, pod ORDER BY start_ms)
),
placed AS (
    SELECT s.cluster, s.namespace, s.pod, s.start_ms, s.uid, s.from_ms, s.to_ms, arg_max(n.node, n.last_ms) AS node
    FROM spans AS s
    LEFT JOIN named AS n
        ON n.cluster = s.cluster AND n.namespace = s.namespace AND n.pod = s.pod AND n.metric = 'kube_pod_info' AND n.node <> ''
        AND n.first_ms <= s.last_ms AND s.first_ms <= n.last_ms
    GROUP BY ALL
)
SELECT cluster, namespace, pod, uid IS NULL AS is_given, from_ms, to_ms,
    coalesce(uid, concat_ws('/', namespace, pod, node, strftime(epoch_ms(start_ms), '%Y-%m-%dT%H:%M:%SZ'))) AS uid
FROM placed;

INSERT INTO state_intervals
SELECT f.* REPLACE (
    coalesce(i.uid, f.namespace || '/' || f.pod) AS uid,
    greatest(f.first_ms, i.from_ms) - (f.first_ms - f.begin_ms) AS begin_ms,
    greatest(f.first_ms, i.from_ms) AS first_ms,
    least(f.last_ms, i.to_ms - 1) AS last_ms,
    least(f.last_ms, i.to_ms - 1) + (f.end_ms - f.last_ms) AS end_ms
)
FROM unnamed_samples AS f
LEFT JOIN incarnations AS i
    ON i.cluster = f.cluster AND i.namespace = f.namespace AND i.pod = f.pod AND i.from_ms <= f.last_ms AND f.first_ms < i.to_ms;
DELETE FROM state_intervals WHERE uid IS NULL AND namespace IS NOT NULL AND pod IS NOT NULL AND starts_with(metric, 'kube_pod_');
