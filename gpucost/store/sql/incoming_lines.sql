-- reads: charges_read (the mapped rows of a load), bill_lines, bill_details
-- writes: charges_split (temporary view): the mapped rows with detail_id, a digest of the columns that bill_lines lacks; bill_lines: those rows, under a new batch_id; first_rows (temporary): the first row of each detail_id
-- invariant: rows with different details have different detail_ids; lacking counts rows without values required of
-- every line
SET VARIABLE batch_id = (SELECT coalesce(max(batch_id), 0) + 1 FROM bill_details)::INTEGER;
SET VARIABLE line_columns = (SELECT list(name) FROM pragma_table_info('bill_lines'));

CREATE OR REPLACE TEMP VIEW charges_split AS
SELECT * EXCLUDE (label_digest),
    -- label_digest represents the maps, which are built for the first rows only.
    hash(*COLUMNS(lambda name: NOT list_contains(getvariable('line_columns') || ['tags', 'cost_categories'], name))) AS detail_id
FROM charges_read;

INSERT INTO bill_lines BY NAME
SELECT getvariable('batch_id') AS batch_id, COLUMNS(lambda name: list_contains(getvariable('line_columns'), name))
FROM charges_split;

CREATE OR REPLACE TEMP TABLE first_rows AS
SELECT detail_id, min(source_row) AS source_row, count(*) AS rows, coalesce(bool_and(billed_cost = 0), false) AS is_free,
    count(*) FILTER (coalesce(charge_period_end < charge_period_start, true) OR billed_cost IS NULL OR effective_cost IS NULL
        OR (instance_hours < 0 AND effective_cost > 0)) AS lacking
FROM bill_lines
WHERE batch_id = getvariable('batch_id')
GROUP BY detail_id;
