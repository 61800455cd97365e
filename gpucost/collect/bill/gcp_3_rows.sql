-- reads: gcp_read
-- writes: gcp_rows: the rows, numbered, with what each is to gpucost, which VM it belongs to, and which part of it it pays for
-- invariant: one row per row of the export; only rows of kind 'instance' have an instance_key
CREATE OR REPLACE TEMP TABLE gcp_rows AS
WITH words AS (
    SELECT
        *,
        lower(sku) AS name,
        coalesce(service, '') = 'Compute Engine' AS is_compute,
        regexp_matches(coalesce(global_name, ''), '/instances/[^/]+$') OR regexp_matches(coalesce(resource_name, ''), '(^|/)instances/[^/]+$')
            AS is_on_vm
    FROM gcp_read
),
told AS (
    SELECT
        *,
        CASE
            WHEN cost_type = 'tax' THEN 'tax'
            -- A goodwill or an SLA credit is no price of what it is granted for.
            WHEN adjustment IN ('GOODWILL', 'SALES_BASED_GOODWILL', 'SLA_VIOLATION', 'BALANCE_TRANSFER', 'ACCOUNT_CLOSURE') THEN 'credit'
            WHEN has_offset OR name LIKE 'commitment%' OR (subscription_id IS NOT NULL AND regexp_matches(name, 'commitment|\bcuds?\b'))
            THEN 'commitment_fee'
            WHEN is_unused_reservation THEN 'reserved_unused'
            WHEN service ILIKE '%support%' AND service NOT ILIKE '%api%' THEN 'support'
            WHEN regexp_matches(name, 'egress|ingress|data transfer|network|external ip|static ip|load balanc|forwarding rule|\bvpn\b|cloud nat|interconnect')
                OR service = 'Networking'
            THEN 'network'
            WHEN service = 'Cloud Storage' OR service ILIKE '%filestore%'
                OR (is_compute AND regexp_matches(name, '\bpd\b|persistent disk|hyperdisk|\bdisk|snapshot|\bimage|storage'))
            THEN 'storage'
            WHEN is_compute AND is_on_vm THEN 'instance'
            ELSE 'other'
        END AS kind
    FROM words
)
SELECT
    * EXCLUDE (name, is_compute, is_on_vm),
    row_number() OVER () AS row_id,
    regexp_matches(name, 'spot|preemptible') AS is_spot,
    -- What Kubernetes knows the machine by is gce://project/zone/name; global_name ends in a number, resource.name in the name.
    CASE WHEN kind = 'instance' THEN lower(concat_ws('/',
        coalesce(project_id, nullif(regexp_extract(global_name, '/projects/([^/]+)/', 1), '')),
        coalesce(nullif(zone, ''), nullif(regexp_extract(global_name, '/zones/([^/]+)/', 1), '')),
        regexp_extract(coalesce(resource_name, global_name), '([^/]+)$', 1)
    )) END AS instance_key,
    CASE
        WHEN kind NOT IN ('instance', 'commitment_fee') THEN NULL
        WHEN regexp_matches(name, 'licen[sc]') THEN 'licence'
        WHEN regexp_matches(name, '\bgpu\b|nvidia') THEN 'gpu'
        WHEN regexp_matches(name, '\bram\b|memory') AND NOT regexp_matches(name, '\bcore\b|\bcpu\b') THEN 'ram'
        WHEN regexp_matches(name, '\bcore\b|\bv?cpu\b') THEN 'core'
        WHEN regexp_matches(name, 'ssd') THEN 'ssd'
        ELSE 'other'
    END AS component,
    -- Commitments cover a family of machines or a model of GPU: 'Commitment v1: A2 Cpu in Americas for 1 Year' covers
    -- 'A2 Instance Core running in Americas'; a name without a family is N1.
    CASE WHEN kind IN ('instance', 'commitment_fee') THEN trim(regexp_replace(regexp_replace(regexp_replace(regexp_replace(
        name,
        '^commitment[^:]*:\s*', ''),
        '\s+(running|attached|in|for)\b.*$', ''),
        '\b(spot|preemptible|reserved|predefined|custom|extended|instance|instances|amd|arm|intel|cores?|v?cpus?|ram|memory|gpus?|premium)\b', ' ', 'g'),
        '\s+', ' ', 'g')) END AS family
FROM told;
