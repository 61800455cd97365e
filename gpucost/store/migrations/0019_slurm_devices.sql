-- reads: nothing
-- writes: slurm_devices: which GPUs of a node a job had, as scontrol show job -d says it while the job runs
-- invariant: one row per (cluster, job, submission, node, type of GPU), kept by the load

CREATE TABLE slurm_devices (
    cluster    VARCHAR NOT NULL,
    job_id     UBIGINT NOT NULL,
    submit_ms  BIGINT NOT NULL,
    node       VARCHAR NOT NULL,
    type       VARCHAR NOT NULL,           -- 'a100'; '' where the node names none
    gpus       INTEGER[] NOT NULL          -- their numbers on the node, as of /dev/nvidia0
);
