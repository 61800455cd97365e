-- reads: bill_details, bill_lines, bills, discount_rates
-- writes: discounted_details, discounted_rows, machine_riders: discounts computed once per set of equal details
-- invariant: discounted_rows shows the same rows as before; so does machine_riders, with their details (batch_id,
-- detail_id)

-- Details of bill rows: the discount rate (of discounts that do not name a machine) on their cost, and its amortized
-- part.
CREATE VIEW discounted_details AS
WITH rates AS (
    SELECT * EXCLUDE (amortized_cost, discount_cost, discounted_cost), discount_cost / discounted_cost AS rate, amortized_cost / discounted_cost AS amortized_rate
    FROM discount_rates
)
SELECT b.provider, b.billing_period, b.format, b.load_id, d.*, coalesce(c.rate_id, u.rate_id) AS rate_id,
    coalesce(c.rate, u.rate, 0) AS discount_rate, coalesce(c.amortized_rate, 0) AS amortized_rate
FROM bill_details AS d
JOIN bills AS b USING (bill_id)
LEFT JOIN rates AS c ON c.commitment = CASE WHEN d.kind NOT IN ('discount', 'credit', 'refund', 'tax', 'split') AND NOT coalesce(d.is_net, false) THEN bearer_of(d) END
    AND c.provider = b.provider AND c.billing_period = b.billing_period AND c.currency = d.billing_currency
LEFT JOIN rates AS u ON u.bill_id = CASE WHEN d.kind NOT IN ('discount', 'credit', 'refund', 'tax', 'split') AND NOT coalesce(d.is_net, false) AND bearer_of(d) IS NULL THEN d.bill_id END
    AND u.currency = d.billing_currency AND u.service IS NOT DISTINCT FROM coalesce(d.service_code, d.service_name)
    AND u.account IS NOT DISTINCT FROM coalesce(d.sub_account_id, d.billing_account_id) AND u.sku_description IS NOT DISTINCT FROM d.sku_description;

CREATE OR REPLACE VIEW discounted_rows AS
SELECT d.* EXCLUDE (batch_id, detail_id, rate_id, discount_rate, amortized_rate), l.* EXCLUDE (batch_id, detail_id), d.rate_id,
    (l.effective_cost * d.discount_rate)::DECIMAL(38, 12) AS discount_cost, (l.effective_cost * d.amortized_rate)::DECIMAL(38, 12) AS amortized_cost
FROM bill_lines AS l
JOIN discounted_details AS d USING (batch_id, detail_id);

CREATE OR REPLACE VIEW machine_riders AS
WITH riders AS (
    FROM bill_details
    WHERE kind IN ('node_fee', 'discount') AND instance_key IS NOT NULL AND coalesce(service_category, '') NOT IN ('Storage', 'Networking')
),
charged AS (
    SELECT bill_id, instance_key, sku_description
    FROM bill_details SEMI JOIN bill_lines USING (batch_id, detail_id)
    WHERE kind IN ('other', 'storage', 'network') AND instance_key IN (SELECT instance_key FROM riders SEMI JOIN bill_lines USING (batch_id, detail_id) WHERE kind = 'discount')
)
SELECT l.*, r.* EXCLUDE (batch_id, detail_id)
FROM bill_lines AS l
JOIN (FROM riders ANTI JOIN charged USING (bill_id, instance_key, sku_description)) AS r USING (batch_id, detail_id);
