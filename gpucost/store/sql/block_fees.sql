-- reads: bill_details, bill_lines
-- writes: block_lines (temporary), bill_lines, bill_details: of Capacity Blocks whose fee is in one bill and whose hours are in others, what each row bears of the fee
-- invariant: what the rows of a block bear is its fee, exactly, in whichever order its bills were loaded; fees after discounts, several of one block, and blocks without an id stay as they are
CREATE OR REPLACE TEMP TABLE block_lines AS
WITH lines AS (
    SELECT l.batch_id, l.detail_id, l.source_row, d.capacity_reservation_id AS block, d.kind = 'commitment_fee' AS is_fee, l.billed_cost, l.instance_hours,
        sum(l.billed_cost) OVER w AS fee, count(*) FILTER (is_fee) OVER w AS fees, min(d.bill_id) OVER w < max(d.bill_id) OVER w AS is_torn,
        -- hours that are in no bill yet keep their part
        greatest(sum(l.instance_hours) OVER w, sum(l.pricing_quantity) FILTER (is_fee AND d.pricing_unit ILIKE 'h%') OVER w) AS hours
    FROM bill_details AS d JOIN bill_lines AS l USING (batch_id, detail_id)
    -- hours need not state that their reservation is a block
    WHERE d.capacity_reservation_id IN (SELECT capacity_reservation_id FROM bill_details WHERE kind = 'commitment_fee' AND capacity_reservation_type = 'capacity_block')
        AND d.is_net IS NOT TRUE AND (is_fee OR d.kind IN ('instance', 'reserved_unused') AND l.billed_cost = 0)
    WINDOW w AS (PARTITION BY d.capacity_reservation_id)
),
shares AS (
    SELECT *, CASE WHEN NOT is_fee THEN (fee * (instance_hours / hours))::DECIMAL(38, 12) END AS share FROM lines WHERE fees = 1 AND is_torn AND hours > 0
)
SELECT batch_id, detail_id, source_row, coalesce(share, billed_cost - sum(share) OVER (PARTITION BY block)) AS cost FROM shares;

UPDATE bill_details
SET cost_cause = 'capacity_block', capacity_reservation_type = 'capacity_block'
WHERE (batch_id, detail_id) IN (SELECT (batch_id, detail_id) FROM block_lines);

UPDATE bill_lines AS l
SET effective_cost = b.cost
FROM block_lines AS b
WHERE b.batch_id = l.batch_id AND b.detail_id = l.detail_id AND b.source_row = l.source_row;
