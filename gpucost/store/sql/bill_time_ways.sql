-- reads: bill_texts (texts of one file: starts, ends of a charge, since, until of its billing period)
-- writes: returns the possible first parts of the file's dates, one per distinct reading: one row if it is certain
-- invariant: a reading is left out if another fits any row better, or most rows within fewer months; rows that fit no
-- reading decide nothing
WITH ways AS (
    SELECT *, unnest(['month', 'day', 'year']) AS first_part
    FROM (SELECT DISTINCT starts, ends, since, until FROM bill_texts)
), moments AS (
    SELECT first_part, starts, ends, since, until,
        bill_moment(bill_time(starts, first_part)) AS start_at,
        bill_moment(bill_time(coalesce(ends, starts), first_part)) AS end_at,
        bill_moment(bill_time(since, first_part)) AS since_at,
        bill_moment(bill_time(until, first_part)) AS until_at,
        -- 1: each text is a time; 2: also, the charge is in a billing period of a month, which may include its last
        -- day.
        CASE WHEN start_at > end_at OR since IS NOT NULL AND since_at IS NULL OR until IS NOT NULL AND until_at IS NULL THEN 0
            WHEN start_at < since_at - INTERVAL 1 DAY OR end_at > coalesce(until_at, since_at + INTERVAL 1 MONTH) + INTERVAL 1 DAY
                OR until_at NOT BETWEEN since_at + INTERVAL 27 DAY AND since_at + INTERVAL 32 DAY THEN 1
            WHEN start_at <= end_at THEN 2
            ELSE 0 END AS fit
    FROM ways
), judged AS (
    SELECT *, max(fit) OVER (PARTITION BY starts, ends, since, until) AS best FROM moments
), sums AS (
    SELECT first_part, bool_and(fit = best) AS is_possible, 2 * count(*) FILTER (fit = best) > count(*) AS is_most,
        count(DISTINCT date_trunc('month', start_at)) FILTER (fit > 0) AS months,
        bit_xor(hash(starts, ends, since, until, start_at, end_at, since_at, until_at)) AS digest
    FROM judged
    GROUP BY first_part
)
SELECT min(first_part)
FROM sums
WHERE is_possible AND months <= (SELECT min(months) FROM sums WHERE is_most)
GROUP BY digest;
