-- reads: nothing
-- writes: collect_runs, loads, series, states, blocks, scrape_gaps, dropped_samples: raw tables filled by collectors
-- invariant: raw tables hold a source's data, uninterpreted; every row of a source can be traced to a load

-- One row per committed load: a window of a source. Coverage is computed from these rows.
CREATE TABLE loads (
    load_id      BIGINT PRIMARY KEY,
    run_id       BIGINT NOT NULL,
    kind         VARCHAR NOT NULL,       -- 'prometheus'
    source       VARCHAR NOT NULL,       -- name of the source, without credentials
    from_ms      BIGINT NOT NULL,        -- the window [from_ms, to_ms): whole hours, except while one is running
    to_ms        BIGINT NOT NULL,
    rows         BIGINT NOT NULL,        -- samples or rows loaded
    dropped      BIGINT NOT NULL,        -- impossible samples left out (see dropped_samples)
    loaded_at    TIMESTAMP NOT NULL
);

-- One row per run of a collector. finished_at is null while it runs, and stays null if it is killed.
CREATE TABLE collect_runs (
    run_id       BIGINT PRIMARY KEY,
    kind         VARCHAR NOT NULL,
    source       VARCHAR NOT NULL,
    from_ms      BIGINT NOT NULL,
    to_ms        BIGINT NOT NULL,
    started_at   TIMESTAMP NOT NULL,
    finished_at  TIMESTAMP
);

-- The dictionary of series: each set of labels once. key is a 64-bit hash of source, metric and labels.
CREATE TABLE series (
    series_id    INTEGER NOT NULL,
    key          UBIGINT NOT NULL,
    source       VARCHAR NOT NULL,
    cluster      VARCHAR NOT NULL,
    metric       VARCHAR NOT NULL,
    labels       MAP(VARCHAR, VARCHAR) NOT NULL    -- without __name__ and empty values
);

-- kube-state-metrics series rarely change: one row per run of equal values. A gap of more than 15 minutes begins a new
-- row.
CREATE TABLE states (
    series_id    INTEGER NOT NULL,
    value        DOUBLE NOT NULL,
    first_ms     BIGINT NOT NULL,        -- first and last sample of the run, both included
    last_ms      BIGINT NOT NULL
);

-- dcgm-exporter series as hourly blocks: one row per (series, hour) with valid samples.
CREATE TABLE blocks (
    series_id        INTEGER NOT NULL,
    hour             INTEGER NOT NULL,   -- hours since 1970-01-01T00:00Z
    samples          INTEGER NOT NULL,   -- valid samples in the hour, at least 1
    value_sum        DOUBLE NOT NULL,
    idle_samples     INTEGER NOT NULL,   -- samples under idle_threshold (in the metric's unit), except the last sample
    idle_threshold   DOUBLE NOT NULL,
    first_offset_ms  INTEGER NOT NULL,   -- the first sample's distance from the start of the hour
    step_ms          INTEGER,            -- the constant distance between samples; null if it varies
    offsets_ms       INTEGER[],          -- each sample's distance from the start of the hour, if step_ms is null
    gap_ms           INTEGER,            -- lower median of the distances between samples; null for a single sample
    last_offset_ms   INTEGER NOT NULL,
    last_value       DOUBLE NOT NULL,
    vals             DOUBLE[] NOT NULL   -- the samples, ordered by time
);

-- Scrape interval of a kube-state-metrics target in an hour: the lower median of its series' gaps.
CREATE TABLE scrape_gaps (
    source       VARCHAR NOT NULL,
    cluster      VARCHAR NOT NULL,
    job          VARCHAR NOT NULL,
    instance     VARCHAR NOT NULL,
    hour         INTEGER NOT NULL,
    gap_ms       INTEGER NOT NULL
);

-- Counts of samples left out, by reason: 'nan', 'sentinel', 'out_of_range'.
CREATE TABLE dropped_samples (
    source       VARCHAR NOT NULL,
    metric       VARCHAR NOT NULL,
    hour         INTEGER NOT NULL,
    reason       VARCHAR NOT NULL,
    samples      BIGINT NOT NULL
);
