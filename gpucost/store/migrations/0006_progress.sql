-- reads: nothing
-- writes: progress_series, progress_values, progress_runs: the raw tables of progress: units of work that were done, and the runs that did them
-- invariant: a source's values of a window are replaced as a whole; what labels mean was settled by the mapping they came by

-- The dictionary of progress series. key is a 64-bit hash of source, mapping and labels.
CREATE TABLE progress_series (
    series_id    INTEGER NOT NULL,
    key          UBIGINT NOT NULL,
    identity     UBIGINT NOT NULL,       -- the same for series that tell of the same thing: replicas of a server, a target scraped twice
    source       VARCHAR NOT NULL,
    mapping      VARCHAR NOT NULL,       -- the name of the [[units]] it came by; 'mlflow', 'file'
    unit         VARCHAR NOT NULL,       -- 'epoch', 'request', 'prompt_token', 'generation_token', ...
    kind         VARCHAR NOT NULL,       -- 'counter' (rises, falls to 0 at a restart), 'gauge' (a level), 'event' (an amount, done then)
    marks        VARCHAR NOT NULL,       -- of levels: 'end' (so many epochs are done), 'begin' (this epoch has begun)
    resumes      BOOLEAN NOT NULL,       -- of epoch counters: a restarted process counts from 0, but goes on from a checkpoint
    is_failure   BOOLEAN NOT NULL,       -- work that came to nothing
    cluster      VARCHAR,                -- null where the source does not know
    namespace    VARCHAR,
    pod          VARCHAR,                -- several are separated by commas
    workload     VARCHAR,                -- 'Kind/name', or a name alone; wins over pod
    model        VARCHAR,
    run_id       VARCHAR,                -- progress_runs.run_id, or what a label says
    labels       MAP(VARCHAR, VARCHAR) NOT NULL
);

-- Values where they change, and the first and last of each series and window, with their own moments.
CREATE TABLE progress_values (
    series_id    INTEGER NOT NULL,
    at_ms        BIGINT NOT NULL,
    value        DOUBLE NOT NULL
);

-- Runs of an experiment tracker.
CREATE TABLE progress_runs (
    source           VARCHAR NOT NULL,
    run_id           VARCHAR NOT NULL,
    parent_id        VARCHAR,            -- the sweep it is a trial of
    experiment       VARCHAR NOT NULL,
    name             VARCHAR NOT NULL,
    status           VARCHAR NOT NULL,   -- 'RUNNING', 'SCHEDULED', 'FINISHED', 'FAILED', 'KILLED'
    started_ms       BIGINT NOT NULL,
    ended_ms         BIGINT,             -- null while it runs
    cluster          VARCHAR,
    namespace        VARCHAR,
    pod              VARCHAR,
    workload         VARCHAR,
    planned_epochs   DOUBLE,
    metrics          MAP(VARCHAR, DOUBLE) NOT NULL    -- the last value of each
);
