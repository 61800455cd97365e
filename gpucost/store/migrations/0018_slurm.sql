-- reads: nothing
-- writes: slurm_runs, slurm_steps, slurm_nodes, slurm_events, slurm_reservations, slurm_accounts, slurm_shares: Slurm's accounting, uninterpreted; nodes, allocations: columns for machines and jobs; node_prices, attribution_state: purchase options
-- invariant: one row per run of a job, and per moment at which a node was described; later answers replace earlier
-- ones, in whichever order they are loaded

-- A run of a job: a requeued job has several, with different submission times. Elements of an array and components of a
-- heterogeneous job are jobs.
CREATE TABLE slurm_runs (
    cluster        VARCHAR NOT NULL,
    job_id         UBIGINT NOT NULL,       -- JobIDRaw
    submit_ms      BIGINT NOT NULL,
    job            VARCHAR NOT NULL,       -- JobID: '17', '2_1' of an array, '11+0' of a heterogeneous job
    array_job_id   UBIGINT,
    name           VARCHAR,
    "user"         VARCHAR,
    account        VARCHAR,
    partition      VARCHAR,
    qos            VARCHAR,
    state          VARCHAR NOT NULL,
    reason         VARCHAR,
    eligible_ms    BIGINT,
    start_ms       BIGINT,                 -- null: never started
    end_ms         BIGINT,                 -- null: not ended yet
    elapsed_ms     BIGINT,
    suspended_ms   BIGINT NOT NULL,
    nodes          VARCHAR[] NOT NULL,
    req_tres       VARCHAR,                -- 'cpu=1,gres/gpu=2,node=1'
    alloc_tres     VARCHAR,
    reservation    VARCHAR
);

-- Steps that held generic resources: a job's devices per node, and the activity of its GPUs.
CREATE TABLE slurm_steps (
    cluster     VARCHAR NOT NULL,
    job_id      UBIGINT NOT NULL,
    step        VARCHAR NOT NULL,          -- 'batch', 'extern', '0', ...
    start_ms    BIGINT NOT NULL,
    end_ms      BIGINT,
    nodes       VARCHAR[] NOT NULL,
    alloc_tres  VARCHAR,
    gpu_util    DOUBLE                    -- percent, the mean measured by jobacct_gather
);

-- Nodes as described by scontrol and sinfo.
CREATE TABLE slurm_nodes (
    cluster        VARCHAR NOT NULL,
    node           VARCHAR NOT NULL,
    seen_ms        BIGINT NOT NULL,
    gres           VARCHAR NOT NULL,       -- 'gpu:a100:4,shard:16'
    partitions     VARCHAR[] NOT NULL,
    features       VARCHAR[] NOT NULL,
    instance_type  VARCHAR
);

-- Down, drained and powered-down time of nodes.
CREATE TABLE slurm_events (
    cluster  VARCHAR NOT NULL,
    node     VARCHAR NOT NULL,
    from_ms  BIGINT NOT NULL,
    to_ms    BIGINT,                       -- null: not ended yet
    state    VARCHAR NOT NULL,
    reason   VARCHAR
);

CREATE TABLE slurm_reservations (
    cluster   VARCHAR NOT NULL,
    name      VARCHAR NOT NULL,
    from_ms   BIGINT NOT NULL,
    to_ms     BIGINT NOT NULL,
    nodes     VARCHAR[] NOT NULL,
    flags     VARCHAR[] NOT NULL,
    accounts  VARCHAR[] NOT NULL
);

-- The tree of accounts: the root's parent is null.
CREATE TABLE slurm_accounts (
    cluster  VARCHAR NOT NULL,
    account  VARCHAR NOT NULL,
    parent   VARCHAR
);

-- sshare's figures for accounts (user '') and their users.
CREATE TABLE slurm_shares (
    cluster          VARCHAR NOT NULL,
    account          VARCHAR NOT NULL,
    "user"           VARCHAR NOT NULL,
    seen_ms          BIGINT NOT NULL,
    norm_shares      DOUBLE,
    raw_usage        DOUBLE,
    effective_usage  DOUBLE,
    fair_share       DOUBLE
);

-- GPUs of the machine that contains a node row; null for the whole machine. Slurm mixes models in one machine.
ALTER TABLE nodes ADD COLUMN machine_gpus DOUBLE;
-- Slurm's account right below the root of its tree (namespace is the job's account), user, partition and quality of
-- service; null for pods.
ALTER TABLE allocations ADD COLUMN account VARCHAR;
ALTER TABLE allocations ADD COLUMN "user" VARCHAR;
ALTER TABLE allocations ADD COLUMN partition VARCHAR;
ALTER TABLE allocations ADD COLUMN qos VARCHAR;
-- 'on_demand', 'savings_plan', ...; null if the price is from a bill, or unknown.
ALTER TABLE node_prices ADD COLUMN purchase_option VARCHAR;
-- The next attribution prices everything again; attributed results stay.
UPDATE attribution_state SET last_load_id = -1;
