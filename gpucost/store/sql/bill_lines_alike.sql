-- reads: some_lines, other_lines (temporary): charge_key, detail and row_digest of two tellings of a bill
-- writes: nothing; answers how many charges both tell of alike (all rows of one among the other's), and how many otherwise
-- invariant: what one adds to the same rows, such as a correction, makes them no different
WITH ones AS (
    SELECT charge_key, detail, list(DISTINCT row_digest) AS digests FROM some_lines WHERE row_digest IS NOT NULL GROUP BY ALL
), others AS (
    SELECT charge_key, detail, list(DISTINCT row_digest) AS digests FROM other_lines WHERE row_digest IS NOT NULL GROUP BY ALL
)
SELECT count(*) FILTER (contained) AS alike, count(*) FILTER (NOT contained) AS otherwise
FROM (
    SELECT list_has_all(ones.digests, others.digests) OR list_has_all(others.digests, ones.digests) AS contained
    FROM ones
    JOIN others USING (charge_key, detail)
);
