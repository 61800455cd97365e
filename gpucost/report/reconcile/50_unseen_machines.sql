-- reads: machine_hours
-- writes: nothing; answers the billed machines that no metrics saw, the dearest first
-- invariant: none of them is a node; their costs, at their pool's price, add up to the line instances_without_metrics
SELECT provider, billed_name AS instance_key, any_value(instance_type) AS instance_type, sum(instance_hours) AS instance_hours, coalesce(sum((price_per_hour * instance_hours)::DECIMAL(38, 9)), 0) AS cost
FROM machine_hours
WHERE NOT has_node
GROUP BY ALL
ORDER BY cost DESC, instance_key;
