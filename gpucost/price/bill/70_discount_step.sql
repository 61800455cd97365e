-- reads: billed_hours, billed_nodes, machine_riders, discount_rates; $node_id, $at_ms
-- writes: nothing; answers the discounts on an hour of a node at a moment, over the machines with which it shares a price: the amount, the number of rows, and the first of them; no row without discounts
-- invariant: one row at most; the amount is negative
WITH shared AS (
    SELECT instance_key, from_ms, to_ms, currency, effective_cost, discount_cost, discount_rates, instance_hours
    FROM billed_hours
    WHERE pool IN (
        SELECT pool FROM billed_hours SEMI JOIN (FROM billed_nodes WHERE node_id = $node_id) USING (instance_key)
        WHERE from_ms <= $at_ms AND $at_ms < to_ms AND price_per_hour IS NOT NULL)
),
told AS (
    SELECT DISTINCT d.rate_id::VARCHAR AS told, d.rows, d.first_rows
    FROM (SELECT unnest(discount_rates) AS rate_id FROM shared) AS s JOIN discount_rates AS d USING (rate_id)
    UNION
    SELECT r.source_file || ':' || r.source_row, 1, [r.source_file || ':' || r.source_row]
    FROM machine_riders AS r
    JOIN shared AS s ON s.instance_key = r.instance_key AND epoch_ms(r.charge_period_start) < s.to_ms AND s.from_ms < epoch_ms(r.charge_period_end)
    WHERE r.kind = 'discount' AND r.effective_cost <> 0
)
SELECT a.per_hour, a.gross_per_hour, a.currency, t.rows, t.first_rows
FROM (
    SELECT (sum(discount_cost) / sum(instance_hours))::DECIMAL(38, 12) AS per_hour, (sum(effective_cost - discount_cost) / sum(instance_hours))::DECIMAL(38, 12) AS gross_per_hour, any_value(currency) AS currency
    FROM shared
) AS a
CROSS JOIN (SELECT sum(rows) AS rows, flatten(list(first_rows ORDER BY told))[:5] AS first_rows FROM told) AS t
WHERE a.per_hour <> 0;
