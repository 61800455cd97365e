-- reads: bill_texts (texts of one file: numbers, separated by blanks within a row)
-- writes: proves_comma: whether a number certainly has a decimal comma; returns the decimal marks proven by the file's numbers: one row if it is certain
-- invariant: '1,234' and '1.234' prove neither, '1,23' and '1.234,5' a comma, '1.23' and '1,234.5' a point
CREATE OR REPLACE TEMP MACRO proves_comma(value) AS regexp_matches(value, '\..*[.,]')
    OR regexp_matches(value, '^[^.,]*,[^.,]*$') AND NOT regexp_matches(value, '^[-+]?[1-9]\d{0,2},\d{3}$');

WITH texts AS (
    SELECT DISTINCT unnest(string_split(numbers, ' ')) AS value FROM bill_texts
), marked AS (
    SELECT value FROM texts WHERE regexp_full_match(value, '[-+]?[\d.,]*[.,][\d.,]*([eE][-+]?\d+)?')
)
SELECT ',' FROM marked WHERE proves_comma(value)
UNION
SELECT '.' FROM marked WHERE proves_comma(translate(value, ',.', '.,'));
