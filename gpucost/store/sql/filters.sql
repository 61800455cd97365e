-- reads: allocations
-- writes: passes(names, name), whether a filter lets a name through; passes_workload(names, workload), the same of Kind/name, which may be named without its kind; dimensions(chosen, facts), those dimensions of a row of facts that are chosen, the others null; has_users(node), false for a plain host of which no scheduler and no label ever named a user
-- invariant: an empty filter lets everything through, also what has no name
CREATE OR REPLACE TEMP MACRO passes(names, name) AS len(names::VARCHAR[]) = 0 OR list_contains(names::VARCHAR[], name);
CREATE OR REPLACE TEMP MACRO passes_workload(names, workload) AS passes(names, workload)
    OR list_contains(names::VARCHAR[], split_part(workload, '/', 2));
CREATE OR REPLACE TEMP MACRO has_users(node) AS node.labels['label_host'] IS DISTINCT FROM node.node OR node.created_ms IS NOT NULL
    OR node.node_id IN (SELECT node_id FROM allocations);
CREATE OR REPLACE TEMP MACRO dimensions(chosen, facts) AS {
    'cluster': CASE WHEN list_contains(chosen::VARCHAR[], 'cluster') THEN facts.cluster END,
    'namespace': CASE WHEN list_contains(chosen::VARCHAR[], 'namespace') THEN facts.namespace END,
    'team': CASE WHEN list_contains(chosen::VARCHAR[], 'team') THEN facts.team END,
    'account': CASE WHEN list_contains(chosen::VARCHAR[], 'account') THEN facts.account END,
    'user': CASE WHEN list_contains(chosen::VARCHAR[], 'user') THEN facts."user" END,
    'partition': CASE WHEN list_contains(chosen::VARCHAR[], 'partition') THEN facts.partition END,
    'qos': CASE WHEN list_contains(chosen::VARCHAR[], 'qos') THEN facts.qos END,
    'reservation': CASE WHEN list_contains(chosen::VARCHAR[], 'reservation') THEN facts.reservation END,
    'workload': CASE WHEN list_contains(chosen::VARCHAR[], 'workload') THEN facts.workload END,
    'workload_type': CASE WHEN list_contains(chosen::VARCHAR[], 'workload_type') THEN facts.workload_type END,
    'pod': CASE WHEN list_contains(chosen::VARCHAR[], 'pod') THEN facts.pod END,
    'uid': CASE WHEN list_contains(chosen::VARCHAR[], 'uid') THEN facts.uid END,
    'node': CASE WHEN list_contains(chosen::VARCHAR[], 'node') THEN facts.node END,
    'gpu_model': CASE WHEN list_contains(chosen::VARCHAR[], 'gpu_model') THEN facts.gpu_model END,
    'capacity_type': CASE WHEN list_contains(chosen::VARCHAR[], 'capacity_type') THEN facts.capacity_type END,
    'region': CASE WHEN list_contains(chosen::VARCHAR[], 'region') THEN facts.region END,
    'zone': CASE WHEN list_contains(chosen::VARCHAR[], 'zone') THEN facts.zone END,
    'month': CASE WHEN list_contains(chosen::VARCHAR[], 'month') THEN facts.month END,
    'day': CASE WHEN list_contains(chosen::VARCHAR[], 'day') THEN facts.day END,
    'hour': CASE WHEN list_contains(chosen::VARCHAR[], 'hour') THEN facts.hour END
};
