-- reads: raw (OpenAI's costs as text), the variable currency
-- writes: openai_groups: the format of each file, by the grouping of its costs; mapped (view): charges; returns findings about the export: level, code, message, fix
-- invariant: one charge per row with an amount; none for a day without costs
CREATE OR REPLACE TEMP TABLE openai_groups AS
SELECT source_file, concat_ws('-', 'openai', CASE WHEN count(start_time_iso) > 0 THEN 'dashboard' END, CASE WHEN count(line_item) > 0 THEN 'items' END, CASE WHEN count(project_id) > 0 THEN 'projects' END,
    CASE WHEN count(api_key_id) > 0 THEN 'keys' END, CASE WHEN count(user_id) > 0 THEN 'users' END) AS format
FROM raw
GROUP BY source_file;

CREATE OR REPLACE TEMP VIEW mapped AS
WITH typed AS (
    SELECT *,
        coalesce(TRY(make_timestamp(TRY_CAST(start_time AS BIGINT) * 1000000)), bill_moment(start_time_iso)) AS starts,
        coalesce(TRY(make_timestamp(TRY_CAST(end_time AS BIGINT) * 1000000)), bill_moment(end_time_iso)) AS ends,
        bill_decimal(amount_value) AS cost,
        -- 'gpt-4o-2024-08-06, cached input'
        regexp_extract(line_item, '^([^,|]+), *((?:cached |audio |image |text )*(?:input|output)[ _a-z]*)$', ['model', 'meter']) AS part
    FROM raw
    WHERE amount_value IS NOT NULL OR line_item IS NOT NULL
)
SELECT 'openai' AS provider, g.format, strftime(starts, '%Y-%m') AS billing_period, NULL::BOOLEAN AS is_invoiced,
    hash(starts, ends, line_item, project_id, api_key_id, user_id, organization_id, upper(amount_currency)) AS charge_key,
    starts AS charge_period_start, ends AS charge_period_end, 'Usage' AS charge_category, 'Usage-Based' AS charge_frequency,
    line_item AS charge_description, cost AS billed_cost, cost AS effective_cost,
    coalesce(upper(amount_currency), getvariable('currency')) AS billing_currency,
    organization_id AS billing_account_id, project_id AS sub_account_id, project_name AS sub_account_name,
    'OpenAI API' AS service_name, 'AI and Machine Learning' AS service_category,
    nullif(part.model, '') AS sku_id, nullif(part.meter, '') AS sku_meter, line_item AS sku_description,
    bill_decimal(quantity) AS consumed_quantity,
    -- API answers contain no unit.
    CASE WHEN quantity IS NOT NULL THEN coalesce(quantity_unit, CASE WHEN part.meter <> '' THEN 'tokens' END) END AS consumed_unit,
    map_from_entries(list_filter([{'key': 'api_key_id', 'value': api_key_id}, {'key': 'user_id', 'value': user_id}], lambda one: one.value IS NOT NULL)) AS tags,
    hash(api_key_id, user_id) AS label_digest,
    'other' AS kind, 'same' AS cost_cause, source_file, file_row_number + 1 AS source_row
FROM typed
JOIN openai_groups AS g USING (source_file);

-- Findings about the export.
SELECT 'warning' AS level, 'more_pages' AS code, 'OpenAI has more costs: another page follows the last one' AS message,
    'query with page = its next_page until has_more is false, and load all pages together' AS fix
FROM raw
HAVING arg_max(has_more, TRY_CAST(start_time AS BIGINT)) = 'true'
UNION ALL
SELECT 'warning', 'not_by_item', 'costs of OpenAI are not by line item: their models and tokens are unknown', 'query with group_by = line_item and project_id'
FROM raw
HAVING count(amount_value) > 0 AND count(line_item) = 0;
