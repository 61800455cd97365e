-- reads: nothing
-- writes: schema_version: empty, where it is not there yet
-- invariant: one row per applied migration; the highest version is the schema of the file
CREATE TABLE IF NOT EXISTS schema_version (
    version      INTEGER NOT NULL,
    name         VARCHAR NOT NULL,
    applied_at   TIMESTAMP NOT NULL
);
