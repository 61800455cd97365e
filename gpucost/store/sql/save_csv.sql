-- reads: rows_to_save, the relation of that name in the calling function; $path
-- writes: a CSV file
-- invariant: rows keep their order, whatever the number of threads
COPY (FROM rows_to_save) TO $path (FORMAT csv, HEADER, TIMESTAMPFORMAT '%Y-%m-%dT%H:%M:%SZ', DATEFORMAT '%Y-%m-%d');
