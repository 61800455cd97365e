-- reads: nothing
-- writes: the macros azure_json(text), azure_number(text), azure_day(text)
-- invariant: what cannot be read is null, never a wrong value
CREATE OR REPLACE TEMP MACRO azure_json(value) AS CASE
    WHEN value LIKE '{%' AND json_valid(value) THEN value
    -- Enterprise agreements export tags and additional info without their braces.
    WHEN json_valid('{' || value || '}') THEN '{' || value || '}'
END;
-- A number as Azure writes it in any language: 1234.5, 1,234.5, 1234,5, 1E-05.
CREATE OR REPLACE TEMP MACRO azure_number(value) AS TRY_CAST(CASE
    WHEN regexp_matches(value, '^-?\d{1,3}(,\d{3})+\.\d+$') THEN replace(value, ',', '')
    WHEN regexp_matches(value, '^-?\d{1,3}(\.\d{3})+,\d+$') THEN replace(replace(value, '.', ''), ',', '.')
    WHEN regexp_matches(value, '^-?\d*,\d+([eE][-+]?\d+)?$') THEN replace(value, ',', '.')
    ELSE value
END AS DECIMAL(38, 12));
-- A day: Azure writes the month first where it writes slashes, and the day first where it writes dots.
CREATE OR REPLACE TEMP MACRO azure_day(value) AS date_trunc('day', CASE
    WHEN regexp_matches(value, '^\d{1,2}/\d{1,2}/\d{4}') THEN try_strptime(regexp_extract(value, '^[^ T]+'), '%m/%d/%Y')
    WHEN regexp_matches(value, '^\d{1,2}/\d{1,2}/\d{2}$') THEN try_strptime(value, '%m/%d/%y')
    WHEN regexp_matches(value, '^\d{1,2}\.\d{1,2}\.\d{4}') THEN try_strptime(regexp_extract(value, '^[^ T]+'), '%d.%m.%Y')
    WHEN regexp_matches(value, '^\d{8}(\.0)?$') THEN try_strptime(value[1:8], '%Y%m%d')
    ELSE TRY_CAST(value AS TIMESTAMP)
END);
