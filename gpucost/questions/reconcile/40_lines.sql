-- reads: machine_parts; $by the dimensions asked for: day, node, team
-- writes: nothing; answers line, the dimensions (null where not asked for) and cost
-- invariant: sums over the lines are the same with any $by
SELECT line,
    CASE WHEN list_contains($by::VARCHAR[], 'day') THEN day::VARCHAR END AS day,
    CASE WHEN list_contains($by::VARCHAR[], 'node') THEN node END AS node,
    CASE WHEN list_contains($by::VARCHAR[], 'team') THEN team END AS team,
    sum(cost) AS cost
FROM machine_parts
GROUP BY ALL
ORDER BY day NULLS FIRST, node NULLS FIRST, line, cost DESC, team;
