-- BigQuery's dialect, run there; `project.dataset.table` stands for the export's table, `columns` for those of ours that it has
-- reads: the usage cost export of one invoice month (@month), in the partitions of @since and after
-- writes: nothing; answers one JSON text per row
-- invariant: every row of the invoice: corrections are appended in later partitions, so all of them up to now are read
SELECT TO_JSON_STRING(STRUCT(columns)) AS line
FROM `project.dataset.table`
WHERE invoice.month = @month AND partition_column >= @since
