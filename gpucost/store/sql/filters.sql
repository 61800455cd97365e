-- reads: allocations
-- writes: passes(names, name): whether a name passes a filter; passes_workload(names, workload): the same for Kind/name or just the name; is_selected(…): whether a row passes all filters: the variable filters, and labels by its row of label_spans, if it has one; if_chosen(chosen, name, fact): a fact if its name is chosen; dimensions(chosen, facts): the chosen dimensions of a row, the others null; its labels, if the variable report_has_labels is true, in the order of the chosen dimensions; total_ms(ms): the exact sum of GPU milliseconds; part_of(team): the team if the variable report_each_team is true, otherwise null; has_users(node): false for a plain host whose users no scheduler or label ever named
-- invariant: an empty filter passes everything, including rows without a name
CREATE OR REPLACE TEMP MACRO passes(names, name) AS len(names::VARCHAR[]) = 0 OR list_contains(names::VARCHAR[], name);
CREATE OR REPLACE TEMP MACRO passes_workload(names, workload) AS passes(names, workload)
    OR list_contains(names::VARCHAR[], split_part(workload, '/', 2));
CREATE OR REPLACE TEMP MACRO is_selected(cluster, namespace, team, workload, "user", has_labels) AS
    passes(getvariable('filters').clusters, cluster) AND passes(getvariable('filters').namespaces, namespace)
    AND passes(getvariable('filters').teams, team) AND passes_workload(getvariable('filters').workloads, workload)
    AND passes(getvariable('filters').users, "user") AND coalesce(has_labels, getvariable('report_by_label') IS NOT TRUE);
CREATE OR REPLACE TEMP MACRO part_of(team) AS CASE WHEN getvariable('report_each_team') THEN team END;
CREATE OR REPLACE TEMP MACRO has_users(node) AS node.labels['label_host'] IS DISTINCT FROM node.node OR node.created_ms IS NOT NULL
    OR node.node_id IN (SELECT node_id FROM allocations);
-- binary fractions of GPU milliseconds add up in any order
CREATE OR REPLACE TEMP MACRO total_ms(ms) AS sum(ms::DECIMAL(38, 6))::DOUBLE;
CREATE OR REPLACE TEMP MACRO if_chosen(chosen, name, fact) AS CASE WHEN list_contains(chosen::VARCHAR[], name) THEN fact END;
CREATE OR REPLACE TEMP MACRO dimensions(chosen, facts) AS {
    'cluster': if_chosen(chosen, 'cluster', facts.cluster),
    'namespace': if_chosen(chosen, 'namespace', facts.namespace),
    'team': if_chosen(chosen, 'team', facts.team),
    'top_team': if_chosen(chosen, 'top_team', coalesce(getvariable('top_teams')[facts.team], facts.team)),
    'account': if_chosen(chosen, 'account', facts.account),
    'user': if_chosen(chosen, 'user', facts."user"),
    'partition': if_chosen(chosen, 'partition', facts.partition),
    'qos': if_chosen(chosen, 'qos', facts.qos),
    'reservation': if_chosen(chosen, 'reservation', facts.reservation),
    'workload': if_chosen(chosen, 'workload', facts.workload),
    'workload_type': if_chosen(chosen, 'workload_type', facts.workload_type),
    'pod': if_chosen(chosen, 'pod', facts.pod),
    'uid': if_chosen(chosen, 'uid', facts.uid),
    'node': if_chosen(chosen, 'node', facts.node),
    'gpu_model': if_chosen(chosen, 'gpu_model', facts.gpu_model),
    'capacity_type': if_chosen(chosen, 'capacity_type', facts.capacity_type),
    'region': if_chosen(chosen, 'region', facts.region),
    'zone': if_chosen(chosen, 'zone', facts.zone),
    'month': if_chosen(chosen, 'month', facts.month),
    'day': if_chosen(chosen, 'day', facts.day),
    'hour': if_chosen(chosen, 'hour', facts.hour),
    'labels': CASE WHEN getvariable('report_has_labels') THEN list_transform(chosen::VARCHAR[], lambda name: facts.labels[name]) END
};
