-- reads: cur, cur_costs
-- writes: moved_costs: each Capacity Block row's share of the block's upfront fee, each instance's share of its Dedicated Hosts' cost, and the remainder on the rows of fees and hosts; the part of a commitment's refund that lowers its cost here
-- invariant: the shares of a block or of hosts and the remainder sum to its fee, exactly; the fee of a block without hours here stays whole, and so does a host without an instance or with several sizes; a refund never takes off more than the commitment costs here, and stays whole without other rows of the commitment
-- only with: cur_moved
CREATE OR REPLACE TEMP TABLE moved_costs AS
WITH fees AS (
    SELECT source_file, file_row_number,
           CASE WHEN host_pool IS NULL THEN coalesce(net_unblended, unblended) ELSE amortized END AS fee,
           coalesce(host_pool, capacity_reservation, line_item_usage_account_id || ' ' || machine) AS block,
           -- If the fee has instance-hours, hours beyond this bill keep their part; so do hours of hosts without an
           -- instance.
           CASE WHEN lower(coalesce(pricing_unit, '')) LIKE 'h%' THEN amount END AS reserved_hours
    FROM cur_costs
    WHERE NOT is_split AND (line_type = 'Fee' AND of_block OR host_pool IS NOT NULL AND is_usage AND NOT is_machine)
), blocks AS (
    SELECT block, sum(fee) AS fee, sum(reserved_hours) AS reserved_hours
    FROM fees
    GROUP BY block
), bearers AS (
    SELECT c.source_file, c.file_row_number, b.block, b.fee, b.reserved_hours, c.hours::DECIMAL(38, 12) AS hours
    FROM cur AS c
    JOIN blocks AS b
      -- Without the reservation's id: the account's machines of that type without their own charge.
      ON b.block = CASE WHEN c.host_pool IS NOT NULL THEN c.host_pool
                        WHEN c.capacity_reservation IN (SELECT block FROM blocks) THEN c.capacity_reservation
                        ELSE c.line_item_usage_account_id || ' ' || c.machine END
    WHERE (c.is_instance OR c.is_reserved_unused) AND c.line_type = 'Usage' AND c.unblended = 0 AND c.hours > 0
    -- If a host is shared by several sizes, hours do not determine the shares.
    QUALIFY c.host_pool IS NULL OR count(DISTINCT c.machine) OVER (PARTITION BY b.block) = 1
), placed AS (
    SELECT *,
           sum(hours) OVER (PARTITION BY block ORDER BY source_file, file_row_number) AS until_here,
           greatest(sum(hours) OVER (PARTITION BY block), coalesce(reserved_hours, 0)) AS all_hours,
           CASE WHEN until_here = all_hours THEN fee ELSE (fee * (until_here / all_hours))::DECIMAL(38, 12) END AS up_to
    FROM bearers
), shares AS (
    -- Differences of rounded running sums lose no cent.
    SELECT source_file, file_row_number, block, up_to - lag(up_to, 1, 0) OVER (PARTITION BY block ORDER BY source_file, file_row_number) AS share
    FROM placed
), spread AS (
    SELECT block, sum(share)::DECIMAL(38, 12) AS spread
    FROM shares
    GROUP BY block
), first_fees AS (
    SELECT f.*, s.spread, row_number() OVER (PARTITION BY block ORDER BY source_file, file_row_number) AS place,
           (f.fee * (s.spread / nullif(sum(f.fee) OVER (PARTITION BY block), 0)))::DECIMAL(38, 12) AS taken
    FROM fees AS f
    JOIN spread AS s USING (block)
), returned AS (
    -- An upfront fee is amortized: its refund takes back at most the commitment's cost on other rows.
    SELECT commitment, sum(amortized) FILTER (line_type <> 'Refund' AND NOT is_discount AND NOT is_split) AS cost,
           -sum(amortized) FILTER (line_type = 'Refund') AS refund
    FROM cur_costs
    WHERE commitment IN (SELECT commitment FROM cur WHERE line_type = 'Refund' AND coalesce(line_item_usage_type, '') NOT LIKE '%NoUpfront%')
    GROUP BY commitment
    HAVING cost < refund
)
SELECT source_file, file_row_number, share
FROM shares
UNION ALL
SELECT c.source_file, c.file_row_number, (c.amortized * (greatest(0, r.cost) / r.refund))::DECIMAL(38, 12)
FROM cur_costs AS c JOIN returned AS r USING (commitment)
WHERE c.line_type = 'Refund'
UNION ALL
-- The rounding remainder stays at the first of several fees or hosts.
SELECT source_file, file_row_number,
       (fee - taken + CASE WHEN place = 1 THEN sum(taken) OVER (PARTITION BY block) - spread ELSE 0 END)::DECIMAL(38, 12)
FROM first_fees;
