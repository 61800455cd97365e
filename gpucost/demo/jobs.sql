-- reads: jobs, with times in seconds since the beginning of several weeks
-- writes: sacct: its output at the end of the period
-- invariant: jobs and steps of the period; jobs that end later are running, and jobs that start later are pending
CREATE OR REPLACE TEMP TABLE sacct AS
WITH moved AS (
    SELECT * REPLACE (Submit + $base_s AS Submit, Eligible + $base_s AS Eligible, Start + $base_s AS Start, "End" + $base_s AS "End")
    FROM jobs
),
states AS (
    SELECT *, coalesce(Start >= $to_s, true) AS is_pending, coalesce("End" > $to_s, true) AS is_open
    FROM moved
    WHERE Submit < $to_s AND coalesce("End" > $from_s, true)
)
SELECT * EXCLUDE (is_pending, is_open) REPLACE (
    CASE WHEN is_pending THEN 'PENDING' WHEN is_open THEN 'RUNNING' ELSE State END AS State,
    if(is_pending, 'Resources', Reason) AS Reason,
    if(is_pending, 'Unknown', Start::VARCHAR) AS Start,
    if(is_open, 'Unknown', "End"::VARCHAR) AS "End",
    CASE WHEN is_pending THEN 0 WHEN is_open THEN $to_s - Start ELSE ElapsedRaw::BIGINT END AS ElapsedRaw,
    if(is_pending, 'None assigned', NodeList) AS NodeList,
    if(is_pending, NULL, AllocTRES) AS AllocTRES
)
FROM states
-- a step begins with its job
WHERE NOT (is_pending AND contains(JobID, '.'))
ORDER BY Submit, split_part(JobIDRaw, '.', 1)::BIGINT, JobIDRaw;
