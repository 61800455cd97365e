-- reads: nothing; $from_ms, $to_ms, $day are lists that name the local days of the period
-- writes: unit_days
-- invariant: days follow each other without gap or overlap and cover the period
CREATE OR REPLACE TEMP TABLE unit_days AS
SELECT unnest($from_ms::BIGINT[]) AS from_ms, unnest($to_ms::BIGINT[]) AS to_ms, unnest($day::VARCHAR[]) AS day;
