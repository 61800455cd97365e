-- reads: nothing
-- writes: slurm_devices: a running job's GPUs on a node, from scontrol show job -d
-- invariant: one row per (cluster, job, submission, node, type of GPU), kept by the load

CREATE TABLE slurm_devices (
    cluster    VARCHAR NOT NULL,
    job_id     UBIGINT NOT NULL,
    submit_ms  BIGINT NOT NULL,
    node       VARCHAR NOT NULL,
    type       VARCHAR NOT NULL,           -- 'a100'; '' if the node names none
    gpus       INTEGER[] NOT NULL          -- their numbers on the node, as in /dev/nvidia0
);
