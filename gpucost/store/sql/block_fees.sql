-- reads: bill_details, bill_lines
-- writes: block_lines (temporary), bill_lines, bill_details: each row's share of a Capacity Block's fee, if the fee and the hours are in different bills, or were before a bill was replaced
-- invariant: the shares of a block's rows sum exactly to its fee, in whichever order its bills were loaded or replaced;
-- fees after discounts and blocks without an id stay unchanged; several fees of one block stay if its rows carry them,
-- otherwise each stays whole
CREATE OR REPLACE TEMP TABLE block_lines AS
WITH lines AS (
    SELECT l.rowid AS line, d.rowid AS detail, d.batch_id, d.capacity_reservation_id AS block, d.kind = 'commitment_fee' AS is_fee, l.billed_cost, l.instance_hours,
        sum(l.billed_cost) OVER w AS fee, count(*) FILTER (is_fee) OVER w AS fees, bool_or(d.is_net) OVER w AS is_net,
        count(DISTINCT d.bill_id) OVER w > 1 AS is_torn, sum(l.effective_cost) OVER w <> fee AS is_moved,
        -- hours that are in no bill yet keep their share
        greatest(sum(l.instance_hours) OVER w, sum(l.pricing_quantity) FILTER (is_fee AND d.pricing_unit ILIKE 'h%') OVER w) AS hours
    FROM bill_details AS d JOIN bill_lines AS l USING (batch_id, detail_id)
    -- hours may lack the reservation's type; rows that once had a share of a fee have it, even if the fee is gone
    WHERE d.capacity_reservation_id IN (SELECT capacity_reservation_id FROM bill_details WHERE capacity_reservation_type = 'capacity_block')
        AND (is_fee OR d.kind IN ('instance', 'reserved_unused') AND l.billed_cost = 0)
    WINDOW w AS (PARTITION BY d.capacity_reservation_id)
),
shares AS (
    SELECT *, CASE WHEN fees = 1 AND NOT is_fee AND hours > 0 THEN (fee * (instance_hours / hours))::DECIMAL(38, 12) END AS share
    FROM lines
    WHERE is_net IS NOT TRUE AND (fees = 1 AND is_torn OR is_moved)
        -- a fee without an id is spread over hours of its own bill
        AND (fees > 0 OR batch_id NOT IN (SELECT batch_id FROM bill_details WHERE capacity_reservation_type = 'capacity_block' AND capacity_reservation_id IS NULL))
)
SELECT *, coalesce(share, billed_cost - sum(share) OVER (PARTITION BY block), billed_cost) AS cost FROM shares;

UPDATE bill_details AS d
SET cost_cause = CASE WHEN cost <> billed_cost THEN 'capacity_block' WHEN is_fee THEN 'same' ELSE 'zero_unexplained' END, capacity_reservation_type = 'capacity_block'
FROM block_lines
WHERE d.rowid = detail;

UPDATE bill_lines AS l
SET effective_cost = cost
FROM block_lines
WHERE l.rowid = line;
