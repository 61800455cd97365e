-- reads: raw (an Azure cost export or query answer as text), the macros of azure_1_text, the variable currency
-- writes: azure_read (view): one typed row per row of the export
-- invariant: as many rows as raw
CREATE OR REPLACE TEMP VIEW azure_read AS
WITH texts AS (
    SELECT
        source_file,
        file_row_number,
        azure_day("date") AS day,
        coalesce(strftime(azure_day(nullif(billing_period_start, '')), '%Y-%m'), strftime(azure_day("date"), '%Y-%m')) AS billing_period,
        nullif(cost, '') IS NULL AS is_blank,
        azure_number(nullif(cost, '')) AS cost,
        azure_number(nullif(payg_cost, '')) AS payg_cost,
        -- Prices in another currency than the bill's are not its prices.
        coalesce(nullif(pricing_currency, ''), raw.currency, '') = coalesce(raw.currency, '') AS is_priced_as_billed,
        CASE WHEN is_priced_as_billed THEN azure_number(nullif(payg_price, '')) END AS list_price,
        CASE WHEN is_priced_as_billed THEN azure_number(nullif(unit_price, '')) END AS contract_price,
        nullif(invoice_id, '') AS invoice_id,
        nullif(product_id, '') AS product_id,
        coalesce(nullif(currency, ''), getvariable('currency')) AS currency,
        CAST(azure_number(nullif(quantity, '')) AS DOUBLE) AS quantity,
        nullif(unit_of_measure, '') AS unit,
        coalesce(nullif(meter_category, ''), nullif(service_name, ''), '') AS meter_category,
        coalesce(meter_subcategory, '') AS meter_subcategory,
        coalesce(meter_name, '') AS meter_name,
        nullif(meter_id, '') AS meter_id,
        coalesce(product_name, '') AS product_name,
        coalesce(service_family, '') AS service_family,
        nullif(resource_id, '') AS resource_id,
        -- Exports of one bill differ in how they case an id.
        lower(nullif(resource_id, '')) AS resource_key,
        nullif(resource_name, '') AS resource_name,
        nullif(resource_type, '') AS resource_type,
        -- 'US East', 'US East 2', 'eastus': one region.
        nullif(replace(lower(resource_location), ' ', ''), '') AS place,
        nullif(availability_zone, '') AS zone,
        coalesce(nullif(billing_account_id, ''), nullif(billing_account_name, '')) AS billing_account_id,
        lower(nullif(subscription_id, '')) AS subscription_id,
        nullif(subscription_name, '') AS subscription_name,
        lower(replace(coalesce(nullif(charge_type, ''), 'Usage'), ' ', '')) AS charge_type,
        lower(replace(coalesce(pricing_model, ''), ' ', '')) AS pricing_model,
        nullif(frequency, '') AS frequency,
        coalesce(nullif(reservation_id, ''), nullif(benefit_id, ''), nullif(azure_json(additional_info)->>'$.ReservationId', '')) AS benefit_id,
        coalesce(nullif(reservation_name, ''), nullif(benefit_name, '')) AS benefit_name,
        nullif(product_order_name, '') AS order_name,
        azure_json(nullif(tags, '')) AS tags,
        azure_json(nullif(additional_info, '')) AS info
    FROM raw
)
SELECT
    * EXCLUDE (place, tags, info, is_priced_as_billed),
    coalesce(
        -- 'usnorthcentral' -> 'northcentralus', 'euwest' -> 'westeurope', 'jaeast' -> 'japaneast': how Azure's own names read.
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
    -- Usage that a reservation or savings plan covers, or such a thing itself.
    benefit_id IS NOT NULL OR pricing_model IN ('reservation', 'savingsplan') AS is_committed
FROM texts;
