-- reads: raw (an Azure cost export or query answer as text), the variable currency
-- writes: azure_json, azure_day (macros): parse JSON and days; azure_read (view): the typed rows; azure_rows: the rows with their kind and machine
-- invariant: one row per row of the export; only rows of kind 'instance' have an instance_key; unreadable values are null, never wrong
CREATE OR REPLACE TEMP MACRO azure_json(value) AS CASE
    WHEN value LIKE '{%' AND json_valid(value) THEN value
    -- Enterprise agreements export tags and additional info without their braces.
    WHEN json_valid('{' || value || '}') THEN '{' || value || '}'
END;
CREATE OR REPLACE TEMP MACRO azure_day(value) AS date_trunc('day', bill_moment(value));

CREATE OR REPLACE TEMP VIEW azure_read AS
WITH texts AS (
    SELECT
        source_file,
        file_row_number,
        azure_day("date") AS day,
        coalesce(strftime(azure_day(billing_period_start), '%Y-%m'), strftime(azure_day("date"), '%Y-%m')) AS billing_period,
        cost IS NULL AS is_blank,
        bill_decimal(cost) AS cost,
        bill_decimal(payg_cost) AS payg_cost,
        -- Prices in a currency other than the bill's do not apply.
        coalesce(pricing_currency, raw.currency, '') = coalesce(raw.currency, '') AS is_priced_as_billed,
        CASE WHEN is_priced_as_billed THEN bill_decimal(payg_price) END AS list_price,
        CASE WHEN is_priced_as_billed THEN bill_decimal(unit_price) END AS contract_price,
        invoice_id,
        product_id,
        coalesce(currency, getvariable('currency')) AS currency,
        CAST(bill_decimal(quantity) AS DOUBLE) AS quantity,
        unit_of_measure AS unit,
        coalesce(meter_category, service_name, '') AS meter_category,
        coalesce(meter_subcategory, '') AS meter_subcategory,
        coalesce(meter_name, '') AS meter_name,
        meter_id,
        coalesce(product_name, '') AS product_name,
        coalesce(service_family, '') AS service_family,
        resource_id,
        -- Exports of one bill differ in the case of ids.
        lower(resource_id) AS resource_key,
        resource_name,
        resource_type,
        -- 'US East', 'US East 2', 'eastus': the same region.
        nullif(replace(lower(resource_location), ' ', ''), '') AS place,
        availability_zone AS zone,
        coalesce(billing_account_id, billing_account_name) AS billing_account_id,
        lower(subscription_id) AS subscription_id,
        subscription_name,
        lower(replace(coalesce(charge_type, 'Usage'), ' ', '')) AS charge_type,
        lower(replace(coalesce(pricing_model, ''), ' ', '')) AS pricing_model,
        frequency,
        coalesce(reservation_id, benefit_id, nullif(azure_json(additional_info)->>'$.ReservationId', '')) AS benefit_id,
        coalesce(reservation_name, benefit_name) AS benefit_name,
        product_order_name AS order_name,
        azure_json(tags) AS tags,
        azure_json(additional_info) AS info
    FROM raw
)
SELECT
    * EXCLUDE (place, tags, info, is_priced_as_billed),
    coalesce(
        -- 'usnorthcentral' -> 'northcentralus', 'euwest' -> 'westeurope', 'jaeast' -> 'japaneast': Azure's own order of
        -- words.
        CASE
            WHEN place SIMILAR TO 'us(gov|dod).*' THEN place
            WHEN place LIKE 'us%' THEN regexp_replace(place, '^us([a-z]+)(\d*)$', '\1us\2')
            WHEN place LIKE 'eu%' THEN regexp_replace(place, '^eu([a-z]+)$', '\1europe')
            WHEN place LIKE 'ap%' THEN regexp_replace(place, '^ap([a-z]+)$', '\1asia')
            WHEN place SIMILAR TO '(ja|ca|au|in|br|kr|fr|de|no|se|ch|za|ae|uk)(north|south|east|west|central).*' AND place NOT LIKE 'centralindia%'
            THEN CASE place[1:2]
                WHEN 'ja' THEN 'japan' || place[3:] WHEN 'ca' THEN 'canada' || place[3:] WHEN 'au' THEN 'australia' || place[3:]
                WHEN 'in' THEN place[3:] || 'india' WHEN 'br' THEN 'brazil' || place[3:] WHEN 'kr' THEN 'korea' || place[3:]
                WHEN 'fr' THEN 'france' || place[3:] WHEN 'de' THEN 'germany' || place[3:] WHEN 'no' THEN 'norway' || place[3:]
                WHEN 'se' THEN 'sweden' || place[3:] WHEN 'ch' THEN 'switzerland' || place[3:]
                WHEN 'za' THEN 'southafrica' || place[3:] WHEN 'ae' THEN 'uae' || place[3:] ELSE place
            END
        END,
        place
    ) AS region,
    TRY_CAST(CAST(tags AS JSON) AS MAP(VARCHAR, VARCHAR)) AS tags,
    nullif(info->>'$.VMName', '') AS vm_name,
    nullif(info->>'$.ServiceType', '') AS vm_size,
    lower(coalesce(info->>'$.UsageType', '')) AS usage_type,
    regexp_matches(resource_key, '/providers/microsoft\.compute/virtualmachine(s|scalesets)/[^/]+') AS is_machine,
    -- Usage covered by a reservation or savings plan, or the commitment itself.
    benefit_id IS NOT NULL OR pricing_model IN ('reservation', 'savingsplan') AS is_committed
FROM texts;

CREATE OR REPLACE TEMP TABLE azure_rows AS
WITH told AS (
    SELECT
        *,
        CASE
            WHEN charge_type = 'tax' THEN 'tax'
            WHEN charge_type LIKE 'unused%' THEN 'commitment_unused'
            WHEN charge_type IN ('purchase', 'refund') AND (is_committed OR lower(concat_ws(' ', product_name, order_name)) LIKE '%reserved vm%')
            THEN 'commitment_fee'
            WHEN charge_type = 'refund' THEN 'refund'
            WHEN charge_type LIKE '%credit%' OR charge_type = 'adjustment' THEN 'credit'
            WHEN lower(concat_ws(' ', meter_category, product_name)) LIKE '%support%' AND charge_type <> 'usage'
                OR lower(meter_category) LIKE '%support%' THEN 'support'
            -- Reserved capacity without a machine is charged to the reservation itself.
            WHEN resource_key LIKE '%/capacityreservationgroups/%' THEN 'reserved_unused'
            WHEN regexp_matches(lower(meter_category), 'bandwidth|virtual network|load balancer|gateway|expressroute|firewall|content delivery|front door|azure dns|ip address')
            THEN 'network'
            WHEN regexp_matches(lower(meter_category), '^storage|managed disk|azure netapp|backup') THEN 'storage'
            WHEN charge_type = 'usage' AND ((is_machine AND lower(meter_category) LIKE 'virtual machines%') OR usage_type = 'computehr')
            THEN 'instance'
            ELSE 'other'
        END AS kind
    FROM azure_read
)
SELECT
    *,
    kind = 'commitment_fee' OR kind = 'commitment_unused' OR (charge_type = 'usage' AND is_committed) AS is_of_commitment,
    pricing_model = 'spot' OR regexp_matches(lower(concat_ws(' ', meter_name, meter_subcategory, product_name)), '\bspot\b|low priority') AS is_spot,
    CASE WHEN kind = 'instance' THEN azure_machine(resource_key, lower(vm_name)) END AS instance_key,
    -- Quantity is in hours for any unit ('1 Hour', '10 Hours', '100 Hours'); licenses run in the machine's hours.
    CASE WHEN kind = 'instance' AND coalesce(unit, 'hour') ILIKE '%hour%' AND lower(meter_category) NOT LIKE '%licen%'
        AND usage_type IN ('', 'computehr') THEN quantity END AS instance_hours
FROM told;
