-- reads: loose_discounts, borne_discounts, discounted_charges, bill_rows, bills
-- writes: discount_rates (stored): reduction by discount rows without a machine, per commitment and billing period and, if they are spread, per kind of usage in an account; amortized_discounts (stored): the part of such rows that upfront fees bear, spread like the fees
-- invariant: discounted_cost > 0; a reduction never exceeds the cost; each period bears the same part of an upfront fee's discount as of the fee; upfront fees bear at most the whole cost of a bill's row
DELETE FROM discount_rates;
INSERT INTO discount_rates BY NAME
WITH spread AS (
    SELECT scope, provider, billing_period, currency, bill_id, of_service, of_account, of_description,
        greatest(sum(discount_cost), -discounted_cost) / discounted_cost AS rate, sum(rows) AS rows, flatten(list(first_rows ORDER BY first_rows))[:5] AS first_rows
    FROM borne_discounts
    WHERE scope IS NOT NULL
    GROUP BY scope, provider, billing_period, currency, bill_id, of_service, of_account, of_description, discounted_cost
),
-- by scope, as equal columns: an OR would be tested on each pair
named AS (
    SELECT d.*, u.scope, CASE WHEN u.scope IN ('usage', 'account', 'product') THEN d.service END AS of_service,
        CASE WHEN u.scope IN ('usage', 'account', 'payer') THEN d.account END AS of_account, CASE WHEN u.scope = 'usage' THEN d.sku_description END AS of_description
    FROM (SELECT * EXCLUDE (starts, ends, cost), sum(cost) AS cost FROM discounted_charges GROUP BY ALL) AS d CROSS JOIN (SELECT DISTINCT scope FROM spread) AS u
    WHERE d.cost > 0
),
parts AS (
    SELECT s.provider, s.billing_period, d.currency, d.bill_id, d.service, d.account, d.sku_description, d.commitment, d.is_upfront, d.cost AS discounted_cost,
        sum(d.cost * s.rate)::DECIMAL(38, 12) AS discount_cost, sum(s.rows) AS rows, flatten(list(s.first_rows ORDER BY s.scope DESC))[:5] AS first_rows
    FROM named AS d
    JOIN spread AS s ON s.scope = d.scope AND s.bill_id = d.bill_id AND s.currency = d.currency AND s.of_service IS NOT DISTINCT FROM d.of_service
        AND s.of_account IS NOT DISTINCT FROM d.of_account AND s.of_description IS NOT DISTINCT FROM d.of_description
    GROUP BY ALL
),
-- a discount on a commitment's fee belongs to that commitment
by_commitment AS (
    SELECT provider, billing_period, currency, commitment, (discount_cost * upfront_share)::DECIMAL(38, 12) AS upfront_discount, discount_cost - upfront_discount AS period_discount, rows, first_rows
    FROM borne_discounts
    WHERE commitment IS NOT NULL
    UNION ALL
    SELECT provider, billing_period, currency, commitment, CASE WHEN is_upfront THEN discount_cost ELSE 0 END AS upfront_discount, discount_cost - upfront_discount, rows, first_rows
    FROM parts
    WHERE commitment IS NOT NULL
),
upfront AS (
    SELECT d.provider, d.currency, d.commitment, d.discount / f.fee AS rate
    FROM (SELECT provider, currency, commitment, sum(upfront_discount) AS discount FROM by_commitment GROUP BY ALL) AS d
    JOIN (SELECT provider, currency, commitment, sum(cost) AS fee FROM discounted_charges WHERE is_upfront GROUP BY ALL) AS f USING (provider, currency, commitment)
    WHERE f.fee > 0
),
committed AS (
    SELECT b.provider, b.billing_period, r.billing_currency AS currency, c.commitment, sum(r.effective_cost) AS cost,
        coalesce(sum(r.billed_cost) FILTER (r.charge_category = 'Purchase' AND (coalesce(r.charge_frequency <> 'One-Time', true) OR r.capacity_reservation_type IS NOT NULL)), 0) AS recurring_fee,
        -- if the export does not state it: the rest after recurring fees
        greatest(0, least(1, coalesce(avg(r.upfront_share), 1 - recurring_fee / cost))) AS upfront_share
    FROM bill_rows AS r
    JOIN bills AS b USING (bill_id)
    JOIN (SELECT DISTINCT provider, currency, commitment FROM by_commitment) AS c ON c.provider = b.provider AND c.currency = r.billing_currency AND c.commitment = bearer_of(r)
    WHERE r.kind NOT IN ('discount', 'credit', 'refund', 'tax', 'split') AND NOT coalesce(r.is_net, false)
    GROUP BY ALL
    HAVING sum(r.effective_cost) > 0
),
taken AS (
    SELECT c.provider, c.billing_period, c.currency, c.commitment, c.cost AS discounted_cost, c.cost * c.upfront_share * coalesce(u.rate, 0) AS amortized,
        coalesce(sum(d.period_discount) FILTER (d.billing_period = c.billing_period), 0) AS period_discount,
        c.cost * (1 - c.upfront_share) AS recurring_cost, c.recurring_fee,
        sum(d.rows) AS rows, flatten(list(d.first_rows ORDER BY d.first_rows))[:5] AS first_rows
    FROM committed AS c
    JOIN by_commitment AS d ON d.provider = c.provider AND d.currency = c.currency AND d.commitment = c.commitment
        AND (d.billing_period = c.billing_period OR d.upfront_discount <> 0)
    LEFT JOIN upfront AS u ON u.provider = c.provider AND u.currency = c.currency AND u.commitment = c.commitment
    GROUP BY ALL
)
SELECT row_number() OVER () AS rate_id, * FROM (
    SELECT provider, billing_period, currency, commitment, discounted_cost,
        -- a fee of the whole month covers more than the hours billed so far
        greatest(amortized + period_discount * CASE WHEN recurring_fee > recurring_cost THEN recurring_cost / recurring_fee ELSE 1 END, -discounted_cost)::DECIMAL(38, 12) AS discount_cost,
        greatest(amortized, -discounted_cost)::DECIMAL(38, 12) AS amortized_cost, rows, first_rows
    FROM taken
    UNION ALL BY NAME
    SELECT * EXCLUDE (commitment, is_upfront), 0 AS amortized_cost FROM parts WHERE commitment IS NULL
);

DELETE FROM amortized_discounts;
INSERT INTO amortized_discounts BY NAME
SELECT d.bill_id, d.source_file, d.source_row, (d.effective_cost * b.upfront_share)::DECIMAL(38, 12) AS amortized_cost
FROM loose_discounts AS d
JOIN (FROM borne_discounts WHERE upfront_share > 0) AS b ON b.bill_id = d.bill_id AND b.currency = d.currency AND b.commitment IS NOT DISTINCT FROM d.commitment
    AND b.starts IS NOT DISTINCT FROM d.starts AND b.ends IS NOT DISTINCT FROM d.ends AND b.service IS NOT DISTINCT FROM d.service
    AND b.account IS NOT DISTINCT FROM d.account AND b.sku_description IS NOT DISTINCT FROM d.sku_description AND b.is_payers = d.is_payers AND b.is_beside = d.is_beside;
