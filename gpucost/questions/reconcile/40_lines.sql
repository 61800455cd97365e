-- reads: machine_parts
-- writes: nothing; returns each line and its cost
-- invariant: the lines add up to the effective cost of all machine hours
SELECT line, sum(cost) AS cost FROM machine_parts GROUP BY ALL ORDER BY line;
