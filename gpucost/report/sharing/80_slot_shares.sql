-- reads: report_claims, report_allocation_shares
-- writes: report_slot_shares, each allocation's share cut by the slots that the report is by, as 70_allocation_shares.sql cuts a team's
-- invariant: per pot, team and allocation sum(amount) is the allocation's share, exactly; what rounding leaves goes to the largest share, then the first slot
CREATE OR REPLACE TEMP TABLE report_slot_shares AS
WITH weighed AS (
    SELECT c.pot, c.team, c.node_id, c.allocation_id, c.slot, s.amount,
        CASE WHEN sum(c.cost) OVER shares > 0 THEN c.cost ELSE c.gpu_ms END::DECIMAL(38, 9) AS weight
    FROM report_claims AS c
    JOIN report_allocation_shares AS s
        ON s.pot = c.pot AND s.team IS NOT DISTINCT FROM c.team AND s.node_id = c.node_id AND s.allocation_id = c.allocation_id
    WINDOW shares AS (PARTITION BY c.pot, c.team, c.node_id, c.allocation_id)
),
cut AS (
    SELECT *, (trunc(amount * coalesce(weight::DOUBLE / nullif(sum(weight) OVER shares, 0)::DOUBLE, 0) * 1e9) / 1e9)::DECIMAL(38, 9) AS part
    FROM weighed
    WINDOW shares AS (PARTITION BY pot, team, node_id, allocation_id)
)
SELECT pot, team, node_id, allocation_id, slot,
    part + CASE WHEN row_number() OVER (PARTITION BY pot, team, node_id, allocation_id ORDER BY weight DESC, slot) = 1
        THEN amount - sum(part) OVER (PARTITION BY pot, team, node_id, allocation_id) ELSE 0 END AS amount
FROM cut;
