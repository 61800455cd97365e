"""Rules of single SQL stages of published files, over tables of a few rows."""

from __future__ import annotations

from tests.unit.stage_tables import Tables, rule_test

HOUR = 3_600_000
_CELLS = (
    "node_id INT, allocation_id INT, kind VARCHAR, team VARCHAR, from_ms BIGINT, to_ms BIGINT, cost DECIMAL(38, 9),"
    " unallocated_cost DECIMAL(38, 9), not_collected_cost DECIMAL(38, 9), estimated_cost DECIMAL(38, 9),"
    " allocated_gpu_ms DOUBLE, unallocated_gpu_ms DOUBLE, not_collected_gpu_ms DOUBLE"
)
_API_SHARES = "api_shares: charge_ids VARCHAR[], start_ms BIGINT, end_ms BIGINT, team VARCHAR, share DOUBLE"

test_rule = rule_test("""
= the rest of a charge after pods and node is outside the node's life
publish/focus/20_holders

focus_charges: instance_key VARCHAR, from_ms BIGINT, to_ms BIGINT
'i-1', 0, 1h

billed_hours: instance_key, from_ms, to_ms, instance_hours
'i-1', 0, 1h, 1

billed_nodes: instance_key, node_id
'i-1', 1

nodes: node_id, cluster, node, gpu_count, up_from_ms, up_to_ms
1, 'c', 'n', 8, 0, 2700000

collected: cluster, from_ms, to_ms
'c', 0, 1h

allocations: allocation_id, namespace, workload
5, 'ns', 'w'

hours: node_id INT, allocation_id INT, kind VARCHAR, team VARCHAR, from_ms BIGINT, to_ms BIGINT, cost MONEY, \
unallocated_cost MONEY, not_collected_cost MONEY, estimated_cost MONEY, allocated_gpu_ms DOUBLE, \
unallocated_gpu_ms DOUBLE, not_collected_gpu_ms DOUBLE
1, 5, 'allocated', 'red', 0, 2700000, 2, 0, 0, 0, 2h, 0, 0
1, NULL, 'unallocated', NULL, 0, 2700000, 0, 1, 0, 0, 0, 1h, 0

api_shares: charge_ids VARCHAR[], start_ms BIGINT, end_ms BIGINT, team VARCHAR, share DOUBLE
['7'], 0, 1h, 'blue', 1
->
SELECT instance_key, kind, team, share, gpu_hours FROM focus_holders ORDER BY ALL
api 7 | api | blue | 1 | 0
i-1 | allocated | red | 0.5 | 2
i-1 | outside_node_life | - | 0.25 | -
i-1 | unallocated | - | 0.25 | 1

= the first of equal shares takes the rounding remainder of every amount
publish/focus/40_splits

focus_charges: charge_id INT, instance_key VARCHAR, from_ms BIGINT, to_ms BIGINT, kind VARCHAR, \
charge_category VARCHAR,list_unit_price DECIMAL(38, 12), contracted_unit_price DECIMAL(38, 12), \
billed_cost DECIMAL(38, 12), effective_cost DECIMAL(38, 12), list_cost DECIMAL(38, 12), contracted_cost DECIMAL(38, \
12), pricing_quantity DECIMAL(38, 12), consumed_quantity DECIMAL(38, 12), commitment_discount_quantity DECIMAL(38, \
12), commitment_discount_id VARCHAR, pricing_category VARCHAR, instance_hours DOUBLE
1, 'i-1', 0, 1h, 'instance', 'Usage', NULL, NULL, 1, 2, 8, 4, 1, 5, 7, 'sp-1', 'Committed', 1

focus_holders: instance_key VARCHAR, from_ms BIGINT, to_ms BIGINT, kind VARCHAR, team VARCHAR, cluster VARCHAR, \
node VARCHAR, namespace VARCHAR, workload VARCHAR, gpu_model VARCHAR, capacity_type VARCHAR, gpu_hours DOUBLE, \
share DOUBLE
'i-1', 0, 1h, 'allocated', 'a', 'c', 'n', NULL, NULL, NULL, NULL, 1, 1/3
'i-1', 0, 1h, 'allocated', 'b', 'c', 'n', NULL, NULL, NULL, NULL, 1, 1/3
'i-1', 0, 1h, 'allocated', 'c', 'c', 'n', NULL, NULL, NULL, NULL, 1, 1/3
->
SELECT ratio, billed_cost, effective_cost, list_cost, contracted_cost, pricing_quantity, consumed_quantity, \
commitment_discount_quantity, instance_hours FROM focus_splits WHERE team = 'a'
0.333333333334 | 0.333333333334 | 0.666666666666 | 2.666666666666 | 1.333333333334 | 0.333333333334 | \
1.666666666666 | 2.333333333334 | 0.333333333334

SELECT ratio, billed_cost, effective_cost, list_cost, contracted_cost, pricing_quantity, consumed_quantity, \
commitment_discount_quantity, instance_hours FROM focus_splits WHERE team = 'b'
0.333333333333 | 0.333333333333 | 0.666666666667 | 2.666666666667 | 1.333333333333 | 0.333333333333 | \
1.666666666667 | 2.333333333333 | 0.333333333333
""")


def test_estimate_of_unallocated_gpus_counts_only_the_unbilled_part(tables: Tables) -> None:
    tables.make(
        "api_charges: charge_id INT, bill_id INT, source_file VARCHAR, source_row BIGINT, start_ms BIGINT, end_ms BIGINT,"
        " is_repeated BOOLEAN"
    )
    tables.run("publish/focus/10_charges", month="2026-10")
    tables.make(_API_SHARES)
    tables.add("nodes: node_id, cluster, node, instance_type, gpu_count", "1, 'c', 'n', 'p5', 8")
    tables.hours(_CELLS)
    tables.add("billed_nodes: instance_key, node_id", "'i', 1")
    tables.add(
        "cost_runs: node_id, kind, from_ms, to_ms, hours, gpu_ms, cost, estimated_cost",
        f"1, 'unallocated', 0, {HOUR}, 1, {8 * HOUR}, 16, 4",
        # two of its three hours are on the first day, one is on the second
        f"1, 'not_collected', {22 * HOUR}, {23 * HOUR}, 3, {8 * HOUR}, 16, 16",
    )
    tables.run("publish/focus/20_holders")
    tables.run("publish/focus/40_splits")
    tables.run("publish/focus/60_rows", month="2026-10", from_ms=0, to_ms=48 * HOUR, currency="USD")
    assert tables.rows(
        "SELECT kind, gpu_hours, PricingQuantity, BilledCost, EffectiveCost, ListUnitPrice FROM focus_rows"
        " ORDER BY kind, ChargePeriodStart"
    ) == [
        ("not_collected", 16, 16, 0, 32, 2),
        ("not_collected", 8, 8, 0, 16, 2),
        ("unallocated", 2, 2, 0, 4, 2),
    ]


def test_metrics_after_the_month_do_not_change_the_seal(tables: Tables) -> None:
    tables.add("series: series_id, source, cluster, metric, labels", "1, 's', 'c', 'm', MAP {'a': 'b'}")
    tables.add("states: series_id, value, first_ms, last_ms", f"1, 8, 0, {5 * HOUR}")
    sealed = []
    for last in (HOUR - 1, 5 * HOUR, 9 * HOUR):
        tables.con.execute("UPDATE states SET last_ms = ?", [last])
        sealed += tables.answers("publish/seal_inputs", start=0, end=4 * HOUR, month="1970-01")
    assert [(row["kind"], row["source"], row["rows"]) for row in sealed] == 3 * [("metrics", "c from s", 1)]
    before, at_the_end, later = (row["checksum"] for row in sealed)
    assert before != at_the_end == later
