-- reads: raw, charges_read (the same rows, mapped)
-- writes: nothing; answers level, code, message, fix
-- invariant: one row per finding
SELECT 'warning' AS level, 'reservation_cost_missing' AS code,
       count(*) || ' rows of reserved usage have no reservation cost, among them ' || min(resource_id)
           || ': their unblended cost stands in (' || sum(effective_cost)::DECIMAL(38, 2) || ' ' || min(billing_currency) || ')' AS message,
       'export the column reservation/EffectiveCost (CUR 2.0: reservation_effective_cost)' AS fix
FROM charges_read
WHERE cost_cause = 'reservation_cost_missing'
HAVING count(*) > 0
UNION ALL
SELECT 'warning', 'commitment_cost_missing',
       count(*) || ' rows of savings plans or reservation fees have no amortized cost: fees are taken as used up in full',
       'export the savingsPlan and reservation columns'
FROM charges_read
WHERE cost_cause = 'commitment_cost_missing'
HAVING count(*) > 0
UNION ALL
SELECT 'warning', 'zero_unexplained',
       count(*) || ' rows of running instances cost nothing, and nothing in the export says why (first: ' || min(resource_id) || ')',
       'these hours are priced by the next source: price book, spot history or list price'
FROM charges_read
WHERE cost_cause = 'zero_unexplained'
HAVING count(*) > 0
UNION ALL
SELECT 'warning', 'block_fee_alone',
       'a Capacity Block fee of ' || effective_cost::DECIMAL(38, 2) || ' ' || billing_currency || ' (' || source_file || ', row ' || source_row
           || ') covers hours that are not in this bill',
       'those hours are in the bill of another month'
FROM charges_read
WHERE cost_cause = 'capacity_block' AND kind = 'commitment_fee' AND abs(effective_cost) >= 0.005
UNION ALL
SELECT 'warning', 'no_line_type',
       'the export has no line item types: every row is taken as plain usage',
       'export the column lineItem/LineItemType (CUR 2.0: line_item_line_item_type)'
FROM raw
HAVING count(*) > 0 AND count(line_item_line_item_type) = 0
UNION ALL
SELECT 'note', 'list_cost_unread',
       count(*) || ' public on-demand costs are no numbers (such as ' || min(pricing_public_on_demand_cost) || ') and are left out',
       NULL
FROM raw
WHERE pricing_public_on_demand_cost IS NOT NULL AND TRY_CAST(pricing_public_on_demand_cost AS DECIMAL(38, 12)) IS NULL
HAVING count(*) > 0
UNION ALL
SELECT 'note', 'no_resource_ids',
       'the export has no resource ids: its charges can price no node',
       'export resource ids (CUR: "Include resource IDs")'
FROM raw
HAVING count(*) > 0 AND count(line_item_resource_id) = 0;
