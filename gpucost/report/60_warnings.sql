-- reads: warnings; $from, $to bound the period, $clusters filters (empty: all)
-- writes: nothing; answers the warnings that concern the period, each once
-- invariant: a warning without a time or a cluster concerns every period and every cluster
SELECT code, message, fix
FROM warnings
WHERE coalesce(from_ms < $to, true) AND coalesce(to_ms > $from, true)
  AND (len($clusters::VARCHAR[]) = 0 OR cluster IS NULL OR list_contains($clusters::VARCHAR[], cluster))
GROUP BY code, message, fix
ORDER BY code, message, fix;
