-- reads: allocated, slurm_runs, slurm_accounts
-- writes: slurm_users, one row per allocation of a job or a reservation: its top account below the root, and a job's user, partition and QOS
-- invariant: allocation_id is unique
-- only with: slurm_loads
INSERT INTO slurm_users BY NAME
WITH RECURSIVE above AS (
    SELECT cluster, account, account AS top, parent, 0 AS depth FROM slurm_accounts
    UNION ALL
    -- up to the account below the root, which has no parent
    SELECT u.cluster, u.account, p.account, p.parent, u.depth + 1
    FROM above AS u JOIN slurm_accounts AS p ON p.cluster = u.cluster AND p.account = u.parent
    WHERE p.parent IS NOT NULL AND u.depth < 100
),
tops AS (
    SELECT cluster, account, arg_max(top, depth) AS top FROM above GROUP BY ALL
)
SELECT a.allocation_id, CASE WHEN r.job IS NULL THEN nullif(coalesce(t.top, a.namespace), '') ELSE coalesce(t.top, a.namespace) END AS account,
    r."user", r.partition, r.qos
FROM allocated AS a
LEFT JOIN slurm_runs AS r ON r.cluster = a.cluster AND r.job_id || '@' || r.submit_ms = split_part(a.uid, '/', 1)
LEFT JOIN tops AS t ON t.cluster = a.cluster AND t.account = a.namespace
WHERE r.job IS NOT NULL OR a.resource = 'reservation';
