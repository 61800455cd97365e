-- reads: cur_costs
-- writes: discount_shares: for discount rows without a net cost, in an export with net costs on other rows, the share that those rows do not yet include
-- invariant: 0 <= share of a discount <= 1: per product or commitment, discounts in net costs plus discount rows x share equal the discount rows
-- only with: cur_unsettled
CREATE OR REPLACE TEMP TABLE discount_shares AS
WITH unsettled AS (
    SELECT source_file, file_row_number, discounted, unblended
    FROM cur_costs
    WHERE is_discount AND net IS NULL
), settled AS (
    SELECT discounted,
           coalesce(sum(unblended) FILTER (is_discount), 0) AS discount,
           -- The net cost of an upfront fee includes its whole discount; amortized rows include only this month's part.
           coalesce(sum(CASE WHEN line_type IN ('Fee', 'SavingsPlanUpfrontFee') THEN unblended - net_unblended ELSE gross - net END) FILTER (NOT is_discount), 0) AS taken
    FROM cur_costs
    WHERE NOT is_split AND discounted IN (SELECT discounted FROM unsettled)
    GROUP BY ALL
)
SELECT u.source_file, u.file_row_number,
       greatest(0, least(1, (s.discount + s.taken) / nullif(sum(u.unblended) OVER (PARTITION BY u.discounted), 0))) AS share
FROM unsettled AS u JOIN settled AS s ON s.discounted IS NOT DISTINCT FROM u.discounted;
