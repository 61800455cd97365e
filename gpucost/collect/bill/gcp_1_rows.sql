-- reads: raw (a Google Cloud export as text, flattened or nested), the variable currency
-- writes: gcp_json (macro): a nested value as JSON, null if empty; gcp_read (view): the typed rows, with sums of credits by kind; gcp_rows: numbered rows with their kind, their VM, and the part of the VM that they pay for
-- invariant: one row per row of the export; cost + usage_credits + other_credits is Google's billed cost; only rows of kind 'instance' have an instance_key; JSON is unchanged, and Python's printed lists and dicts become the same value
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

CREATE OR REPLACE TEMP VIEW gcp_read AS
WITH texts AS (
    SELECT
        source_file,
        file_row_number,
        billing_account_id,
        coalesce(service_id, gcp_json(service)->>'$.id') AS service_id,
        coalesce(service_description, gcp_json(service)->>'$.description') AS service,
        coalesce(sku_id, gcp_json(sku)->>'$.id') AS sku_id,
        coalesce(sku_description, gcp_json(sku)->>'$.description', '') AS sku,
        bill_moment(usage_start_time) AS start_at,
        bill_moment(usage_end_time) AS end_at,
        coalesce(project_id, gcp_json(project)->>'$.id') AS project_id,
        coalesce(project_name, gcp_json(project)->>'$.name') AS project_name,
        coalesce(location_region, gcp_json(location)->>'$.region') AS region,
        coalesce(location_zone, gcp_json(location)->>'$.zone') AS zone,
        bill_decimal(cost) AS cost,
        bill_decimal(cost_at_list) AS cost_at_list,
        bill_decimal(cost_at_effective_price_default) AS cost_at_contract,
        coalesce(currency, getvariable('currency')) AS currency,
        TRY_CAST(nullif(coalesce(price_list_price, gcp_json(price)->>'$.list_price'), '') AS DOUBLE) AS list_price,
        TRY_CAST(nullif(coalesce(price_effective_price_default, gcp_json(price)->>'$.effective_price_default'), '') AS DOUBLE) AS contract_price,
        -- Prices are for this many units.
        TRY_CAST(nullif(coalesce(price_pricing_unit_quantity, gcp_json(price)->>'$.pricing_unit_quantity'), '') AS DOUBLE) AS units_priced,
        TRY_CAST(nullif(coalesce(usage_amount, gcp_json(usage)->>'$.amount'), '') AS DOUBLE) AS amount,
        coalesce(usage_unit, gcp_json(usage)->>'$.unit') AS unit,
        TRY_CAST(nullif(coalesce(usage_amount_in_pricing_units, gcp_json(usage)->>'$.amount_in_pricing_units'), '') AS DOUBLE)
            AS pricing_amount,
        coalesce(usage_pricing_unit, gcp_json(usage)->>'$.pricing_unit') AS pricing_unit,
        coalesce(invoice_month, gcp_json(invoice)->>'$.month') AS invoice_month,
        lower(coalesce(cost_type, 'regular')) AS cost_type,
        nullif(coalesce(adjustment_info_type, gcp_json(adjustment_info)->>'$.type'), '') AS adjustment,
        nullif(coalesce(resource_name, gcp_json(resource)->>'$.name'), '') AS resource_name,
        nullif(coalesce(resource_global_name, gcp_json(resource)->>'$.global_name'), '') AS global_name,
        nullif(coalesce(subscription_instance_id, gcp_json(subscription)->>'$.instance_id'), '') AS subscription_id,
        nullif(coalesce(consumption_model_description, gcp_json(consumption_model)->>'$.description'), '') AS consumption_model,
        from_json(gcp_json(labels), '[{"key": "VARCHAR", "value": "VARCHAR"}]') AS labels,
        from_json(gcp_json(system_labels), '[{"key": "VARCHAR", "value": "VARCHAR"}]') AS system_labels,
        from_json(
            -- Some writers flatten a list of one credit to the credit itself.
            CASE WHEN gcp_json(credits) LIKE '{%' THEN '[' || gcp_json(credits) || ']' ELSE gcp_json(credits) END,
            '[{"type": "VARCHAR", "name": "VARCHAR", "full_name": "VARCHAR", "id": "VARCHAR", "amount": "VARCHAR"}]'
        ) AS credits
    FROM raw
),
credited AS (
    SELECT
        *,
        -- Exports before September 2020 have only names, no types.
        list_transform(credits, lambda c: {
            'type': coalesce(nullif(c.type, ''), CASE
                WHEN c.name ILIKE '%sustained%' THEN 'SUSTAINED_USAGE_DISCOUNT'
                WHEN c.name ILIKE '%committed%dollar%' OR c.name ILIKE '%spend%committed%' THEN 'COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE'
                WHEN c.name ILIKE '%committed%' THEN 'COMMITTED_USAGE_DISCOUNT'
                WHEN c.name ILIKE '%reseller%' THEN 'RESELLER_MARGIN'
                WHEN c.name ILIKE '%discount%' THEN 'DISCOUNT'
                ELSE 'PROMOTION'
            END),
            'words': concat_ws(' ', c.name, c.full_name, c.id),
            'amount': bill_decimal(coalesce(nullif(c.amount, ''), '0'))
        }) AS parsed
    FROM texts
)
SELECT
    -- With an invalid credit, the billed cost of a row is unknown.
    * EXCLUDE (credits, parsed, labels, system_labels)
        REPLACE (CASE WHEN len(list_filter(parsed, lambda c: c.amount IS NULL)) > 0 THEN NULL ELSE cost END AS cost),
    coalesce(list_sum(list_transform(
        list_filter(parsed, lambda c: c.type IN (
            'SUSTAINED_USAGE_DISCOUNT', 'COMMITTED_USAGE_DISCOUNT', 'COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE', 'DISCOUNT',
            'SPENDING_BASED_DISCOUNT', 'RESELLER_MARGIN', 'SUBSCRIPTION_BENEFIT', 'FEE_UTILIZATION_OFFSET'
        )), lambda c: c.amount
    )), 0) AS usage_credits,
    -- Promotions, free tier and future credit types: they lower the bill, not the cost of usage.
    coalesce(list_sum(list_transform(
        list_filter(parsed, lambda c: c.type NOT IN (
            'SUSTAINED_USAGE_DISCOUNT', 'COMMITTED_USAGE_DISCOUNT', 'COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE', 'DISCOUNT',
            'SPENDING_BASED_DISCOUNT', 'RESELLER_MARGIN', 'SUBSCRIPTION_BENEFIT', 'FEE_UTILIZATION_OFFSET'
        )), lambda c: c.amount
    )), 0) AS other_credits,
    coalesce(list_sum(list_transform(
        list_filter(parsed, lambda c: c.type = 'COMMITTED_USAGE_DISCOUNT'), lambda c: c.amount)), 0) AS resource_cud,
    coalesce(list_sum(list_transform(
        list_filter(parsed, lambda c: c.type = 'COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE'), lambda c: c.amount)), 0) AS spend_cud,
    list_filter(parsed, lambda c: c.type = 'COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE')[1].words AS spend_cud_words,
    len(list_filter(parsed, lambda c: c.type = 'FEE_UTILIZATION_OFFSET')) > 0 AS has_offset,
    -- A duplicate key keeps its first value.
    map_from_entries(list_transform(
        list_filter(labels, lambda l, i: l.key IS NOT NULL AND list_position(list_transform(labels, lambda o: o.key), l.key) = i),
        lambda l: {'key': l.key, 'value': l.value}
    )) AS tags,
    list_filter(system_labels, lambda l: l.key = 'compute.googleapis.com/machine_spec')[1].value AS machine_type,
    TRY_CAST(list_filter(system_labels, lambda l: l.key = 'compute.googleapis.com/cores')[1].value AS DOUBLE) AS cores,
    TRY_CAST(list_filter(system_labels, lambda l: l.key = 'compute.googleapis.com/memory')[1].value AS DOUBLE) / 1024 AS memory_gib,
    coalesce(lower(list_filter(system_labels, lambda l: l.key = 'compute.googleapis.com/is_unused_reservation')[1].value), '')
        = 'true' AS is_unused_reservation,
    list_filter(system_labels, lambda l: l.key = 'compute.googleapis.com/reservation_name')[1].value AS reservation_name
FROM credited;

CREATE OR REPLACE TEMP TABLE gcp_rows AS
WITH words AS (
    SELECT
        *,
        lower(sku) AS name,
        coalesce(service, '') = 'Compute Engine' AS is_compute,
        regexp_matches(coalesce(global_name, ''), '/instances/[^/]+$') OR regexp_matches(coalesce(resource_name, ''), '(^|/)instances/[^/]+$')
            AS is_on_vm
    FROM gcp_read
),
told AS (
    SELECT
        *,
        CASE
            WHEN cost_type = 'tax' THEN 'tax'
            -- A goodwill or SLA credit is not a price of the credited usage.
            WHEN adjustment IN ('GOODWILL', 'SALES_BASED_GOODWILL', 'SLA_VIOLATION', 'BALANCE_TRANSFER', 'ACCOUNT_CLOSURE') THEN 'credit'
            WHEN has_offset OR name LIKE 'commitment%' OR (subscription_id IS NOT NULL AND regexp_matches(name, 'commitment|\bcuds?\b'))
            THEN 'commitment_fee'
            WHEN is_unused_reservation THEN 'reserved_unused'
            WHEN service ILIKE '%support%' AND service NOT ILIKE '%api%' THEN 'support'
            WHEN regexp_matches(name, 'egress|ingress|data transfer|network|external ip|static ip|load balanc|forwarding rule|\bvpn\b|cloud nat|interconnect')
                OR service = 'Networking'
            THEN 'network'
            WHEN service = 'Cloud Storage' OR service ILIKE '%filestore%'
                OR (is_compute AND regexp_matches(name, '\bpd\b|persistent disk|hyperdisk|\bdisk|snapshot|\bimage|storage'))
            THEN 'storage'
            WHEN is_compute AND is_on_vm THEN 'instance'
            ELSE 'other'
        END AS kind
    FROM words
)
SELECT
    * EXCLUDE (name, is_compute, is_on_vm),
    row_number() OVER () AS row_id,
    regexp_matches(name, 'spot|preemptible') AS is_spot,
    -- The machine's name in Kubernetes is gce://project/zone/name; global_name ends in a number, resource.name in the
    -- name.
    CASE WHEN kind = 'instance' THEN lower(concat_ws('/',
        coalesce(project_id, nullif(regexp_extract(global_name, '/projects/([^/]+)/', 1), '')),
        coalesce(nullif(zone, ''), nullif(regexp_extract(global_name, '/zones/([^/]+)/', 1), '')),
        regexp_extract(coalesce(resource_name, global_name), '([^/]+)$', 1)
    )) END AS instance_key,
    CASE
        WHEN kind NOT IN ('instance', 'commitment_fee') THEN NULL
        WHEN regexp_matches(name, 'licen[sc]') THEN 'licence'
        WHEN regexp_matches(name, '\bgpu\b|nvidia') THEN 'gpu'
        WHEN regexp_matches(name, '\bram\b|memory') AND NOT regexp_matches(name, '\bcore\b|\bcpu\b') THEN 'ram'
        WHEN regexp_matches(name, '\bcore\b|\bv?cpu\b') THEN 'core'
        WHEN regexp_matches(name, 'ssd') THEN 'ssd'
        ELSE 'other'
    END AS component,
    -- Commitments cover a machine family or a GPU model: 'Commitment v1: A2 Cpu in Americas for 1 Year' covers 'A2
    -- Instance Core running in Americas'; a name without a family is N1.
    CASE WHEN kind IN ('instance', 'commitment_fee') THEN trim(regexp_replace(regexp_replace(regexp_replace(regexp_replace(
        name,
        '^commitment[^:]*:\s*', ''),
        '\s+(running|attached|in|for)\b.*$', ''),
        '\b(spot|preemptible|reserved|predefined|custom|extended|instance|instances|amd|arm|intel|cores?|v?cpus?|ram|memory|gpus?|premium)\b', ' ', 'g'),
        '\s+', ' ', 'g')) END AS family
FROM told;
