-- reads: focus_charges, focus_holders
-- writes: focus_splits, one row per (charge, holder): its part of every amount and quantity of the charge, and the unit prices of both
-- invariant: GPU-hours count once per machine and charge period; per charge every amount adds up to the original, exactly: the rounding remainder goes to the largest share, then the first name
CREATE OR REPLACE TEMP TABLE focus_splits AS
WITH amounts AS (
    SELECT charge_id, instance_key, from_ms, to_ms, kind = 'instance' AS has_hours, list_unit_price, contracted_unit_price,
        billed_cost AS all_billed, effective_cost AS all_effective,
        -- a discount repeats the quantity of the discounted charge, which counts there
        CASE WHEN kind <> 'discount' THEN coalesce(pricing_quantity, consumed_quantity, instance_hours::DECIMAL(38, 12)) END AS all_priced,
        coalesce(contracted_cost,
            -- without a commitment the contracted cost is the effective cost, for spot too
            CASE WHEN kind = 'instance' AND commitment_discount_id IS NULL AND pricing_category IS DISTINCT FROM 'Committed' THEN effective_cost END,
            (contracted_unit_price * all_priced)::DECIMAL(38, 12), list_cost, billed_cost) AS all_contracted,
        -- without a list price, the contracted price is the best known one
        coalesce(list_cost, (list_unit_price * all_priced)::DECIMAL(38, 12), all_contracted) AS all_list,
        CASE WHEN charge_category = 'Usage' THEN coalesce(consumed_quantity, pricing_quantity, instance_hours::DECIMAL(38, 12)) END AS all_consumed,
        CASE WHEN commitment_discount_id IS NOT NULL THEN commitment_discount_quantity END AS all_committed,
        instance_hours::DECIMAL(38, 12) AS all_hours
    FROM focus_charges
),
parts AS (
    SELECT a.*, h.kind AS holder, h.team, h.cluster, h.node, h.namespace, h.workload, h.gpu_model, h.capacity_type, h.gpu_hours AS measured_gpu_hours,
        -- a cloud that charges parts of a machine separately has several charges for the same time
        CASE WHEN a.charge_id = min(a.charge_id) FILTER (a.has_hours) OVER (PARTITION BY a.instance_key, a.from_ms, a.to_ms) THEN h.gpu_hours ELSE 0 END AS gpu_hours,
        row_number() OVER w = 1 AS takes_rest,
        h.share::DECIMAL(18, 12) AS ratio,
        (all_billed * h.share)::DECIMAL(38, 12) AS billed,
        (all_effective * h.share)::DECIMAL(38, 12) AS effective,
        (all_list * h.share)::DECIMAL(38, 12) AS list,
        (all_contracted * h.share)::DECIMAL(38, 12) AS contracted,
        (all_priced * h.share)::DECIMAL(38, 12) AS priced,
        (all_consumed * h.share)::DECIMAL(38, 12) AS consumed,
        (all_committed * h.share)::DECIMAL(38, 12) AS committed,
        (all_hours * h.share)::DECIMAL(38, 12) AS hours
    FROM amounts AS a JOIN focus_holders AS h USING (instance_key, from_ms, to_ms)
    WINDOW w AS (PARTITION BY a.charge_id ORDER BY h.share DESC, h.kind, h.team, h.cluster, h.node, h.namespace, h.workload)
)
SELECT charge_id, holder, team, cluster, node, namespace, workload, gpu_model, capacity_type, gpu_hours, measured_gpu_hours,
    ratio + CASE WHEN takes_rest THEN 1 - sum(ratio) OVER o ELSE 0 END AS ratio,
    billed + CASE WHEN takes_rest THEN all_billed - sum(billed) OVER o ELSE 0 END AS billed_cost,
    effective + CASE WHEN takes_rest THEN all_effective - sum(effective) OVER o ELSE 0 END AS effective_cost,
    list + CASE WHEN takes_rest THEN all_list - sum(list) OVER o ELSE 0 END AS list_cost,
    contracted + CASE WHEN takes_rest THEN all_contracted - sum(contracted) OVER o ELSE 0 END AS contracted_cost,
    priced + CASE WHEN takes_rest THEN all_priced - sum(priced) OVER o ELSE 0 END AS pricing_quantity,
    consumed + CASE WHEN takes_rest THEN all_consumed - sum(consumed) OVER o ELSE 0 END AS consumed_quantity,
    committed + CASE WHEN takes_rest THEN all_committed - sum(committed) OVER o ELSE 0 END AS commitment_discount_quantity,
    hours + CASE WHEN takes_rest THEN all_hours - sum(hours) OVER o ELSE 0 END AS instance_hours,
    -- computed from costs and quantities if the bill has no unit price, or has one in another unit or rounded; never
    -- negative
    CASE WHEN abs(list_unit_price * all_priced - all_list) <= 1e-9 * greatest(abs(all_list), 1) THEN list_unit_price
        WHEN all_list / nullif(all_priced, 0) >= 0 THEN (all_list / all_priced)::DECIMAL(38, 12) END AS list_unit_price,
    CASE WHEN abs(contracted_unit_price * all_priced - all_contracted) <= 1e-9 * greatest(abs(all_contracted), 1) THEN contracted_unit_price
        WHEN all_contracted / nullif(all_priced, 0) >= 0 THEN (all_contracted / all_priced)::DECIMAL(38, 12) END AS contracted_unit_price
FROM parts
WINDOW o AS (PARTITION BY charge_id);
