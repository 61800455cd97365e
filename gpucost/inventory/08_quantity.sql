-- reads: nothing
-- writes: quantity(text, most), the number that a label or an annotation tells, null where it is none, not above 0 (nan) or above the most that makes sense (inf)
-- invariant: 0 < quantity <= most
CREATE OR REPLACE TEMP MACRO quantity(text, most) AS
    CASE WHEN try_cast(text AS DOUBLE) > 0 AND try_cast(text AS DOUBLE) <= most THEN try_cast(text AS DOUBLE) END;
