-- reads: report_rules, discounted_rows, machine_charges, token_charges, fx_rates; $from_ms, $to_ms bound the period
-- writes: report_billed_amounts, the billed amount of the period per rule and currency, in the report's currency; null if that has no rate
-- invariant: the parts of a charge period that reaches beyond the period add up, over adjoining periods, to the charge
CREATE OR REPLACE TEMP TABLE report_billed_amounts AS
WITH charged AS (
    SELECT provider, billing_currency, effective_cost, charge_period_start, charge_period_end, kind AS of
    FROM machine_charges
    WHERE kind IN ('storage', 'network')
    UNION ALL
    -- a discount also reduces unused commitments
    SELECT provider, billing_currency, effective_cost + discount_cost, charge_period_start, charge_period_end,
        CASE kind WHEN 'support' THEN 'support' ELSE 'commitment_waste' END
    -- unused model throughput is part of bought tokens
    FROM discounted_rows ANTI JOIN token_charges USING (bill_id, source_file, source_row)
    WHERE kind IN ('support', 'commitment_unused', 'reserved_unused')
),
charges AS (
    SELECT q.rule, t.billing_currency AS currency, t.effective_cost AS cost,
        epoch_ms(t.charge_period_start) AS start_ms, epoch_ms(t.charge_period_end) AS end_ms
    FROM charged AS t
    JOIN report_rules AS q ON q.of = t.of AND coalesce(q.provider = t.provider, true)
    WHERE t.effective_cost <> 0
),
-- a charge for an instant is in the period of that instant
clipped AS (
    SELECT rule, currency, start_ms,
        CASE WHEN end_ms <= $to_ms THEN cost ELSE (cost * (($to_ms - start_ms) / (end_ms - start_ms)))::DECIMAL(38, 12) END
        - CASE WHEN start_ms >= $from_ms THEN 0 ELSE (cost * (($from_ms - start_ms) / (end_ms - start_ms)))::DECIMAL(38, 12) END AS cost
    FROM charges
    WHERE start_ms < $to_ms AND (end_ms > $from_ms OR start_ms >= $from_ms)
)
SELECT c.rule, c.currency, min(c.start_ms) FILTER (f.rate IS NULL) AS without_rate_ms,
    CASE WHEN bool_and(f.rate IS NOT NULL) THEN sum((c.cost * f.rate)::DECIMAL(38, 12))::DECIMAL(38, 9) END AS amount
FROM clipped AS c
LEFT JOIN fx_rates AS f ON f.currency = c.currency AND f.from_ms <= c.start_ms AND c.start_ms < f.to_ms
GROUP BY c.rule, c.currency;
