-- reads: priced_nodes, book_fits, selecting_fits
-- writes: nothing; answers the first moment in a node's life at which two price book rows tie as the most specific
-- invariant: only rows with different selectors can tie; of rows with one selector, the latest that has begun applies
-- only with: selecting_fits
WITH rivals AS (
    SELECT a.node_id, a.line AS one_line, b.line AS other_line, a.specificity, greatest(a.start_ms, b.start_ms) AS begins_ms
    FROM selecting_fits AS a
    JOIN selecting_fits AS b ON b.node_id = a.node_id AND b.specificity = a.specificity AND a.line < b.line AND b.selector <> a.selector
),
undecided AS (
    SELECT r.one_line, r.other_line, n.node, greatest(r.begins_ms, n.up_from_ms) AS at_ms,
        least(n.up_to_ms, coalesce(min(f.start_ms), n.up_to_ms)) AS until_ms
    FROM rivals AS r
    JOIN priced_nodes AS n USING (node_id)
    LEFT JOIN book_fits AS f ON f.node_id = r.node_id AND f.specificity > r.specificity
    GROUP BY r.one_line, r.other_line, r.begins_ms, n.node_id, n.node, n.up_from_ms, n.up_to_ms
)
SELECT one_line, other_line, node, at_ms FROM undecided WHERE at_ms < until_ms ORDER BY at_ms, node, one_line LIMIT 1;
