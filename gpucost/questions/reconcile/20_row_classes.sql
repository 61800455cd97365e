-- reads: effective_rows, token_charges, machine_hours, billed_hours, billed_nodes, catalog_instances, fx_rates; $month, $currency the report's
-- writes: row_classes, the bill rows of the billing period, summed by machine hour, or by machine for a longer fee, otherwise by their class on the invoice and in effective cost
-- invariant: each bill row counts once; amounts are in the report's currency, or in the bill's if that has no rate; effective_cost is before discount_cost and after amortized_cost
CREATE OR REPLACE TEMP TABLE row_classes AS
WITH gpu_types AS (
    SELECT DISTINCT lower(instance_type) AS instance_type FROM catalog_instances WHERE gpu_count > 0
),
gpu_machines AS (
    SELECT instance_key FROM billed_hours
    UNION
    SELECT instance_key FROM billed_nodes
),
-- discounts on a resource belong to its class; machines with GPUs include theirs in their cost
discounted AS (
    SELECT r.bill_id, r.resource_id, r.sku_description, min(r.kind) AS kind
    FROM effective_rows AS r
    LEFT JOIN gpu_machines AS g ON g.instance_key = r.instance_key AND r.kind IN ('instance', 'node_fee')
    WHERE r.billing_period = $month AND r.kind IN ('instance', 'node_fee', 'managed', 'storage', 'network', 'other') AND g.instance_key IS NULL
        AND r.resource_id IN (SELECT resource_id FROM effective_rows WHERE billing_period = $month AND kind = 'discount')
    GROUP BY ALL
),
told AS (
    -- usage covered by a savings plan is billed at its price without one, and a second row takes it back
    SELECT r.bill_id, r.format, r.billing_currency AS currency, epoch_ms(r.charge_period_start) AS start_ms, coalesce(d.kind, r.kind) AS kind, r.kind = 'discount' AS is_discount,
        r.kind = 'commitment_fee' AND r.charge_category = 'Usage' AS takes_back, b.source_row IS NOT NULL AS is_bought_tokens,
        g.instance_key AS machine_key,
        CASE WHEN r.kind IN ('instance', 'reserved_unused') AND g.instance_key IS NULL THEN lower(r.instance_type) END AS instance_type,
        CASE WHEN r.kind IN ('instance', 'reserved_unused') AND g.instance_key IS NULL THEN r.sku_description END AS sku_description,
        count(*) AS rows, sum(r.billed_cost) AS billed_cost, sum(r.effective_cost) AS effective_cost, sum(r.discount_cost) AS discount_cost, sum(r.amortized_cost) AS amortized_cost
    FROM effective_rows AS r
    LEFT JOIN gpu_machines AS g
        ON g.instance_key = r.instance_key AND (r.kind IN ('instance', 'node_fee') OR r.kind = 'commitment_fee' AND r.charge_category = 'Usage')
    LEFT JOIN token_charges AS b ON b.bill_id = r.bill_id AND b.source_file = r.source_file AND b.source_row = r.source_row
    LEFT JOIN discounted AS d ON d.bill_id = CASE WHEN r.kind = 'discount' AND (r.instance_key IS NOT NULL OR bearer_of(r) IS NULL) THEN r.bill_id END
        AND d.resource_id = r.resource_id AND d.sku_description IS NOT DISTINCT FROM r.sku_description
    WHERE r.billing_period = $month
    GROUP BY ALL
),
machines AS (
    SELECT DISTINCT machine, format, instance_key, currency FROM machine_hours
),
placed AS (
    SELECT t.kind, t.is_discount, t.takes_back, t.is_bought_tokens, t.machine_key IS NOT NULL AS is_gpu_machine, t.currency, t.start_ms, t.rows, t.billed_cost, t.effective_cost, t.discount_cost, t.amortized_cost, h.rate AS machine_rate,
        t.instance_type IN (FROM gpu_types) OR coalesce(regexp_matches(t.sku_description, '\bgpu\b|nvidia', 'i'), false) AS has_gpu_type,
        coalesce(CASE WHEN t.start_ms < h.to_ms THEN h.machine_hour END, CASE WHEN t.kind = 'node_fee' THEN m.machine END) AS place
    FROM told AS t
    ASOF LEFT JOIN machine_hours AS h
        ON h.bill_id = t.bill_id AND h.instance_key = t.machine_key AND h.currency = t.currency AND h.from_ms <= t.start_ms
    LEFT JOIN machines AS m ON m.format = t.format AND m.instance_key = t.machine_key AND m.currency = t.currency
),
named AS (
    SELECT *,
        CASE WHEN place IS NOT NULL THEN NULL
            WHEN takes_back THEN 'covered_usage'
            WHEN is_bought_tokens THEN 'bought_tokens'
            WHEN kind = 'instance' AND is_gpu_machine THEN 'other_export'
            WHEN kind = 'instance' AND has_gpu_type THEN 'gpu_without_id'
            WHEN kind IN ('instance', 'node_fee') THEN 'other_machines'
            WHEN kind = 'reserved_unused' AND has_gpu_type THEN 'unused_gpu_reservations'
            WHEN kind = 'reserved_unused' THEN 'unused_reservations'
            WHEN kind = 'commitment_fee' THEN 'commitment_fees'
            WHEN kind = 'commitment_unused' THEN 'unused_commitments'
            WHEN kind IN ('managed', 'storage', 'network', 'support', 'tax', 'split') THEN kind
            WHEN kind IN ('discount', 'credit', 'refund') THEN kind || 's'
            ELSE 'other_services' END AS class
    FROM placed
),
summed AS (
    SELECT place, class, is_discount, currency, start_ms, machine_rate, sum(rows) AS rows, sum(COLUMNS('_cost$'))
    FROM named
    GROUP BY ALL
),
rated AS (
    SELECT s.* EXCLUDE (currency), CASE WHEN s.place > 0 THEN s.machine_rate ELSE f.rate END AS rate,
        CASE WHEN rate IS NULL THEN s.currency ELSE $currency END AS currency
    FROM summed AS s ASOF LEFT JOIN fx_rates AS f ON f.currency = s.currency AND f.from_ms <= s.start_ms
)
SELECT place, currency, class AS effective_class,
    -- an invoice does not show the unused part of a fee
    CASE WHEN is_discount THEN 'discounts' WHEN class = 'unused_commitments' THEN 'commitment_fees' ELSE class END AS billed_class,
    sum(rows)::BIGINT AS rows,
    sum((COLUMNS('_cost$') * coalesce(rate, 1))::DECIMAL(38, 12))
FROM rated
GROUP BY ALL;
