-- reads: cur, cur_costs
-- writes: cur_facts: whether any row of the export has a net cost, and whether it could say an invoice; discount_shares: of discount rows whose net cost is empty, in an export that tells net costs of other rows, the part that those do not hold yet; block_shares: what each row of a Capacity Block bears of the block's upfront fee, and what stays on the fee's row
-- invariant: one row of facts; 0 <= share of a discount <= 1: what net costs took off a product or commitment and its discount rows x share are together what its discount rows say; the shares of a block and what stays sum to its fee, exactly, and the fee of a block without hours here stays whole
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

CREATE OR REPLACE TEMP TABLE block_shares AS
WITH fees AS (
    SELECT source_file, file_row_number,
           coalesce(net_unblended, unblended) AS fee,
           coalesce(capacity_reservation, line_item_usage_account_id || ' ' || machine) AS block,
           -- Where the fee says its instance-hours, hours beyond this bill keep their part.
           CASE WHEN lower(coalesce(pricing_unit, '')) LIKE 'h%' THEN amount END AS reserved_hours
    FROM cur
    WHERE line_type = 'Fee' AND of_block AND NOT is_split
), blocks AS (
    SELECT block, sum(fee) AS fee, sum(reserved_hours) AS reserved_hours
    FROM fees
    GROUP BY block
), bearers AS (
    SELECT c.source_file, c.file_row_number, b.block, b.fee, b.reserved_hours, c.hours::DECIMAL(38, 12) AS hours
    FROM cur AS c
    JOIN blocks AS b
      -- Without the reservation's id: the account's machines of that type that are charged nothing for themselves.
      ON b.block = CASE WHEN c.capacity_reservation IN (SELECT block FROM blocks) THEN c.capacity_reservation
                        ELSE c.line_item_usage_account_id || ' ' || c.machine END
    WHERE (c.is_instance OR c.is_reserved_unused) AND c.line_type = 'Usage' AND c.unblended = 0 AND c.hours > 0
), placed AS (
    SELECT *,
           sum(hours) OVER (PARTITION BY block ORDER BY source_file, file_row_number) AS until_here,
           greatest(sum(hours) OVER (PARTITION BY block), coalesce(reserved_hours, 0)) AS all_hours
    FROM bearers
), shares AS (
    -- Differences of rounded running sums: no cent is lost between them.
    SELECT source_file, file_row_number, block, up_to,
           coalesce(lag(up_to) OVER (PARTITION BY block ORDER BY source_file, file_row_number), 0) AS before
    FROM (
        SELECT *, CASE WHEN until_here = all_hours THEN fee ELSE (fee * (until_here / all_hours))::DECIMAL(38, 12) END AS up_to
        FROM placed
    )
), spread AS (
    SELECT block, sum(up_to - before)::DECIMAL(38, 12) AS spread
    FROM shares
    GROUP BY block
), first_fees AS (
    SELECT *, row_number() OVER (PARTITION BY block ORDER BY source_file, file_row_number) AS place
    FROM fees
)
SELECT source_file, file_row_number, (up_to - before)::DECIMAL(38, 12) AS share
FROM shares
UNION ALL
-- A block bought by several fees takes off what was spread at the first of them.
SELECT f.source_file, f.file_row_number,
       (f.fee - CASE WHEN f.place = 1 THEN coalesce(s.spread, 0) ELSE 0 END)::DECIMAL(38, 12)
FROM first_fees AS f
LEFT JOIN spread AS s USING (block);
