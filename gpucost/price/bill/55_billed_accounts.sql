-- reads: billed_hours, billed_nodes, nodes
-- writes: billed_accounts, the accounts whose bills tell of a cluster's nodes
-- invariant: one row per (cluster, provider, account)
CREATE OR REPLACE TEMP TABLE billed_accounts AS
SELECT DISTINCT n.cluster, h.provider, h.account
FROM billed_hours AS h JOIN billed_nodes AS b USING (instance_key) JOIN nodes AS n USING (node_id);
