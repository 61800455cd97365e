-- reads: bill_rows, bills, $is_spread
-- writes: discount_rates (stored): what rows of kind discount that name no machine take off, of each commitment and, where they are spread, of each kind of usage in an account
-- invariant: discounted_cost > 0; never more is taken off than there is; what is not in the bill of a discount is not discounted; of an upfront fee's discount the period bears its part
DELETE FROM discount_rates;
INSERT INTO discount_rates BY NAME
WITH told AS (
    SELECT b.provider, b.billing_period, r.bill_id, r.billing_currency AS currency,
        commitment_of(r) AS commitment,
        coalesce(r.service_code, r.service_name) AS service, coalesce(r.sub_account_id, r.billing_account_id) AS account, r.sku_description,
        r.sku_description IS NULL AND coalesce(r.billing_account_id = account, false) AS is_payers,
        sum(r.effective_cost) AS cost, count(*) AS rows, list(r.source_file || ':' || r.source_row ORDER BY r.source_file, r.source_row)[:5] AS first_rows
    FROM bill_rows AS r JOIN bills AS b USING (bill_id)
    WHERE r.kind = 'discount' AND r.effective_cost <> 0 AND r.instance_key IS NULL AND coalesce(r.service_category, '') NOT IN ('Storage', 'Networking')
        -- of a volume, say, or of what a reservation did not use
        AND (r.resource_id IS NULL OR commitment IS NOT NULL)
    GROUP BY ALL
),
-- what they may be taken off: usage at its cost, commitments at their fees as billed
discounted AS (
    SELECT r.bill_id, r.billing_currency AS currency, coalesce(r.service_code, r.service_name) AS service, coalesce(r.sub_account_id, r.billing_account_id) AS account, r.sku_description,
        commitment_of(r) AS commitment,
        sum(CASE WHEN commitment IS NULL THEN r.effective_cost ELSE r.billed_cost END) AS cost
    FROM bill_rows AS r
    WHERE $is_spread AND r.bill_id IN (SELECT bill_id FROM told WHERE commitment IS NULL)
        AND r.kind NOT IN ('discount', 'credit', 'refund', 'tax', 'split') AND NOT coalesce(r.is_net, false)
        AND (commitment IS NULL OR r.charge_category = 'Purchase')
    GROUP BY ALL
),
scopes AS (
    SELECT CASE grouping(service, account, sku_description) WHEN 0 THEN 'usage' WHEN 1 THEN 'account' WHEN 3 THEN 'product' WHEN 5 THEN 'payer' ELSE 'bill' END AS scope,
        bill_id, currency, service, account, sku_description, sum(cost) AS cost
    FROM discounted
    GROUP BY GROUPING SETS ((bill_id, currency, service, account, sku_description), (bill_id, currency, service, account), (bill_id, currency, service), (bill_id, currency, account), (bill_id, currency))
),
-- the narrowest that bears it: the same usage, else its product in the account, else in the whole bill; what names no product: the account, the bill
asked AS (
    SELECT * EXCLUDE (service, account, sku_description, commitment, cost, rows, first_rows, is_for_all), cost AS discount_cost, rows, first_rows, row_number() OVER () AS number, unnest(
        list_filter(CASE WHEN service IS NULL THEN [{'place': 4, 'scope': 'payer', 'service': NULL, 'account': account, 'sku_description': NULL}, {'place': 5, 'scope': 'bill', 'service': NULL, 'account': NULL, 'sku_description': NULL}]
            ELSE [{'place': 1, 'scope': 'usage', 'service': service, 'account': account, 'sku_description': sku_description},
                {'place': 2, 'scope': 'account', 'service': service, 'account': account, 'sku_description': NULL},
                {'place': 3, 'scope': 'product', 'service': service, 'account': NULL, 'sku_description': NULL}] END, lambda place: place.account IS NULL OR NOT is_for_all), recursive := true)
    FROM (
        -- one row in the payer's account is of all accounts; beside rows of the others it is of the payer's own usage
        SELECT * EXCLUDE (is_payers), is_payers AND count(DISTINCT account) OVER (PARTITION BY bill_id, currency, service, sku_description) = 1 AS is_for_all
        FROM told
        WHERE commitment IS NULL AND $is_spread
    )
),
borne AS (
    SELECT a.*, s.cost AS discounted_cost
    FROM asked AS a
    JOIN scopes AS s ON s.scope = a.scope AND s.bill_id = a.bill_id AND s.currency = a.currency AND s.service IS NOT DISTINCT FROM a.service
        AND s.account IS NOT DISTINCT FROM a.account AND s.sku_description IS NOT DISTINCT FROM a.sku_description
    WHERE s.cost >= -a.discount_cost AND s.cost > 0
    QUALIFY place = min(place) OVER (PARTITION BY number)
),
spread AS (
    SELECT scope, provider, billing_period, currency, bill_id, service, account, sku_description,
        greatest(sum(discount_cost), -discounted_cost) / discounted_cost AS rate, sum(rows) AS rows, flatten(list(first_rows ORDER BY number))[:5] AS first_rows
    FROM borne
    GROUP BY scope, provider, billing_period, currency, bill_id, service, account, sku_description, discounted_cost
),
-- by scope, as columns that are equal: an OR of them would be tried on each pair
named AS (
    SELECT d.*, u.scope, CASE WHEN u.scope IN ('usage', 'account', 'product') THEN d.service END AS of_service,
        CASE WHEN u.scope IN ('usage', 'account', 'payer') THEN d.account END AS of_account, CASE WHEN u.scope = 'usage' THEN d.sku_description END AS of_description
    FROM discounted AS d CROSS JOIN (SELECT DISTINCT scope FROM spread) AS u
    WHERE d.cost > 0
),
parts AS (
    SELECT s.provider, s.billing_period, d.currency, d.bill_id, d.service, d.account, d.sku_description, d.commitment, d.cost AS discounted_cost,
        sum(d.cost * s.rate)::DECIMAL(38, 12) AS discount_cost, sum(s.rows) AS rows, flatten(list(s.first_rows ORDER BY s.scope DESC))[:5] AS first_rows
    FROM named AS d
    JOIN spread AS s ON s.scope = d.scope AND s.bill_id = d.bill_id AND s.currency = d.currency AND s.service IS NOT DISTINCT FROM d.of_service
        AND s.account IS NOT DISTINCT FROM d.of_account AND s.sku_description IS NOT DISTINCT FROM d.of_description
    GROUP BY ALL
),
-- what is taken off a commitment's fee is that commitment's discount
by_commitment AS (
    SELECT provider, billing_period, currency, commitment, sum(cost) AS cost, sum(rows) AS rows, flatten(list(first_rows))[:5] AS first_rows
    FROM (
        SELECT provider, billing_period, currency, commitment, cost, rows, first_rows FROM told
        UNION ALL
        SELECT provider, billing_period, currency, commitment, discount_cost, rows, first_rows FROM parts
    )
    WHERE commitment IS NOT NULL
    GROUP BY ALL
),
committed AS (
    SELECT c.provider, c.billing_period, c.currency, c.commitment, sum(r.effective_cost) FILTER (NOT coalesce(r.is_net, false)) AS cost,
        coalesce(sum(r.billed_cost) FILTER (r.charge_category = 'Purchase'), 0) AS fee
    FROM bill_rows AS r
    JOIN bills AS b USING (bill_id)
    JOIN by_commitment AS c ON c.provider = b.provider AND c.billing_period = b.billing_period AND c.currency = r.billing_currency
        AND c.commitment = commitment_of(r)
    WHERE r.kind NOT IN ('discount', 'credit', 'refund', 'tax', 'split')
    GROUP BY ALL
)
SELECT row_number() OVER () AS rate_id, * FROM (
    SELECT d.provider, d.billing_period, d.currency, d.commitment, c.cost AS discounted_cost,
        -- an upfront fee is of more than this period
        greatest(d.cost * CASE WHEN c.fee > c.cost THEN c.cost / c.fee ELSE 1 END, -c.cost)::DECIMAL(38, 12) AS discount_cost, d.rows, d.first_rows
    FROM by_commitment AS d
    JOIN committed AS c USING (provider, billing_period, currency, commitment)
    WHERE c.cost > 0
    UNION ALL BY NAME
    SELECT * EXCLUDE (commitment) FROM parts WHERE commitment IS NULL
);
