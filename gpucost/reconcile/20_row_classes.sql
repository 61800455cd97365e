-- reads: bill_rows, bills, machine_hours, billed_hours, billed_nodes, catalog_instances, fx_rates; $month, $currency the report's
-- writes: row_classes, the bill rows of the billing period, summed by what they are: the machine hour that they belong to, else their class on the invoice and in effective cost
-- invariant: each bill row is counted once; amounts are in the report's currency, in the bill's where that has no rate
CREATE OR REPLACE TEMP TABLE row_classes AS
WITH gpu_types AS (
    SELECT DISTINCT lower(instance_type) AS instance_type FROM catalog_instances WHERE gpu_count > 0
),
gpu_machines AS (
    SELECT instance_key FROM billed_hours
    UNION
    SELECT instance_key FROM billed_nodes
),
told AS (
    SELECT r.bill_id, r.billing_currency AS currency, epoch_ms(r.charge_period_start) AS start_ms, r.billed_cost, r.effective_cost, r.kind,
        -- what a savings plan covers is billed at its price without one, and taken back beside it
        r.kind = 'commitment_fee' AND r.charge_category = 'Usage' AS takes_back,
        CASE WHEN r.kind IN ('instance', 'node_fee') OR takes_back THEN r.instance_key END AS machine_key,
        r.kind IN ('instance', 'reserved_unused')
            AND (lower(r.instance_type) IN (FROM gpu_types) OR coalesce(regexp_matches(r.sku_description, '\bgpu\b|nvidia', 'i'), false)) AS has_gpu_type
    FROM bill_rows AS r JOIN bills AS b USING (bill_id)
    WHERE b.billing_period = $month
),
placed AS (
    SELECT t.* EXCLUDE (bill_id), m.rate AS machine_rate, CASE WHEN t.start_ms < m.to_ms THEN m.machine_hour END AS machine_hour,
        t.machine_key IN (FROM gpu_machines) AS is_gpu_machine
    FROM told AS t
    ASOF LEFT JOIN machine_hours AS m
        ON m.bill_id = t.bill_id AND m.instance_key = t.machine_key AND m.currency = t.currency AND m.from_ms <= t.start_ms
),
named AS (
    SELECT *,
        CASE WHEN machine_hour IS NOT NULL THEN NULL
            WHEN takes_back THEN 'covered_usage'
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
    SELECT machine_hour, class, currency, start_ms, machine_rate, count(*) AS rows, sum(billed_cost) AS billed_cost, sum(effective_cost) AS effective_cost
    FROM named
    GROUP BY ALL
),
rated AS (
    SELECT s.* EXCLUDE (currency), CASE WHEN s.machine_hour IS NULL THEN f.rate ELSE s.machine_rate END AS rate,
        CASE WHEN rate IS NULL THEN s.currency ELSE $currency END AS currency
    FROM summed AS s ASOF LEFT JOIN fx_rates AS f ON f.currency = s.currency AND f.from_ms <= s.start_ms
)
SELECT machine_hour, currency, class AS effective_class,
    -- of a fee, the invoice knows no unused part
    CASE class WHEN 'unused_commitments' THEN 'commitment_fees' ELSE class END AS billed_class,
    sum(rows)::BIGINT AS rows,
    sum((billed_cost * coalesce(rate, 1))::DECIMAL(38, 12)) AS billed_cost, sum((effective_cost * coalesce(rate, 1))::DECIMAL(38, 12)) AS effective_cost
FROM rated
GROUP BY ALL;
