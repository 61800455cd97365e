-- reads: discounted_rows, bills, bill_rows, billed_hours, billed_nodes
-- writes: machine_charges (temporary view): charges on GPU machines other than the machines themselves, less discounts: volumes, traffic, addresses, ...
-- invariant: it has no rows of kind instance, and no row twice
CREATE OR REPLACE TEMP VIEW machine_charges AS
WITH machines AS (
    SELECT instance_key FROM billed_hours
    UNION
    SELECT instance_key FROM billed_nodes
),
-- the bill's own names of machines: volumes and traffic may be charged to them
resources AS (
    SELECT DISTINCT lower(resource_id) AS resource_id FROM bill_rows
    WHERE kind = 'instance' AND resource_id IS NOT NULL AND instance_key IN (FROM machines)
),
-- Google Cloud's boot disks have the names of their machines
disks AS (
    SELECT DISTINCT r.sub_account_id, r.zone, r.resource_name FROM bill_rows AS r JOIN bills AS b USING (bill_id)
    WHERE b.provider = 'gcp' AND r.kind = 'instance' AND r.instance_key IN (FROM machines)
)
SELECT r.* REPLACE (
        r.effective_cost + r.discount_cost AS effective_cost,
        -- a discount has the kind of the charge it reduces
        CASE WHEN r.kind = 'discount' AND r.service_category = 'Storage' THEN 'storage' WHEN r.kind = 'discount' AND r.service_category = 'Networking' THEN 'network' ELSE r.kind END AS kind)
FROM discounted_rows AS r
LEFT JOIN machines AS m ON m.instance_key = r.instance_key
LEFT JOIN resources AS s ON s.resource_id = lower(r.resource_id)
LEFT JOIN disks AS d ON r.provider = 'gcp' AND d.sub_account_id = r.sub_account_id AND d.zone = r.zone AND d.resource_name = r.resource_name
WHERE r.kind <> 'instance' AND (m.instance_key IS NOT NULL OR s.resource_id IS NOT NULL OR d.resource_name IS NOT NULL);
