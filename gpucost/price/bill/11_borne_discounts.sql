-- reads: bill_rows, bills, $is_spread
-- writes: loose_discounts (view), discount rows without a machine, each with its target: a commitment and the charge period of its fee, unused capacity, or a kind of usage; discounted_charges, charges in their bills that they may reduce: usage by kind, at cost, and commitment fees by charge period, as billed; borne_discounts, such discounts by target with their bearer: a commitment, or if spread the narrowest sufficient scope of charges
-- invariant: a discount on a volume is not loose; is_beside for discounts on storage or traffic; costs are before discounts; is_upfront for fees amortized over months; a discount reduces charges of its own bill only; upfront_share is the part that upfront fees bear
CREATE OR REPLACE TEMP VIEW loose_discounts AS
SELECT b.provider, b.billing_period, r.bill_id, r.billing_currency AS currency,
    coalesce(commitment_of(r), CASE WHEN u.resource_id IS NOT NULL THEN r.resource_id END) AS commitment,
    CASE WHEN commitment IS NOT NULL THEN r.charge_period_start END AS starts, CASE WHEN commitment IS NOT NULL THEN r.charge_period_end END AS ends,
    coalesce(r.service_code, r.service_name) AS service, coalesce(r.sub_account_id, r.billing_account_id) AS account, r.sku_description,
    r.sku_description IS NULL AND coalesce(r.billing_account_id = account, false) AS is_payers,
    coalesce(r.service_category IN ('Storage', 'Networking'), false) AS is_beside, r.effective_cost, r.source_file, r.source_row
FROM bill_rows AS r
JOIN bills AS b USING (bill_id)
LEFT JOIN (SELECT DISTINCT bill_id, resource_id FROM bill_rows WHERE kind = 'reserved_unused') AS u ON u.bill_id = r.bill_id AND u.resource_id = r.resource_id
WHERE r.kind = 'discount' AND r.effective_cost <> 0 AND r.instance_key IS NULL
    -- exclude discounts on a volume, for example
    AND (r.resource_id IS NULL OR NOT is_beside AND (commitment_of(r) IS NOT NULL OR u.resource_id IS NOT NULL));

CREATE OR REPLACE TEMP TABLE discounted_charges AS
SELECT b.provider, b.billing_period, r.bill_id, r.billing_currency AS currency, bearer_of(r) AS commitment,
    CASE WHEN commitment_of(r) IS NOT NULL THEN r.charge_period_start END AS starts, CASE WHEN commitment_of(r) IS NOT NULL THEN r.charge_period_end END AS ends,
    coalesce(r.service_code, r.service_name) AS service, coalesce(r.sub_account_id, r.billing_account_id) AS account, r.sku_description,
    -- the hours of its own bill carry a block's fee
    starts IS NOT NULL AND coalesce(r.charge_frequency = 'One-Time', false) AND r.capacity_reservation_type IS NULL AS is_upfront,
    sum(CASE WHEN starts IS NULL THEN r.effective_cost ELSE r.billed_cost END) AS cost
FROM bill_rows AS r
JOIN bills AS b USING (bill_id)
WHERE (b.provider, b.billing_period) IN (SELECT (provider, billing_period) FROM loose_discounts)
    AND r.kind NOT IN ('discount', 'credit', 'refund', 'tax', 'split') AND NOT coalesce(r.is_net, false)
    AND (commitment_of(r) IS NULL OR r.charge_category = 'Purchase')
GROUP BY ALL;

CREATE OR REPLACE TEMP TABLE borne_discounts AS
WITH told AS (
    SELECT * EXCLUDE (effective_cost, source_file, source_row), sum(effective_cost) AS discount_cost, count(*) AS rows,
        list(source_file || ':' || source_row ORDER BY source_file, source_row)[:5] AS first_rows
    FROM loose_discounts
    GROUP BY ALL
),
fees AS (
    SELECT provider, billing_period, currency, commitment, starts, ends, sum(cost) AS cost, coalesce(sum(cost) FILTER (is_upfront), 0) AS upfront_cost
    FROM discounted_charges
    WHERE starts IS NOT NULL
    GROUP BY ALL
),
period_fees AS (
    SELECT provider, billing_period, currency, commitment, sum(cost) AS cost, sum(upfront_cost) AS upfront_cost FROM fees GROUP BY ALL
),
scopes AS (
    SELECT CASE grouping(service, account, sku_description) WHEN 0 THEN 'usage' WHEN 1 THEN 'account' WHEN 3 THEN 'product' WHEN 5 THEN 'payer' ELSE 'bill' END AS scope,
        bill_id, currency, service, account, sku_description, sum(cost) AS cost, coalesce(sum(cost) FILTER (is_upfront AND cost > 0), 0) AS upfront_cost
    FROM (SELECT * EXCLUDE (starts, ends, cost), sum(cost) AS cost FROM discounted_charges GROUP BY ALL HAVING sum(cost) > 0)
    WHERE $is_spread
    GROUP BY GROUPING SETS ((bill_id, currency, service, account, sku_description), (bill_id, currency, service, account), (bill_id, currency, service), (bill_id, currency, account), (bill_id, currency))
),
-- The narrowest scope that bears it: the same usage, otherwise (except for traffic and volumes) its product in the
-- account, otherwise in the whole bill. Without a product: the account, then the bill.
asked AS (
    SELECT * EXCLUDE (is_for_all), row_number() OVER () AS number, unnest(
        list_filter(CASE WHEN service IS NULL THEN [{'place': 4, 'scope': 'payer', 'of_service': NULL, 'of_account': account, 'of_description': NULL}, {'place': 5, 'scope': 'bill', 'of_service': NULL, 'of_account': NULL, 'of_description': NULL}]
            ELSE [{'place': 1, 'scope': 'usage', 'of_service': service, 'of_account': account, 'of_description': sku_description},
                {'place': 2, 'scope': 'account', 'of_service': service, 'of_account': account, 'of_description': NULL},
                {'place': 3, 'scope': 'product', 'of_service': service, 'of_account': NULL, 'of_description': NULL}] END, lambda place: (place.of_account IS NULL OR NOT is_for_all) AND (place.place = 1 OR NOT is_beside)), recursive := true)
    FROM (
        -- a single row in the payer's account covers all accounts; next to rows of others, the payer's own usage
        SELECT *, is_payers AND count(DISTINCT account) OVER (PARTITION BY bill_id, currency, service, sku_description) = 1 AS is_for_all
        FROM told
        WHERE commitment IS NULL
    )
),
borne AS (
    SELECT a.*, s.cost AS discounted_cost, s.upfront_cost / s.cost AS upfront_share
    FROM asked AS a
    JOIN scopes AS s ON s.scope = a.scope AND s.bill_id = a.bill_id AND s.currency = a.currency AND s.service IS NOT DISTINCT FROM a.of_service
        AND s.account IS NOT DISTINCT FROM a.of_account AND s.sku_description IS NOT DISTINCT FROM a.of_description
    WHERE s.cost >= -a.discount_cost AND s.cost > 0
    QUALIFY place = min(place) OVER (PARTITION BY number)
)
SELECT * EXCLUDE (number, place) FROM borne
UNION ALL BY NAME
-- a fee of the same charge period bears it, otherwise all charges of the commitment in the billing period, as billed
SELECT t.*, CASE WHEN f.cost > 0 AND f.cost >= -t.discount_cost THEN f.upfront_cost / f.cost
    WHEN p.cost > 0 AND p.cost >= -t.discount_cost THEN p.upfront_cost / p.cost ELSE 0 END AS upfront_share
FROM told AS t
LEFT JOIN fees AS f USING (provider, billing_period, currency, commitment, starts, ends)
LEFT JOIN period_fees AS p USING (provider, billing_period, currency, commitment)
WHERE t.commitment IS NOT NULL;
