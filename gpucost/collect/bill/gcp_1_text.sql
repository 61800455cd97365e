-- reads: nothing
-- writes: the macro gcp_json(text): a nested value as JSON; null for nothing
-- invariant: JSON stays as it is; the text that Python prints of lists and dicts, as flattened exports hold it, becomes the same value
CREATE OR REPLACE TEMP MACRO gcp_json(value) AS CASE
    WHEN value IS NULL OR value = '' THEN NULL
    WHEN json_valid(value) THEN value
    ELSE array_to_string(list_transform(
        regexp_extract_all(value, '"(?:[^"\\]|\\.)*"|''(?:[^''\\]|\\.)*''|[^"'']+'),
        lambda piece: CASE
            WHEN piece LIKE '''%'
            THEN '"' || replace(replace(replace(piece[2:-2], '\''', ''''), '"', '\"'), '\x', '\u00') || '"'
            WHEN piece LIKE '"%' THEN replace(replace(piece, '\''', ''''), '\x', '\u00')
            ELSE replace(replace(replace(piece, 'None', 'null'), 'True', 'true'), 'False', 'false')
        END
    ), '')
END;
