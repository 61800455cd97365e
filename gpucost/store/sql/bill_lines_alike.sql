-- reads: some_lines, other_lines (temporary): the rows of two versions of a bill
-- writes: nothing; returns counts of charges that both versions contain equally (all rows of one are in the other) or differently, of charges that only one contains in the common time, and of machine hours that both contain as different charges that exceed the possible hours
-- invariant: additional rows in one version, such as a correction, are not a difference
WITH ones AS (
    SELECT charge_key, detail, list(DISTINCT row_digest) AS digests FROM some_lines WHERE row_digest IS NOT NULL GROUP BY ALL
), others AS (
    SELECT charge_key, detail, list(DISTINCT row_digest) AS digests FROM other_lines WHERE row_digest IS NOT NULL GROUP BY ALL
), alone AS (
    SELECT *, true AS is_some FROM some_lines ANTI JOIN other_lines USING (charge_key, detail)
    UNION ALL
    SELECT *, false FROM other_lines ANTI JOIN some_lines USING (charge_key, detail)
), spans AS (
    -- A month's tax does not define the time that a version covers.
    SELECT coalesce(min(charge_period_start) FILTER (is_short), min(charge_period_start)) AS earliest,
           coalesce(max(charge_period_start) FILTER (is_short), max(charge_period_start)) AS latest
    FROM (SELECT *, 1 AS side FROM some_lines UNION ALL SELECT *, 2 FROM other_lines)
    GROUP BY side
), shared_time AS (
    SELECT max(earliest) AS earliest, min(latest) AS latest FROM spans
), machines AS (
    SELECT instance_key
    FROM alone
    WHERE instance_key IS NOT NULL AND instance_hours IS NOT NULL
    GROUP BY instance_key, charge_period_start, charge_period_end
    HAVING count(DISTINCT is_some) = 2 AND sum(instance_hours) > 1.001 * date_diff('second', charge_period_start, charge_period_end) / 3600
)
SELECT count(*) FILTER (contained) AS alike, count(*) FILTER (NOT contained) AS otherwise,
       (SELECT count(*) FROM alone, shared_time WHERE is_some AND charge_period_start BETWEEN earliest AND latest) AS alone_in_some,
       (SELECT count(*) FROM alone, shared_time WHERE NOT is_some AND charge_period_start BETWEEN earliest AND latest) AS alone_in_other,
       (SELECT count(*) FROM machines) AS machine_hours
FROM (
    SELECT list_has_all(ones.digests, others.digests) OR list_has_all(others.digests, ones.digests) AS contained
    FROM ones
    JOIN others USING (charge_key, detail)
);
