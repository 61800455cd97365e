-- reads: node_lives, device_series, device_places, device_pods
-- writes: node_devices, one row per activity series and node life it was measured on, with device_id for (node, UUID, MIG instance)
-- invariant: a series stands on one name at a time; a device_id belongs to one node life
INSERT INTO node_devices BY NAME
WITH placed AS MATERIALIZED (
    SELECT p.series_id, n.node_id, n.up_from_ms, n.up_to_ms
    FROM (FROM device_places UNION ALL FROM device_pods) AS p
    JOIN node_lives AS n USING (cluster, node)
)
SELECT d.*, p.node_id, p.up_from_ms, p.up_to_ms, hash(p.node_id, d.uuid, d.gpu_instance_id) AS device_id
FROM device_series AS d JOIN placed AS p USING (series_id)
WHERE d.first_ms < p.up_to_ms AND p.up_from_ms <= d.last_ms;
