-- reads: nodes, node_hosts, node_splits, request_gaps, collected
-- writes: warnings (stored), about node prices that are not split by the cost basis, with the reason
-- invariant: names the kind of node or the cluster, and the time
INSERT INTO warnings BY NAME
WITH alike AS (
    SELECT n.*, s.is_fallback, coalesce(n.instance_type, n.gpu_model, 'unnamed type') AS subject,
        (SELECT count(*) FROM node_hosts AS h WHERE h.node_id = n.node_id) = 2 AS sized
    FROM nodes AS n LEFT JOIN node_splits AS s USING (node_id)
    WHERE s.is_fallback IS DISTINCT FROM false
)
SELECT 'basis_fallback' AS code, NULL AS cluster, subject, min(up_from_ms) AS from_ms, max(up_to_ms) AS to_ms,
    CASE
        WHEN is_fallback THEN 'prices of cores and memory are missing for ' || subject || ': split by those of an A2 host in us-central1'
        WHEN NOT sized THEN 'cores or memory of ' || subject || ' are unknown: the GPUs carry the whole price of these nodes'
        ELSE 'the on-demand list price of ' || subject || ' is missing: the GPUs carry the whole price of these nodes'
    END AS message,
    CASE
        WHEN is_fallback THEN 'gpucost collect prices, if the cloud sells them separately'
        WHEN NOT sized THEN 'export kube_node_status_capacity from kube-state-metrics'
        ELSE 'gpucost collect prices, or cost_basis = "opencost" or "scad" under [prices]'
    END AS fix
FROM alike
GROUP BY subject, is_fallback, sized
UNION ALL
SELECT 'basis_needs_requests', g.cluster, g.cluster, min(greatest(g.from_ms, c.from_ms)), max(least(g.to_ms, c.to_ms)),
    'requests of CPU and memory were not collected for cluster ' || g.cluster || ' between '
        || strftime(epoch_ms(min(greatest(g.from_ms, c.from_ms))), '%Y-%m-%dT%H:%M') || 'Z and '
        || strftime(epoch_ms(max(least(g.to_ms, c.to_ms))), '%Y-%m-%dT%H:%M')
        || 'Z: without them, the GPUs carry the whole price of a node',
    'gpucost collect prometheus --from ' || strftime(epoch_ms(min(greatest(g.from_ms, c.from_ms))), '%Y-%m-%dT%H:%MZ')
        || ' --to ' || strftime(epoch_ms(max(least(g.to_ms, c.to_ms))), '%Y-%m-%dT%H:%MZ')
FROM request_gaps AS g
JOIN collected AS c ON c.cluster = g.cluster AND c.from_ms < g.to_ms AND g.from_ms < c.to_ms
GROUP BY g.cluster;
