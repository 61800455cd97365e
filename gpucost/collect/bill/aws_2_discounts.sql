-- reads: cur_costs
-- writes: cur_facts: whether any row of the export has a net cost, and whether it could say an invoice; discount_shares: of discount rows whose net cost is empty, in an export that tells net costs of other rows, the part that those do not hold yet
-- invariant: one row of facts; 0 <= share <= 1; what net costs took off a product or commitment and its discount rows x share are together what its discount rows say
CREATE OR REPLACE TEMP TABLE cur_facts AS
SELECT coalesce(bool_or(is_net), false) AS has_net,
       count(bill_invoice_id) + count(bill_billing_period_start_date) > 0 AS tells_invoices
FROM cur_costs;

CREATE OR REPLACE TEMP TABLE discount_shares AS
WITH unsettled AS (
    SELECT source_file, file_row_number, bill_payer_account_id AS payer, bill_billing_period_start_date AS period,
           coalesce(commitment, line_item_product_code) AS discounted, unblended
    FROM cur_costs
    WHERE is_discount AND net IS NULL AND (SELECT has_net FROM cur_facts)
), asked AS (
    SELECT payer, period, discounted, sum(unblended) AS unsettled FROM unsettled GROUP BY ALL
), settled AS (
    SELECT a.payer, a.period, a.discounted,
           coalesce(sum(c.unblended) FILTER (c.is_discount), 0) AS discount,
           -- An upfront fee's own net cost has all of its discount, amortized rows only this month's part.
           coalesce(sum(CASE WHEN c.line_type IN ('Fee', 'SavingsPlanUpfrontFee') THEN c.unblended - c.net_unblended ELSE c.gross - c.net END) FILTER (NOT c.is_discount), 0) AS taken
    FROM cur_costs AS c
    JOIN asked AS a ON a.payer IS NOT DISTINCT FROM c.bill_payer_account_id AND a.period IS NOT DISTINCT FROM c.bill_billing_period_start_date
        AND a.discounted IS NOT DISTINCT FROM coalesce(c.commitment, c.line_item_product_code)
    WHERE NOT c.is_split
    GROUP BY ALL
)
SELECT u.source_file, u.file_row_number, greatest(0, least(1, (s.discount + s.taken) / nullif(a.unsettled, 0))) AS share
FROM unsettled AS u
JOIN asked AS a ON a.payer IS NOT DISTINCT FROM u.payer AND a.period IS NOT DISTINCT FROM u.period AND a.discounted IS NOT DISTINCT FROM u.discounted
JOIN settled AS s ON s.payer IS NOT DISTINCT FROM a.payer AND s.period IS NOT DISTINCT FROM a.period AND s.discounted IS NOT DISTINCT FROM a.discounted;
