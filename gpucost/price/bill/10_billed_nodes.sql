-- reads: nodes, bill_details, bill_lines
-- writes: billed_nodes (stored), machines of bills that are GPU nodes, by provider id
-- invariant: a node is matched by its own id, otherwise by its scale set's, otherwise not at all
DELETE FROM billed_nodes;
-- only with: bill_rows
INSERT INTO billed_nodes BY NAME
WITH machines AS (
    SELECT node_id, provider,
        -- aws:///us-east-1a/i-0123 and aws:///use1-az4/sagemaker/cluster/hyperpod-…-i-0123 -> i-0123;
        -- gce://project/zone/name and azure:///subscriptions/… stay
        CASE WHEN regexp_matches(lower(machine_id), '^aws://') THEN regexp_replace(regexp_extract(lower(machine_id), '[^/]+$'), '^hyperpod-.+-(i-[0-9a-f]+)$', '\1')
            ELSE ltrim(regexp_replace(lower(machine_id), '^[a-z]+://', ''), '/') END AS machine_key
    FROM nodes
    WHERE machine_id IS NOT NULL
),
billed AS (
    SELECT DISTINCT instance_key, ltrim(lower(instance_key), '/') AS machine_key
    FROM bill_details SEMI JOIN bill_lines USING (batch_id, detail_id)
    WHERE instance_key IS NOT NULL AND kind = 'instance'
),
own AS (
    SELECT b.instance_key, m.node_id, false AS is_scale_set FROM machines AS m JOIN billed AS b USING (machine_key)
)
FROM own
UNION ALL
SELECT b.instance_key, m.node_id, true
FROM machines AS m JOIN billed AS b ON b.machine_key = regexp_extract(m.machine_key, '^(.*/virtualmachinescalesets/[^/]+)/virtualmachines/[^/]+$', 1)
WHERE m.node_id NOT IN (SELECT node_id FROM own);
