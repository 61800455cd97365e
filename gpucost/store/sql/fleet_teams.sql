-- reads: the pods of a described fleet, bound as one list per column
-- writes: allocation_teams
-- invariant: one row per pod: its team is one for all its life
INSERT INTO allocation_teams BY NAME
SELECT hash(cluster, uid, node, held_from_ms) AS allocation_id, team, 0 AS from_ms, 9223372036854775807 AS to_ms
FROM (
    SELECT unnest($cluster::VARCHAR[]) AS cluster, unnest($node::VARCHAR[]) AS node, unnest($team::VARCHAR[]) AS team,
        unnest($uid::VARCHAR[]) AS uid, unnest($from_ms::BIGINT[]) AS held_from_ms
);
