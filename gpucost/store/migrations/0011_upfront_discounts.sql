-- reads: bill_rows, bills, discount_rates
-- writes: amortized_discounts, bearer_of, bill_rows, charges, discount_rates, discounted_rows, effective_rows, machine_riders: upfront fees as part of commitments, and discounts on such fees
-- invariant: the new columns are null in rows loaded before

DROP VIEW charges;
DROP VIEW machine_riders;
-- of a commitment's row: the upfront fee's part of its cost, 0 to 1; null if the export does not state it
ALTER TABLE bill_rows ADD COLUMN upfront_share DOUBLE;

CREATE VIEW charges AS
SELECT b.provider, b.source, b.format, b.billing_period, b.is_final, r.*
FROM bill_rows AS r JOIN bills AS b USING (bill_id);

-- As in 0010: a view keeps the columns that existed at its creation.
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

-- This period's part of discounts on an upfront fee (included in discount_cost), in whichever bill they are.
ALTER TABLE discount_rates ADD COLUMN amortized_cost DECIMAL(38, 12) DEFAULT 0;

-- Rows of kind 'discount' that reduce upfront fees. Rebuilt completely with each pricing.
CREATE TABLE amortized_discounts (
    bill_id         INTEGER NOT NULL,
    source_file     VARCHAR NOT NULL,
    source_row      BIGINT NOT NULL,
    -- the part of effective_cost for the months covered by the fees (negative)
    amortized_cost  DECIMAL(38, 12) NOT NULL
);

-- The discount_rates.commitment of a row of bill_rows: a commitment, or an unused capacity reservation.
CREATE MACRO bearer_of(row) AS coalesce(commitment_of(row), CASE WHEN row.kind = 'reserved_unused' THEN row.resource_id END);

-- Rows of bills, with discounts that do not name a machine: discount_cost, and amortized_cost as its part, both
-- negative.
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

-- Rows of bills, with discounts on upfront fees spread like the fees: in effective_cost, but not in the discount rows
-- themselves. discount_cost is the sum of other discounts on a row.
CREATE VIEW effective_rows AS
SELECT r.* REPLACE (
        r.effective_cost + r.amortized_cost - coalesce(a.amortized_cost, 0) AS effective_cost,
        r.discount_cost - r.amortized_cost AS discount_cost,
        CASE WHEN r.cost_cause = 'same' AND (a.amortized_cost IS NOT NULL OR r.amortized_cost <> 0) THEN 'fee_amortized' ELSE r.cost_cause END AS cost_cause)
FROM discounted_rows AS r
LEFT JOIN amortized_discounts AS a ON a.bill_id = CASE WHEN r.kind = 'discount' THEN r.bill_id END AND a.source_file = r.source_file AND a.source_row = r.source_row;
