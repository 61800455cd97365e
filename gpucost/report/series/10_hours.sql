-- reads: nothing; $from_ms, $to_ms, $moment, $weekday, $hour are lists that name the local hours of the period
-- writes: series_hours, the period cut at local hours, each with the moment of the chart that it belongs to
-- invariant: hours follow each other without gap or overlap and cover the period
CREATE OR REPLACE TEMP TABLE series_hours AS
SELECT
    unnest($from_ms::BIGINT[])    AS from_ms,
    unnest($to_ms::BIGINT[])      AS to_ms,
    unnest($moment::INTEGER[])    AS moment,
    unnest($weekday::INTEGER[])   AS weekday,
    unnest($hour::INTEGER[])      AS hour;
