-- reads: token_services, discounted_details
-- writes: token_unit(unit), model_name(label, vendor) (macros): the tokens in a unit, and a model by its vendor's API name, as far as the label allows; token_details (temporary): rows of token_services for bought tokens, throughput of models, and charges that come with them, with their classes
-- invariant: each batch_id and detail_id once; it excludes machines, taxes, credits, refunds and spread discounts;
-- unknown values are null
CREATE OR REPLACE TEMP MACRO token_unit(unit) AS
    CASE WHEN regexp_matches(unit, '^(units? of )?[0-9,]*\s*(k|kilo|thousand|m|mega|million)?[\s-]*tok(en)?s?$|^[0-9,]+\s*[km]$', 'i')
        THEN coalesce(TRY_CAST(replace(regexp_extract(unit, '[0-9][0-9,]*'), ',', '') AS DOUBLE), 1)
            * CASE WHEN regexp_matches(unit, '(^|[0-9\s])(m|mega|million)([\s-]*tok|$)', 'i') THEN 1000000
                WHEN regexp_matches(unit, '(^|[0-9\s])(k|kilo|thousand)([\s-]*tok|$)', 'i') THEN 1000 ELSE 1 END
    END;

CREATE OR REPLACE TEMP MACRO model_name(label, vendor) AS (
    WITH words AS (
        -- 'generate content input token count gemini 2.5 flash', 'anthropic.claude-…', 'openai/gpt-…', '… (Amazon Bedrock Edition)'
        SELECT regexp_replace(regexp_replace(regexp_replace(lower(trim(label)), '^.*token count (for )?|\s*\(.*$', '', 'g'),
            '^((openai|anthropic|google|fw|azure)\s+|[a-z0-9-]+/)+', ''), '^[a-z]+\.([a-z])', '\1') AS name
    ),
    -- suffixes of a model's name: kind of tokens, place, mode
    models AS (
        SELECT trim(regexp_replace(regexp_replace(regexp_replace(name,
            '([\s,|_-]+(mantle|inputs?|outputs?|inp|outp|opt|prompt|completion|cached?|caching|cchd|cd|batch|flex|priority|usage|tokens?|txt|aud|img|thinking|ga|global|glbl|gl|regional|regnl|data ?zone|dz|dzn|dzone|short|long|shortco|longco|provisioned|provisionedthroughput|custom|customization|latency|cross|grounding|std|standard|training|hosting|storage|grader|fine-?tun[a-z]*|1m|rt)\b|\s(text|image|audio|video)\b|,).*$', ''),
            '(:[0-9]+)$', ''), '[\s_/@:]+', '-', 'g'), '-') AS name
        FROM words
    ),
    names AS (
        SELECT CASE vendor
            WHEN 'anthropic' THEN regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(name,
                '(claude|sonnet|opus|haiku|instant)([0-9])', '\1-\2', 'g'), '([0-9])(sonnet|opus|haiku|instant)', '\1-\2', 'g'),
                '([3-9])\.([0-9])', '\1-\2'), '-v[0-9]+$', ''), '^claude-([4-9])(-[0-9])?-(sonnet|opus|haiku)', 'claude-\3-\1\2'),
                '^claude-(sonnet|opus|haiku)-3(-[57])?(-|$)', 'claude-3\2-\1\3'), '-$', '')
            -- Azure's meters name only the day
            WHEN 'openai' THEN regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(name, '^([0-9])', 'gpt-\1'), '^gpt([0-9])', 'gpt-\1'),
                '^gpt-35', 'gpt-3.5'), '^(gpt-4o|gpt-4o-mini|o1|o1-mini|o1-preview)-([01][0-9])([0-3][0-9])$', '\1-2024-\2-\3'),
                '^(gpt-4\.1|gpt-4\.1-mini|gpt-4\.1-nano|o3|o3-mini|o4-mini)-([01][0-9])([0-3][0-9])$', '\1-2025-\2-\3')
            WHEN 'amazon' THEN regexp_replace(regexp_replace(regexp_replace(name, '^nova-?([0-9]+)(\.0)?-?', 'nova-\1-'), '^nova([a-z])', 'nova-\1'), '-v[0-9]+$', '')
            WHEN 'deepseek' THEN regexp_replace(name, '^([vr][0-9])', 'deepseek-\1')
            WHEN 'xai' THEN regexp_replace(name, '^([0-9])', 'grok-\1')
            WHEN 'mistral' THEN regexp_replace(name, '^(large|medium|small)', 'mistral-\1')
            ELSE name END AS name
        FROM models
    )
    -- a meter may name only the kind of tokens
    SELECT CASE WHEN regexp_matches(name, '^[a-z][a-z0-9.-]{1,63}$') AND NOT regexp_matches(name, '^(provisioned|(cached?-)?(input|output|prompt|completion|generat|token|cached?($|-)))') THEN name END FROM names
);

CREATE OR REPLACE TEMP TABLE token_details AS
WITH services AS (
    SELECT *, lower(concat_ws(' ', sku_meter, sku_description, charge_description, sku_price_details)) AS words
    FROM discounted_details
    SEMI JOIN token_services USING (batch_id, detail_id)
    WHERE kind IN ('other', 'storage', 'network', 'managed', 'commitment_fee', 'commitment_unused', 'discount') AND instance_key IS NULL
        -- other discounts are spread over the charges that they reduce
        AND (kind <> 'discount' OR resource_id IS NOT NULL AND commitment_discount_id IS NULL AND capacity_reservation_id IS NULL)
),
classes AS (
    SELECT *,
        CASE WHEN regexp_matches(concat_ws(' ', words, lower(service_name), provider), 'claude|anthropic') THEN 'anthropic'
            WHEN regexp_matches(words, 'gemini|gemma|\bpalm\b|imagen|\bveo\b') THEN 'google'
            WHEN regexp_matches(words, '\bllama|[^a-z]llama') THEN 'meta'
            WHEN regexp_matches(words, 'mistral|mixtral|ministral|codestral|pixtral|voxtral|magistral|devstral') THEN 'mistral'
            WHEN regexp_matches(words, 'cohere|command-r') THEN 'cohere'
            WHEN regexp_matches(words, 'deepseek') THEN 'deepseek'
            WHEN regexp_matches(words, '\bgrok|[^a-z]xai\b') THEN 'xai'
            WHEN regexp_matches(words, 'qwen') THEN 'alibaba'
            WHEN regexp_matches(words, '(^|[^a-z])(nova-?[0-9lmpcrs]|titan)') AND provider = 'aws' THEN 'amazon'
            WHEN regexp_matches(words, '\bglm-|[^a-z]zai\.') THEN 'zai'
            WHEN regexp_matches(words, 'kimi|moonshot') THEN 'moonshot'
            WHEN regexp_matches(words, 'jamba|jurassic|ai21') THEN 'ai21'
            WHEN regexp_matches(words, '\bphi-?[0-9]') THEN 'microsoft'
            WHEN regexp_matches(words, 'nemotron') THEN 'nvidia'
            WHEN regexp_matches(concat_ws(' ', words, lower(service_name), provider), 'openai|gpt|dall-?e|whisper|text-embedding|\bo[134](-|\s|,|$)') THEN 'openai'
            -- these providers sell their own models
            ELSE nullif(regexp_extract(provider, '^(mistral|cohere|deepseek|xai|perplexity|ai21|moonshot|minimax)', 1), '')
        END AS vendor,
        CASE WHEN kind IN ('commitment_fee', 'commitment_unused')
                OR regexp_matches(words, 'provisioned[ _-]?(throughput|managed)|model ?units?\b|reserved_.*tpm|throughput unit|scale tier') THEN 'commitment'
            WHEN regexp_matches(words, 'training|customization|hosting|storage|grader|(web|file|google)[ _-]?search|search ?unit|grounding|code.?(execution|interpreter)|session|guardrail') THEN 'other'
            WHEN regexp_matches(words, '(^|[^a-z])(cached|cchd|cd)([^a-z]|$)|cache[ _-]?(read|hit)|caching') THEN 'cached'
            WHEN regexp_matches(words, 'output|(^|[^a-z])(outp|opt)([^a-z]|$)|(completion|response)[ _-]?token') THEN 'generation'
            WHEN regexp_matches(words, 'input|(^|[^a-z])inp([^a-z]|$)|prompt|embed|cache[ _-]?(write|creation)') THEN 'prompt'
            ELSE 'other' END AS token_kind
    FROM services
    -- services that also sell machines, speech and more
    WHERE CASE WHEN service_name IN ('Vertex AI', 'Cognitive Services', 'Azure AI Services')
                THEN regexp_matches(words, 'openai|gpt|gemini|gemma|\bpalm\b|imagen|\bveo\b|claude|llama|mistral|codestral|jamba|deepseek|qwen|token|provisioned ?(throughput|managed)|text-?embedding|embeddings? for text')
            WHEN provider = 'azure' AND contains(sku_description, 'inference-') THEN regexp_matches(words, 'token')
            ELSE true END
)
SELECT batch_id, detail_id, bill_id, provider, format, kind, vendor, token_kind, billing_currency, tags, cost_categories, sub_account_id, sub_account_name, billing_account_id,
    resource_name, billing_period, source_file, discount_rate,
    CASE WHEN vendor IS NOT NULL OR provider NOT IN ('aws', 'gcp', 'azure', 'oci') THEN coalesce(model_name(CASE
        -- the vendors' own exports
        WHEN provider IN ('openai', 'anthropic') AND starts_with(format, provider) AND sku_id IS NOT NULL THEN sku_id
        WHEN nullif(regexp_extract(sku_price_details, '(?i)"[a-z_]*model(?:_?name|_?id)?"\s*:\s*"([^"]+)"', 1), '') IS NOT NULL
            THEN regexp_extract(sku_price_details, '(?i)"[a-z_]*model(?:_?name|_?id)?"\s*:\s*"([^"]+)"', 1)
        WHEN suffix(service_name, '(Amazon Bedrock Edition)') THEN service_name
        -- 'USE1-Claude3Sonnet-input-tokens': region and model
        WHEN provider = 'aws' THEN regexp_replace(coalesce(sku_meter, sku_description), '^([A-Z]{2,4}[0-9]?-)+', '')
        WHEN provider = 'gcp' THEN sku_description
        -- searches, for example, have no model
        WHEN token_kind <> 'other' OR regexp_matches(words, '[a-z-]+ ?[0-9]') THEN coalesce(sku_meter, sku_description) END, vendor),
        CASE WHEN token_kind <> 'other' AND provider NOT IN ('aws', 'gcp', 'azure') THEN coalesce(model_name(sku_description, vendor), model_name(sku_id, vendor)) END) END AS model,
    -- Google Cloud counts tokens, except characters for Gemini 1 in Vertex AI; AWS Marketplace sells millions, as
    -- 'Units'
    CASE WHEN provider = 'gcp' THEN CASE WHEN lower(consumed_unit) IN ('count', 'requests', 'tokens') AND NOT regexp_matches(words, 'gemini 1|character') THEN 1 ELSE token_unit(consumed_unit) END
        WHEN lower(consumed_unit) = 'units' AND suffix(service_name, '(Amazon Bedrock Edition)') THEN 1000000
        ELSE token_unit(consumed_unit) END AS consumed_size,
    CASE WHEN lower(pricing_unit) = 'units' AND suffix(service_name, '(Amazon Bedrock Edition)') THEN 1000000 ELSE token_unit(pricing_unit) END AS pricing_size
FROM classes;
