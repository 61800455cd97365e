-- reads: machine_hours
-- writes: nothing; answers effective cost, hours and machines of the billing period, and hours that lack their cost, or a part of it
-- invariant: one row
SELECT coalesce(sum(effective_cost), 0) AS effective_cost, coalesce(sum(instance_hours), 0) AS instance_hours, count(DISTINCT instance_key) AS machines,
    coalesce(sum(instance_hours) FILTER (is_unexplained), 0) AS unexplained_hours
FROM machine_hours;
