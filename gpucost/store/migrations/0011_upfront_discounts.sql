-- reads: bill_rows, bills, discount_rates
-- writes: amortized_discounts, bearer_of, bill_rows, charges, discount_rates, discounted_rows, effective_rows, machine_riders: the part of a commitment that its upfront fee is, and discounts on such fees
-- invariant: what was loaded before has none of it: null

DROP VIEW charges;
DROP VIEW machine_riders;
ALTER TABLE bill_rows ADD COLUMN upfront_share DOUBLE;   -- of a commitment's row: the part of its cost that is of the upfront fee, 0 to 1; null where the export does not say

CREATE VIEW charges AS
SELECT b.provider, b.source, b.format, b.billing_period, b.is_final, r.*
FROM bill_rows AS r JOIN bills AS b USING (bill_id);

-- As 0010 has it: a view knows the columns that there were.
CREATE VIEW machine_riders AS
WITH riders AS (
    FROM bill_rows
    WHERE kind IN ('node_fee', 'discount') AND instance_key IS NOT NULL AND coalesce(service_category, '') NOT IN ('Storage', 'Networking')
)
FROM riders
ANTI JOIN (
    SELECT bill_id, instance_key, sku_description FROM bill_rows
    WHERE kind IN ('other', 'storage', 'network') AND instance_key IN (SELECT instance_key FROM riders WHERE kind = 'discount')
) USING (bill_id, instance_key, sku_description);

-- Of discount_cost, this period's part of what discounts took off an upfront fee, in whichever bill they stand.
ALTER TABLE discount_rates ADD COLUMN amortized_cost DECIMAL(38, 12) DEFAULT 0;

-- Rows of kind 'discount' that take something off upfront fees. Rebuilt whole with each pricing.
CREATE TABLE amortized_discounts (
    bill_id         INTEGER NOT NULL,
    source_file     VARCHAR NOT NULL,
    source_row      BIGINT NOT NULL,
    amortized_cost  DECIMAL(38, 12) NOT NULL   -- of effective_cost, what is of the months that the fees cover, below 0
);

-- Whose discount_rates.commitment a row of bill_rows is: a commitment's, or a capacity reservation's that was not used.
CREATE MACRO bearer_of(row) AS coalesce(commitment_of(row), CASE WHEN row.kind = 'reserved_unused' THEN row.resource_id END);

-- Rows of bills, and what discounts that name no machine take off each: discount_cost, and amortized_cost of that, both below 0.
CREATE VIEW discounted_rows AS
WITH rates AS (
    SELECT * EXCLUDE (amortized_cost, discount_cost, discounted_cost), discount_cost / discounted_cost AS rate, amortized_cost / discounted_cost AS amortized_rate
    FROM discount_rates
)
SELECT b.provider, b.billing_period, b.format, b.load_id, r.*, coalesce(c.rate_id, u.rate_id) AS rate_id,
    (r.effective_cost * coalesce(c.rate, u.rate, 0))::DECIMAL(38, 12) AS discount_cost,
    (r.effective_cost * coalesce(c.amortized_rate, 0))::DECIMAL(38, 12) AS amortized_cost
FROM bill_rows AS r
JOIN bills AS b USING (bill_id)
LEFT JOIN rates AS c ON c.commitment = CASE WHEN r.kind NOT IN ('discount', 'credit', 'refund', 'tax', 'split') AND NOT coalesce(r.is_net, false) THEN bearer_of(r) END
    AND c.provider = b.provider AND c.billing_period = b.billing_period AND c.currency = r.billing_currency
LEFT JOIN rates AS u ON u.bill_id = CASE WHEN r.kind NOT IN ('discount', 'credit', 'refund', 'tax', 'split') AND NOT coalesce(r.is_net, false) AND bearer_of(r) IS NULL THEN r.bill_id END
    AND u.currency = r.billing_currency AND u.service IS NOT DISTINCT FROM coalesce(r.service_code, r.service_name)
    AND u.account IS NOT DISTINCT FROM coalesce(r.sub_account_id, r.billing_account_id) AND u.sku_description IS NOT DISTINCT FROM r.sku_description;

-- Rows of bills, with discounts on upfront fees spread as the fees are: in effective_cost, and not in the rows that tell them. discount_cost is what others take off a row.
CREATE VIEW effective_rows AS
SELECT r.* REPLACE (
        r.effective_cost + r.amortized_cost - coalesce(a.amortized_cost, 0) AS effective_cost,
        r.discount_cost - r.amortized_cost AS discount_cost,
        CASE WHEN r.cost_cause = 'same' AND (a.amortized_cost IS NOT NULL OR r.amortized_cost <> 0) THEN 'fee_amortized' ELSE r.cost_cause END AS cost_cause)
FROM discounted_rows AS r
LEFT JOIN amortized_discounts AS a ON a.bill_id = CASE WHEN r.kind = 'discount' THEN r.bill_id END AND a.source_file = r.source_file AND a.source_row = r.source_row;
