-- reads: the variable cost_basis
-- writes: is_host_resource(resource), whether a resource is one of the node's besides GPUs that the cost basis charges by request
-- invariant: none is with the cost basis `node`
CREATE OR REPLACE TEMP MACRO is_host_resource(resource) AS
    getvariable('cost_basis') <> 'node' AND resource IN ('cpu', 'memory');
