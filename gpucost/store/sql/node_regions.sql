-- reads: nodes, series
-- writes: nothing; answers the regions in which nodes were seen, whether or not they were attributed yet
-- invariant: each region once
SELECT region FROM nodes WHERE region IS NOT NULL AND gpu_count > 0
UNION
SELECT coalesce(labels['label_topology_kubernetes_io_region'], labels['label_failure_domain_beta_kubernetes_io_region']) AS region
FROM series
WHERE metric = 'kube_node_labels'
    AND coalesce(labels['label_topology_kubernetes_io_region'], labels['label_failure_domain_beta_kubernetes_io_region']) IS NOT NULL
ORDER BY region;
