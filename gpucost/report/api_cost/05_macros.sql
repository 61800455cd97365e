-- reads: nothing
-- writes: model_key(model), a name that a vendor, a cloud and a gateway have in common; model_vendor(model), who makes it, null where the name does not tell; money_until(money, share), the first part of an amount
-- invariant: names that differ in case, separators, a region, a vendor put before them, or the day or version at their end have one key
CREATE OR REPLACE TEMP MACRO model_key(model) AS
    regexp_replace(trim(regexp_replace(regexp_replace(lower(regexp_extract(model, '[^/]*$')),
        '^(([a-z]{2,6}|global)\.)?(anthropic|meta|amazon|mistral|cohere|ai21|deepseek|openai|google)\.', ''), '[^a-z0-9]+', '-', 'g'), '-'),
        '(-(20[0-9]{2}-?[0-9]{2}-?[0-9]{2}|latest|preview|v[0-9]+|v[0-9]+-[0-9]+))+$', '');
CREATE OR REPLACE TEMP MACRO model_vendor(model) AS CASE
    WHEN regexp_matches(model, 'claude', 'i') THEN 'anthropic'
    WHEN regexp_matches(model, 'gemini|gemma', 'i') THEN 'google'
    WHEN regexp_matches(model, 'llama', 'i') THEN 'meta'
    WHEN regexp_matches(model, 'mi[sx]tral|codestral|magistral', 'i') THEN 'mistral'
    WHEN regexp_matches(model, '(^|[/.])(nova|titan)', 'i') THEN 'amazon'
    WHEN regexp_matches(model, '(^|[/.])command', 'i') THEN 'cohere'
    WHEN regexp_matches(model, 'deepseek', 'i') THEN 'deepseek'
    WHEN regexp_matches(model, '(^|[/.])(gpt|o[0-9]|chatgpt|text-embedding)', 'i') THEN 'openai'
END;
CREATE OR REPLACE TEMP MACRO money_until(money, share) AS
    CASE WHEN share >= 1 THEN money WHEN share <= 0 THEN 0 ELSE (money * share)::DECIMAL(38, 9) END;
