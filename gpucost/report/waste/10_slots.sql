-- reads: nothing; $from_ms, $to_ms, $month, $day, $hour are lists that name the parts of the period
-- writes: waste_slots, the period cut at the local months, days or hours that are asked for
-- invariant: slots follow each other without gap or overlap and cover the period
CREATE OR REPLACE TEMP TABLE waste_slots AS
SELECT
    unnest($from_ms::BIGINT[]) AS from_ms,
    unnest($to_ms::BIGINT[])   AS to_ms,
    unnest($month::VARCHAR[])  AS month,
    unnest($day::VARCHAR[])    AS day,
    unnest($hour::VARCHAR[])   AS hour;
