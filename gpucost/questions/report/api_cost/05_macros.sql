-- reads: nothing
-- writes: model_key(model), a name that a vendor and a cloud have in common; money_until(money, share), the first part
-- invariant: names that differ in case, separators, region, vendor, or a day or version at the end have one key
CREATE OR REPLACE TEMP MACRO model_key(model) AS
    regexp_replace(trim(regexp_replace(regexp_replace(lower(regexp_extract(model, '[^/]*$')),
        '^(([a-z]{2,6}|global)\.)?(anthropic|meta|amazon|mistral|cohere|ai21|deepseek|openai|google)\.', ''),
        '[^a-z0-9]+', '-', 'g'), '-'),
        '(-(20[0-9]{2}-?[0-9]{2}-?[0-9]{2}|latest|preview|v[0-9]+|v[0-9]+-[0-9]+))+$', '');
CREATE OR REPLACE TEMP MACRO money_until(money, share) AS
    CASE WHEN share >= 1 THEN money WHEN share <= 0 THEN 0 ELSE (money * share)::DECIMAL(38, 9) END;
