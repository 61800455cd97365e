-- reads: nothing
-- writes: progress_series, progress_values, progress_runs: raw tables of units of work, and of the runs that did them
-- invariant: a source's values of a window are replaced as a whole; labels are interpreted by the mapping that loaded
-- them

-- The dictionary of progress series. key is a 64-bit hash of source, mapping and labels.
CREATE TABLE progress_series (
    series_id    INTEGER NOT NULL,
    key          UBIGINT NOT NULL,
    -- equal for series that report the same work: replicas of a server, a target scraped twice
    identity     UBIGINT NOT NULL,
    source       VARCHAR NOT NULL,
    mapping      VARCHAR NOT NULL,       -- name of the [[units]] entry that loaded it; 'mlflow', 'file'
    unit         VARCHAR NOT NULL,       -- 'epoch', 'request', 'prompt_token', 'generation_token', ...
    -- 'counter' (rises, drops to 0 at a restart), 'gauge' (a level), 'event' (an amount of work done at that time)
    kind         VARCHAR NOT NULL,
    -- of levels: 'end' (number of finished epochs), 'begin' (number of the epoch that began)
    marks        VARCHAR NOT NULL,
    -- of epoch counters: a restarted process counts from 0, but continues from a checkpoint
    resumes      BOOLEAN NOT NULL,
    is_failure   BOOLEAN NOT NULL,       -- wasted work
    cluster      VARCHAR,                -- null if the source does not have it
    namespace    VARCHAR,
    pod          VARCHAR,                -- several are separated by commas
    workload     VARCHAR,                -- 'Kind/name', or just a name; takes precedence over pod
    model        VARCHAR,
    run_id       VARCHAR,                -- progress_runs.run_id, or the value of a label
    labels       MAP(VARCHAR, VARCHAR) NOT NULL
);

-- Values at their changes, and the first and last of each series and window, with their times.
CREATE TABLE progress_values (
    series_id    INTEGER NOT NULL,
    at_ms        BIGINT NOT NULL,
    value        DOUBLE NOT NULL
);

-- Runs of an experiment tracker.
CREATE TABLE progress_runs (
    source           VARCHAR NOT NULL,
    run_id           VARCHAR NOT NULL,
    parent_id        VARCHAR,            -- the sweep that this trial belongs to
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
