-- reads: rows_to_save, the relation of that name in the calling function; $path
-- writes: a Parquet file
-- invariant: rows keep their order, whatever the number of threads
COPY (FROM rows_to_save) TO $path (FORMAT parquet, COMPRESSION zstd);
