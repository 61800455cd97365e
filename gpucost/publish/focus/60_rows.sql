-- reads: focus_charges, focus_splits, cost_runs, nodes, billed_nodes, allocations; $month the billing period, $from_ms, $to_ms the same in UTC, $currency the report's
-- writes: focus_unit (macro): a unit as the specification spells it; focus_rows, the file's rows in order, with the columns of every supported version of FOCUS
-- invariant: rows of one original charge have its identifiers, and add up to it; cost on no bill has BilledCost 0
CREATE OR REPLACE TEMP MACRO focus_unit(unit) AS CASE
    WHEN regexp_matches(unit, '^(1 )?h((ou)?rs?)?$', 'i') THEN 'Hours'
    WHEN unit ILIKE 'second%' THEN 'Seconds'
    WHEN unit ILIKE 'byte-seconds' THEN 'B-Seconds'
    WHEN unit ILIKE 'gibibyte hour' THEN 'GiB-Hours'
    -- 1K tokens, 1M, 1,000 Tokens, tokens
    WHEN regexp_matches(unit, '^[0-9,]+ ?[km]\b|^[0-9,]*[ -]*tokens?$', 'i')
        THEN concat_ws(' ', nullif(coalesce(TRY_CAST(replace(regexp_extract(unit, '^[0-9,]*'), ',', '') AS BIGINT), 1)
                * CASE lower(regexp_extract(unit, '^[0-9,]+ ?([km])\b', 1, 'i')) WHEN 'k' THEN 1000 WHEN 'm' THEN 1000000 ELSE 1 END, 1),
            coalesce(nullif(regexp_replace(unit, '^[0-9,]* ?([km]\b)? *(tokens?$)?', '', 'i'), ''), 'Tokens'))
    ELSE unit
END;
CREATE OR REPLACE TEMP TABLE focus_rows AS
WITH
-- cost on no bill, by UTC day, node and holder: estimates add up to estimated_cost of the period; cells of a run are alike
unbilled AS (
    SELECT day * 86400000 AS from_ms, c.kind AS holder, team, n.cluster, node, coalesce(machine_id, n.cluster || '/' || n.node) AS machine,
        provider, region, zone, instance_type, gpu_model, capacity_type, namespace, workload,
        is_estimate, sum(part * cells)::DECIMAL(38, 12) AS cost,
        -- the unbilled part of a cell that a bill covers in part
        sum((gpu_ms * (part / c.cost))::DECIMAL(38, 6) * cells) / 3600000 AS gpu_hours
    FROM (
        SELECT *, least(hour + hours, day * 24 + 24) - greatest(hour, day * 24) AS cells
        FROM (
            SELECT *, from_ms // 3600000 AS hour,
                CASE WHEN is_estimate THEN estimated_cost WHEN node_id NOT IN (SELECT node_id FROM billed_nodes) THEN cost - estimated_cost END AS part,
                unnest(range(greatest(hour // 24, $from_ms // 86400000), least((hour + hours - 1) // 24 + 1, $to_ms // 86400000))) AS day
            FROM cost_runs CROSS JOIN (VALUES (true), (false)) AS _(is_estimate)
        )
    ) AS c
    JOIN nodes AS n USING (node_id)
    LEFT JOIN allocations AS a ON a.allocation_id = c.allocation_id
    WHERE part <> 0
    GROUP BY ALL
),
parts AS (
    SELECT s.*, c.* EXCLUDE (charge_id, billed_cost, effective_cost, list_cost, contracted_cost, pricing_quantity, consumed_quantity,
            commitment_discount_quantity, instance_hours, list_unit_price, contracted_unit_price) RENAME (kind AS charge_kind),
        false AS is_estimate
    FROM focus_splits AS s JOIN focus_charges AS c USING (charge_id)
    UNION ALL BY NAME
    SELECT holder, team, cluster, node, namespace, workload, gpu_model, capacity_type, gpu_hours, gpu_hours AS measured_gpu_hours, 1::DECIMAL(18, 12) AS ratio,
        'other' AS charge_kind, instance_type,
        0 AS billed_cost, cost AS effective_cost, cost AS list_cost, cost AS contracted_cost,
        gpu_hours::DECIMAL(38, 12) AS pricing_quantity, pricing_quantity AS consumed_quantity,
        (cost / nullif(gpu_hours, 0))::DECIMAL(38, 12) AS list_unit_price, list_unit_price AS contracted_unit_price,
        coalesce(instance_type, gpu_model, 'GPU node') AS sku_id, concat_ws('/', sku_id, capacity_type) AS sku_price_id, 'GPU-Hours' AS sku_meter,
        provider, CASE WHEN is_estimate THEN 'gpucost-estimate' ELSE 'gpucost-price-book' END AS payer, epoch_ms(from_ms) AS charge_period_start, epoch_ms(from_ms + 86400000) AS charge_period_end,
        'Usage' AS charge_category, CASE WHEN is_estimate THEN 'Estimate by gpucost' ELSE 'Final price of the price book' END || ': no bill covers this' AS charge_description, $currency AS billing_currency,
        'GPU nodes' AS service_name, region, zone, machine AS resource_id, node AS resource_name, 'Virtual Machine' AS resource_type,
        'GPU-Hours' AS pricing_unit, 'GPU-Hours' AS consumed_unit,
        CASE capacity_type WHEN 'spot' THEN 'Dynamic' ELSE 'Standard' END AS pricing_category, is_estimate
    FROM unbilled
),
ordered AS (
    SELECT *, holder <> 'instance_without_metrics' AS is_split,
        CASE provider WHEN 'aws' THEN 'AWS' WHEN 'gcp' THEN 'Google Cloud' WHEN 'azure' THEN 'Microsoft' WHEN 'oci' THEN 'Oracle' WHEN 'openai' THEN 'OpenAI' WHEN 'anthropic' THEN 'Anthropic' ELSE coalesce(provider, 'Own machines') END AS seller,
        map_from_entries(list_filter(
            [('cluster', cluster), ('namespace', namespace), ('team', team), ('workload', workload)],
            lambda tag: struct_extract_at(tag, 2) IS NOT NULL)) AS own_tags,
        coalesce(tags, MAP([]::VARCHAR[], []::VARCHAR[])) AS origin_tags,
        coalesce(consumed_unit, pricing_unit, 'Hours') AS consumed_or_priced,
        coalesce(pricing_unit, consumed_unit, 'Hours') AS priced_or_consumed
    FROM parts
    ORDER BY is_estimate, charge_id, charge_period_start, resource_id, holder, cluster, node, team, namespace, workload, gpu_model, capacity_type, provider, sku_id
)
SELECT
    zone AS AvailabilityZone,
    billed_cost::DECIMAL(38, 12) AS BilledCost,
    payer AS BillingAccountId,
    NULL::VARCHAR AS BillingAccountName,
    billing_currency AS BillingCurrency,
    ($month || '-01')::DATE::TIMESTAMP::TIMESTAMPTZ AS BillingPeriodStart,
    (($month || '-01')::DATE + INTERVAL 1 MONTH)::TIMESTAMPTZ AS BillingPeriodEnd,
    capacity_reservation_id AS CapacityReservationId,
    CASE WHEN capacity_reservation_id IS NOT NULL THEN coalesce(capacity_reservation_status, 'Used') END AS CapacityReservationStatus,
    charge_category AS ChargeCategory,
    charge_class AS ChargeClass,
    coalesce(charge_description, sku_description, instance_type) AS ChargeDescription,
    coalesce(charge_frequency, 'Usage-Based') AS ChargeFrequency,
    charge_period_start::TIMESTAMPTZ AS ChargePeriodStart,
    charge_period_end::TIMESTAMPTZ AS ChargePeriodEnd,
    -- columns that describe a commitment or a SKU are null without its id
    CASE WHEN commitment_discount_id IS NOT NULL THEN commitment_discount_category END AS CommitmentDiscountCategory,
    commitment_discount_id AS CommitmentDiscountId,
    CASE WHEN commitment_discount_id IS NOT NULL THEN commitment_discount_name END AS CommitmentDiscountName,
    commitment_discount_quantity AS CommitmentDiscountQuantity,
    CASE WHEN commitment_discount_id IS NOT NULL THEN commitment_discount_status END AS CommitmentDiscountStatus,
    CASE WHEN commitment_discount_id IS NOT NULL THEN commitment_discount_type END AS CommitmentDiscountType,
    CASE WHEN commitment_discount_quantity IS NOT NULL THEN focus_unit(commitment_discount_unit) END AS CommitmentDiscountUnit,
    consumed_quantity::DECIMAL(38, 12) AS ConsumedQuantity,
    CASE WHEN consumed_quantity IS NOT NULL THEN focus_unit(consumed_or_priced) END AS ConsumedUnit,
    contracted_cost::DECIMAL(38, 12) AS ContractedCost,
    contracted_unit_price AS ContractedUnitPrice,
    effective_cost::DECIMAL(38, 12) AS EffectiveCost,
    seller AS HostProviderName,
    invoice_id AS InvoiceId,
    CASE payer WHEN 'gpucost-estimate' THEN 'No invoice: an estimate by gpucost' WHEN 'gpucost-price-book' THEN 'No invoice: a final price of the price book' ELSE seller END AS InvoiceIssuerName,
    list_cost::DECIMAL(38, 12) AS ListCost,
    list_unit_price AS ListUnitPrice,
    coalesce(pricing_category, CASE WHEN charge_category IN ('Usage', 'Purchase') THEN 'Standard' END) AS PricingCategory,
    pricing_quantity::DECIMAL(38, 12) AS PricingQuantity,
    CASE WHEN pricing_quantity IS NOT NULL THEN focus_unit(priced_or_consumed) END AS PricingUnit,
    seller AS ProviderName,
    seller AS PublisherName,
    region AS RegionId,
    region AS RegionName,
    CASE charge_kind WHEN 'api' THEN resource_id ELSE coalesce(resource_id, instance_key) END AS ResourceId,
    resource_name AS ResourceName,
    CASE charge_kind WHEN 'api' THEN CASE WHEN resource_id IS NOT NULL THEN resource_type END ELSE coalesce(resource_type, 'Virtual Machine') END AS ResourceType,
    CASE charge_kind WHEN 'api' THEN 'AI and Machine Learning' ELSE 'Compute' END AS ServiceCategory,
    coalesce(service_name, seller) AS ServiceName,
    seller AS ServiceProviderName,
    CASE charge_kind WHEN 'api' THEN 'Generative AI' WHEN 'node_fee' THEN 'Containers' ELSE 'Virtual Machines' END AS ServiceSubcategory,
    sku_id AS SkuId,
    CASE WHEN sku_id IS NOT NULL THEN coalesce(sku_meter, sku_description) END AS SkuMeter,
    CASE WHEN sku_price_id IS NOT NULL THEN sku_price_details END AS SkuPriceDetails,
    sku_price_id AS SkuPriceId,
    sub_account_id AS SubAccountId,
    sub_account_name AS SubAccountName,
    to_json(origin_tags)::VARCHAR AS OriginTags,
    to_json(map_concat(origin_tags, own_tags))::VARCHAR AS Tags,
    CASE WHEN holder = 'api' THEN 'gpucost-api-usage' WHEN is_split THEN 'gpucost-held-time' END AS AllocatedMethodId,
    CASE WHEN is_split AND holder <> 'api' THEN json_object('Elements', [
        json_object('AllocatedRatio', ratio, 'UsageUnit', 'GPU-Hours', 'UsageQuantity', round(coalesce(measured_gpu_hours, 0), 9))])::VARCHAR END AS AllocatedMethodDetails,
    CASE WHEN holder = 'allocated' THEN concat_ws('/', cluster, namespace, workload) END AS AllocatedResourceId,
    CASE WHEN holder = 'allocated' THEN workload END AS AllocatedResourceName,
    CASE WHEN holder IN ('allocated', 'api') THEN to_json(own_tags)::VARCHAR END AS AllocatedTags,
    holder AS kind,
    charge_kind, CASE WHEN charge_kind <> 'api' THEN instance_key END AS instance_key, instance_type, instance_hours,
    cluster, node, team, namespace, workload, gpu_model, capacity_type,
    round(coalesce(gpu_hours, 0), 9) AS gpu_hours,
    ratio AS share,
    is_estimate,
    lpad(lower(to_hex(charge_key)), 16, '0') AS origin_charge_key,
    source_file AS origin_file,
    source_row AS origin_row
FROM ordered;
