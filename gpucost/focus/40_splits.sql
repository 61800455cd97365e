-- reads: focus_charges, focus_holders
-- writes: focus_splits, one row per (charge, holder): its part of every amount and quantity of the charge
-- invariant: GPU-hours stand once per machine and charge period; per charge every amount adds up to the origin's exactly: what rounding leaves goes to the largest share, then the first name
CREATE OR REPLACE TEMP TABLE focus_splits AS
WITH parts AS (
    SELECT c.charge_id, h.kind AS holder, h.team, h.cluster, h.node, h.namespace, h.workload, h.gpu_model, h.capacity_type, h.gpu_hours AS measured_gpu_hours,
        -- a cloud that charges a machine's parts apart has several charges of the same time
        CASE WHEN c.charge_id = min(c.charge_id) OVER (PARTITION BY c.instance_key, c.from_ms, c.to_ms) THEN h.gpu_hours ELSE 0 END AS gpu_hours,
        row_number() OVER w = 1 AS takes_rest,
        h.share::DECIMAL(18, 12) AS ratio,
        c.billed_cost AS all_billed, (c.billed_cost * h.share)::DECIMAL(38, 12) AS billed,
        c.effective_cost AS all_effective, (c.effective_cost * h.share)::DECIMAL(38, 12) AS effective,
        -- without a list the price agreed on is the best that is known of it, and the other way round
        coalesce(c.list_cost, c.contracted_cost, c.billed_cost) AS all_list, (all_list * h.share)::DECIMAL(38, 12) AS list,
        coalesce(c.contracted_cost, c.list_cost, c.billed_cost) AS all_contracted, (all_contracted * h.share)::DECIMAL(38, 12) AS contracted,
        coalesce(c.pricing_quantity, c.consumed_quantity, c.instance_hours::DECIMAL(38, 12)) AS all_priced, (all_priced * h.share)::DECIMAL(38, 12) AS priced,
        coalesce(c.consumed_quantity, c.pricing_quantity, c.instance_hours::DECIMAL(38, 12)) AS all_consumed, (all_consumed * h.share)::DECIMAL(38, 12) AS consumed
    FROM focus_charges AS c JOIN focus_holders AS h USING (instance_key, from_ms, to_ms)
    WINDOW w AS (PARTITION BY c.charge_id ORDER BY h.share DESC, h.kind, h.team, h.cluster, h.node, h.namespace, h.workload)
)
SELECT charge_id, holder, team, cluster, node, namespace, workload, gpu_model, capacity_type, gpu_hours, measured_gpu_hours,
    ratio + CASE WHEN takes_rest THEN 1 - sum(ratio) OVER o ELSE 0 END AS ratio,
    billed + CASE WHEN takes_rest THEN all_billed - sum(billed) OVER o ELSE 0 END AS billed_cost,
    effective + CASE WHEN takes_rest THEN all_effective - sum(effective) OVER o ELSE 0 END AS effective_cost,
    list + CASE WHEN takes_rest THEN all_list - sum(list) OVER o ELSE 0 END AS list_cost,
    contracted + CASE WHEN takes_rest THEN all_contracted - sum(contracted) OVER o ELSE 0 END AS contracted_cost,
    priced + CASE WHEN takes_rest THEN all_priced - sum(priced) OVER o ELSE 0 END AS pricing_quantity,
    consumed + CASE WHEN takes_rest THEN all_consumed - sum(consumed) OVER o ELSE 0 END AS consumed_quantity
FROM parts
WINDOW o AS (PARTITION BY charge_id);
