-- reads: azure_rows
-- writes: azure_bases: of which cost each file is: 'actual', 'amortized', or 'cost' where nothing tells them apart
-- invariant: one row per file
CREATE OR REPLACE TEMP TABLE azure_bases AS
WITH files AS (
    -- An amortized export has the unused rest of commitments and charges covered usage its share; an actual one has their
    -- purchases, and covered usage costs nothing. A name is asked only where the content says nothing.
    SELECT
        source_file,
        regexp_extract(source_file, '^(.*[/\\])?', 0) AS directory,
        CASE
            WHEN bool_or(charge_type LIKE 'unused%') THEN 'amortized'
            WHEN bool_or(charge_type IN ('purchase', 'refund') AND is_committed) THEN 'actual'
            WHEN bool_or(charge_type = 'usage' AND is_committed AND cost <> 0) THEN 'amortized'
            WHEN bool_or(charge_type = 'usage' AND is_committed AND cost = 0 AND quantity > 0) THEN 'actual'
            WHEN source_file ILIKE '%amortized%' THEN 'amortized'
        END AS told
    FROM azure_rows GROUP BY source_file
)
-- An export comes in several files of one directory: a part without commitments is of the kind that the others are of.
SELECT
    source_file,
    coalesce(told, CASE WHEN count(DISTINCT told) OVER (PARTITION BY directory) = 1
        THEN max(told) OVER (PARTITION BY directory) END, 'cost') AS basis
FROM files;
