-- reads: priced_nodes, purchase_fits, price_book, billed_nodes
-- writes: book_fits, every price book row that matches a node, with the moment from which it may apply; selecting_fits, the rows with a selector
-- invariant: a row never matches if its purchase option is for another capacity type; rows with one specificity may differ in their selectors only; no row is final for a node on a bill
CREATE OR REPLACE TEMP TABLE book_fits AS
SELECT n.node_id, b.line, 4 * b.specificity + coalesce(o.preference, 0) AS specificity, [b.selector_labels, b.selector_values] AS selector,
    coalesce(b.start_ms, -4611686018427387904) AS start_ms,
    (b.price_per_hour * CASE WHEN b.per_gpu THEN n.gpu_count ELSE n.machine_share END)::DECIMAL(38, 12) AS price_per_hour,
    b.currency, b.price_as_of, b.purchase_option,
    -- of a node on a bill, only the bill's prices are final
    CASE WHEN b.final AND n.node_id NOT IN (SELECT node_id FROM billed_nodes) THEN 'final_price_book' ELSE 'price_book' END AS price_source
FROM priced_nodes AS n
JOIN price_book AS b
    ON coalesce(b.provider = n.provider, b.provider IS NULL)
    AND coalesce(b.region = n.region, b.region IS NULL)
    AND coalesce(b.zone = n.zone, b.zone IS NULL)
    AND coalesce(b.instance_type = n.instance_type, b.instance_type IS NULL)
    AND coalesce(list_bool_and(list_transform(range(1, len(b.selector_labels) + 1), lambda i:
        coalesce(coalesce(
            n.labels[b.selector_labels[i]],
            -- newer kube-state-metrics convert camelCase to snake_case
            n.labels[lower(regexp_replace(b.selector_labels[i], '([a-z0-9])([A-Z])', '\1_\2', 'g'))]
        ) = b.selector_values[i], false)
        -- one value holds several of Slurm's partitions and features
        OR coalesce(list_contains(string_split(n.labels[b.selector_labels[i]], ','), b.selector_values[i]), false))), true)
    AND (n.gpu_count > 0 OR NOT b.per_gpu)
LEFT JOIN purchase_fits AS o ON o.capacity_type = n.capacity_type AND o.purchase_option = b.purchase_option
    -- commitments do not price moved nodes
    AND (o.is_list OR NOT n.is_moved)
WHERE b.purchase_option IS NULL OR o.capacity_type IS NOT NULL;
CREATE OR REPLACE TEMP VIEW selecting_fits AS FROM book_fits WHERE len(selector[1]) > 0;
