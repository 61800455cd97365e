-- reads: raw (Anthropic's cost report or the Console's costs as text)
-- writes: anthropic_groups: the format of each file, by the grouping of its costs; mapped (view): charges; returns findings about the export: level, code, message, fix
-- invariant: one charge per row, none for a day without costs; a report's amounts are hundredths of its currency, the Console's are dollars
CREATE OR REPLACE TEMP TABLE anthropic_groups AS
SELECT source_file,
    CASE WHEN count(usage_date_utc) > 0 THEN 'anthropic-console' WHEN count(description) > 0 THEN 'anthropic' ELSE 'anthropic-totals' END AS format
FROM raw
GROUP BY source_file;

CREATE OR REPLACE TEMP VIEW mapped AS
WITH typed AS (
    SELECT *,
        coalesce(bill_moment(starting_at), TRY_CAST(TRY_CAST(usage_date_utc AS DATE) AS TIMESTAMP)) AS starts,
        CASE WHEN usage_date_utc IS NULL THEN bill_moment(ending_at) ELSE starts + INTERVAL 1 DAY END AS ends,
        CASE WHEN usage_date_utc IS NULL THEN TRY_CAST(amount AS DECIMAL(36, 10)) * 0.01::DECIMAL(2, 2) ELSE bill_decimal(cost_usd) END::DECIMAL(38, 12) AS cost
    FROM raw
    WHERE usage_date_utc IS NOT NULL OR amount IS NOT NULL OR currency IS NOT NULL
)
SELECT 'anthropic' AS provider, g.format, strftime(starts, '%Y-%m') AS billing_period, NULL::BOOLEAN AS is_invoiced,
    hash(starts, ends, description, cost_type, model, token_type, context_window, service_tier, inference_geo, workspace_id, workspace, api_key, api_key_id, usage_type, speed)
        AS charge_key,
    starts AS charge_period_start, ends AS charge_period_end, 'Usage' AS charge_category, 'Usage-Based' AS charge_frequency,
    coalesce(description, concat_ws(' ', model, cost_type, token_type)) AS charge_description, cost AS billed_cost, cost AS effective_cost,
    bill_decimal(list_price_usd) AS list_cost,
    CASE WHEN usage_date_utc IS NULL THEN coalesce(upper(currency), getvariable('currency')) ELSE 'USD' END AS billing_currency,
    coalesce(workspace_id, workspace) AS sub_account_id, workspace AS sub_account_name,
    'Claude API' AS service_name, 'AI and Machine Learning' AS service_category,
    CASE WHEN inference_geo NOT IN ('global', 'not_available') THEN inference_geo END AS region,
    model AS sku_id, coalesce(token_type, cost_type) AS sku_meter, charge_description AS sku_description,
    nullif(to_json(struct_pack(context_window := context_window, service_tier := service_tier, speed := speed))::VARCHAR,
        '{"context_window":null,"service_tier":null,"speed":null}') AS sku_price_details,
    map_from_entries(list_filter([{'key': 'api_key', 'value': api_key}, {'key': 'api_key_id', 'value': api_key_id}], lambda one: one.value IS NOT NULL)) AS tags,
    hash(api_key, api_key_id) AS label_digest,
    'other' AS kind, 'same' AS cost_cause, source_file, file_row_number + 1 AS source_row
FROM typed
JOIN anthropic_groups AS g USING (source_file);

-- Findings about the export.
SELECT 'warning' AS level, 'more_pages' AS code, 'Anthropic has more costs: another page follows the last one' AS message,
    'query with page = its next_page until has_more is false, and load all pages together' AS fix
FROM raw
HAVING arg_max(has_more, starting_at) = 'true'
UNION ALL
SELECT 'warning', 'not_by_item', 'costs of Anthropic are not by description: their models and tokens are unknown',
    'query with group_by = description and workspace_id'
FROM raw
HAVING count(amount) > 0 AND count(description) = 0;
