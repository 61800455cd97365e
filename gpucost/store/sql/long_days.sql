-- reads: told_rows (temporary view): the rows of the sides of a comparison; shared_cells (temporary)
-- writes: shared_cells (temporary): one more row per side, or pair of sides without shared cells, with a machine billed for more than 24 hours of a UTC day: the most expensive machine, its days and hours
-- invariant: only machines that the bill names individually; each format separately, because formats report the same
-- hours differently
INSERT INTO shared_cells BY NAME
WITH machine_days AS (
    SELECT max(side) AS one, min(side) AS other, format, instance_key AS machine, min(billing_currency) AS currency, date_trunc('day', charge_period_start) AS day,
        sum(instance_hours) AS hours, sum(effective_cost) AS cost
    FROM told_rows
    WHERE kind = 'instance' AND regexp_matches(instance_key, '^i-[0-9a-f]+$|/virtualmachines/') AND charge_class IS DISTINCT FROM 'Correction'
        AND charge_period_end <= charge_period_start + INTERVAL 1 DAY
    GROUP BY ALL
    HAVING sum(instance_hours) > 24.024
)
SELECT one, other, sum(cost) AS one_cost, NULL AS other_cost, min(currency) AS currency, list_sort(list(day)) AS days, machine, max(hours) AS hours, 1 AS part
FROM machine_days
ANTI JOIN shared_cells USING (one, other)
GROUP BY one, other, machine
QUALIFY row_number() OVER (PARTITION BY one, other ORDER BY one_cost DESC, machine) = 1;
