-- reads: calls, known_calls
-- writes: new_calls, the calls that no other file told of: of several files, and of several rows, the first counts
-- invariant: no two rows have one key
CREATE OR REPLACE TEMP TABLE new_calls AS
SELECT * EXCLUDE (wrong, value)
FROM calls ANTI JOIN known_calls USING (key)
QUALIFY row_number() OVER (PARTITION BY key ORDER BY file, row) = 1;
