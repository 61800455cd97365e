-- reads: azure_read
-- writes: azure_rows: the rows with what each is to gpucost, and which machine it belongs to
-- invariant: one row per row of the export; only rows of kind 'instance' have an instance_key
CREATE OR REPLACE TEMP TABLE azure_rows AS
WITH told AS (
    SELECT
        *,
        CASE
            WHEN charge_type = 'tax' THEN 'tax'
            WHEN charge_type LIKE 'unused%' THEN 'commitment_unused'
            WHEN charge_type IN ('purchase', 'refund') AND (is_committed OR lower(concat_ws(' ', product_name, order_name)) LIKE '%reserved vm%')
            THEN 'commitment_fee'
            WHEN charge_type = 'refund' THEN 'refund'
            WHEN charge_type LIKE '%credit%' OR charge_type = 'adjustment' THEN 'credit'
            WHEN lower(concat_ws(' ', meter_category, product_name)) LIKE '%support%' AND charge_type <> 'usage'
                OR lower(meter_category) LIKE '%support%' THEN 'support'
            -- Capacity that is kept free and that no machine uses is charged to the reservation itself.
            WHEN resource_key LIKE '%/capacityreservationgroups/%' THEN 'reserved_unused'
            WHEN regexp_matches(lower(meter_category), 'bandwidth|virtual network|load balancer|gateway|expressroute|firewall|content delivery|front door|azure dns|ip address')
            THEN 'network'
            WHEN regexp_matches(lower(meter_category), '^storage|managed disk|azure netapp|backup') THEN 'storage'
            WHEN charge_type = 'usage' AND ((is_machine AND lower(meter_category) LIKE 'virtual machines%') OR usage_type = 'computehr')
            THEN 'instance'
            ELSE 'other'
        END AS kind
    FROM azure_read
)
SELECT
    *,
    kind = 'commitment_fee' OR kind = 'commitment_unused' OR (charge_type = 'usage' AND is_committed) AS is_of_commitment,
    pricing_model = 'spot' OR regexp_matches(lower(concat_ws(' ', meter_name, meter_subcategory, product_name)), '\bspot\b|low priority') AS is_spot,
    -- Kubernetes knows a machine of a scale set as …/virtualMachineScaleSets/<set>/virtualMachines/<number>; AKS bills name the
    -- set as the resource and the machine, '<set>_<number>', in the additional info.
    CASE
        WHEN kind <> 'instance' THEN NULL
        WHEN resource_key IS NULL THEN lower(vm_name)
        WHEN resource_key NOT LIKE '%/virtualmachinescalesets/%' OR resource_key LIKE '%/virtualmachinescalesets/%/virtualmachines/%' THEN resource_key
        WHEN vm_name IS NULL THEN resource_key
        WHEN lower(vm_name) LIKE regexp_extract(resource_key, '/virtualmachinescalesets/([^/]+)', 1) || '\_%' ESCAPE '\'
        THEN resource_key || '/virtualmachines/' || regexp_extract(lower(vm_name), '_([^_]+)$', 1)
        -- Machines of a flexible scale set are virtual machines of their own, with names of their own.
        ELSE regexp_replace(resource_key, '/virtualmachinescalesets/[^/]+$', '/virtualmachines/') || lower(vm_name)
    END AS instance_key,
    -- Quantity counts hours whatever the unit ('1 Hour', '10 Hours', '100 Hours'); licences run beside the machine's hours.
    CASE WHEN kind = 'instance' AND coalesce(unit, 'hour') ILIKE '%hour%' AND lower(meter_category) NOT LIKE '%licen%'
        AND usage_type IN ('', 'computehr') THEN quantity END AS instance_hours
FROM told;
