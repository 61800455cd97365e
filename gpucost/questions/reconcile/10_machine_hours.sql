-- reads: billed_hours, bills, billed_nodes, bill_rows, nodes, collected, $month
-- writes: machine_hours, one row per (bill, machine, charge period) of the billing period: its cost, and the time that metrics cover; machine is a negative number, the same for all hours of a machine in one format and currency
-- invariant: costs are in the report's currency; seen_ms is time in the charge period that a node was up and collected
CREATE OR REPLACE TEMP TABLE machine_hours AS
WITH ranked AS (
    -- a machine hour that a later billing period corrects counts as seen once
    SELECT *, row_number() OVER (PARTITION BY instance_key, from_ms ORDER BY billing_period, bill_id, currency) = 1 AS is_first,
        -- another billing period has hours of the machine or of its pool (docs/billing-prices.md)
        min(billing_period) OVER (PARTITION BY pool) <> max(billing_period) OVER (PARTITION BY pool) AS is_settled_elsewhere
    FROM billed_hours
),
asked AS (
    SELECT row_number() OVER () AS machine_hour, -dense_rank() OVER (ORDER BY instance_key, currency, format) AS machine,
        bill_id, r.provider, format, instance_key, instance_type, currency, rate, from_ms, to_ms,
        instance_hours, is_unexplained, is_first, is_settled_elsewhere,
        (effective_cost * rate)::DECIMAL(38, 9) AS effective_cost, (discount_cost * rate)::DECIMAL(38, 9) AS discount_cost,
        ((price_per_hour * rate)::DECIMAL(38, 12))::DECIMAL(38, 9) AS price_per_hour
    FROM ranked AS r JOIN bills AS b USING (bill_id)
    WHERE r.billing_period = $month
),
seen AS (
    SELECT a.machine_hour,
        sum(greatest(0, least(n.up_to_ms, c.to_ms, a.to_ms) - greatest(n.up_from_ms, c.from_ms, a.from_ms))) AS seen_ms
    FROM asked AS a
    JOIN billed_nodes AS b USING (instance_key)
    JOIN nodes AS n USING (node_id)
    JOIN collected AS c ON c.cluster = n.cluster AND c.from_ms < a.to_ms AND a.from_ms < c.to_ms
    GROUP BY a.machine_hour
),
known AS (
    SELECT DISTINCT instance_key FROM billed_nodes
),
named AS (
    SELECT r.instance_key, min(machine_name(r.instance_key, r.resource_id)) AS billed_name
    FROM bill_rows AS r SEMI JOIN asked USING (bill_id, instance_key)
    WHERE r.kind = 'instance'
    GROUP BY ALL
)
SELECT a.*, coalesce(m.billed_name, a.instance_key) AS billed_name, k.instance_key IS NOT NULL AS has_node,
    CASE WHEN a.is_first AND a.price_per_hour IS NOT NULL THEN coalesce(s.seen_ms, 0) ELSE 0 END AS seen_ms
FROM asked AS a
LEFT JOIN seen AS s USING (machine_hour)
LEFT JOIN known AS k USING (instance_key)
LEFT JOIN named AS m USING (instance_key);
