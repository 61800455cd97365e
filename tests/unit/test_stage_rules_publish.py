"""Rules of single SQL stages of what is published, over tables of a few rows."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.stage_tables import Tables

HOUR = 3_600_000
_CELLS = (
    "node_id INT, allocation_id INT, kind VARCHAR, team VARCHAR, from_ms BIGINT, to_ms BIGINT, cost DECIMAL(38, 9),"
    " unallocated_cost DECIMAL(38, 9), not_collected_cost DECIMAL(38, 9), estimated_cost DECIMAL(38, 9),"
    " allocated_gpu_ms DOUBLE, unallocated_gpu_ms DOUBLE, not_collected_gpu_ms DOUBLE"
)
_API_SHARES = "api_shares: charge_ids VARCHAR[], start_ms BIGINT, end_ms BIGINT, team VARCHAR, share DOUBLE"


def test_what_holders_and_their_node_leave_of_a_charge_is_outside_the_life_of_the_node(
    tables: Tables,
) -> None:
    tables.make("focus_charges: instance_key VARCHAR, from_ms BIGINT, to_ms BIGINT", f"'i-1', 0, {HOUR}")
    tables.add("billed_hours: instance_key, from_ms, to_ms, instance_hours", f"'i-1', 0, {HOUR}, 1")
    tables.add("billed_nodes: instance_key, node_id", "'i-1', 1")
    tables.add(
        "nodes: node_id, cluster, node, gpu_count, up_from_ms, up_to_ms",
        f"1, 'c', 'n', 8, 0, {3 * HOUR // 4}",
    )
    tables.add("collected: cluster, from_ms, to_ms", f"'c', 0, {HOUR}")
    tables.add("allocations: allocation_id, namespace, workload", "5, 'ns', 'w'")
    tables.hours(
        _CELLS,
        f"1, 5, 'allocated', 'red', 0, {3 * HOUR // 4}, 2, 0, 0, 0, {2 * HOUR}, 0, 0",
        f"1, NULL, 'unallocated', NULL, 0, {3 * HOUR // 4}, 0, 1, 0, 0, 0, {HOUR}, 0",
    )
    tables.make(_API_SHARES, f"['7'], 0, {HOUR}, 'blue', 1")
    tables.run("publish/focus/20_holders")
    assert tables.rows(
        "SELECT instance_key, kind, team, share, gpu_hours FROM focus_holders ORDER BY ALL"
    ) == [
        ("api 7", "api", "blue", 1, 0),
        ("i-1", "allocated", "red", 0.5, 2),
        ("i-1", "outside_node_life", None, 0.25, None),
        ("i-1", "unallocated", None, 0.25, 1),
    ]


def test_the_first_of_equal_shares_takes_what_rounding_leaves_of_every_amount(tables: Tables) -> None:
    tables.make(
        "focus_charges: charge_id INT, instance_key VARCHAR, from_ms BIGINT, to_ms BIGINT, kind VARCHAR, charge_category VARCHAR,"
        + ", ".join(
            f"{name} DECIMAL(38, 12)"
            for name in (
                *("list_unit_price", "contracted_unit_price", "billed_cost", "effective_cost", "list_cost"),
                *("contracted_cost", "pricing_quantity", "consumed_quantity", "commitment_discount_quantity"),
            )
        )
        + ", commitment_discount_id VARCHAR, pricing_category VARCHAR, instance_hours DOUBLE",
        f"1, 'i-1', 0, {HOUR}, 'instance', 'Usage', NULL, NULL, 1, 2, 8, 4, 1, 5, 7, 'sp-1', 'Committed', 1",
    )
    tables.make(
        "focus_holders: instance_key VARCHAR, from_ms BIGINT, to_ms BIGINT, kind VARCHAR, team VARCHAR, cluster VARCHAR,"
        " node VARCHAR, namespace VARCHAR, workload VARCHAR, gpu_model VARCHAR, capacity_type VARCHAR, gpu_hours DOUBLE,"
        " share DOUBLE",
        *(
            f"'i-1', 0, {HOUR}, 'allocated', '{team}', 'c', 'n', NULL, NULL, NULL, NULL, 1, 1/3"
            for team in "abc"
        ),
    )
    tables.run("publish/focus/40_splits")
    amounts = (
        "ratio, billed_cost, effective_cost, list_cost, contracted_cost, pricing_quantity, consumed_quantity,"
        " commitment_discount_quantity, instance_hours"
    )
    (first,) = tables.rows(f"SELECT {amounts} FROM focus_splits WHERE team = 'a'")  # noqa: S608
    (second,) = tables.rows(f"SELECT {amounts} FROM focus_splits WHERE team = 'b'")  # noqa: S608
    third = Decimal("0.333333333333")
    whole = (1, 1, 2, 8, 4, 1, 5, 7, 1)
    assert second == tuple((of * Decimal(1) / 3).quantize(third) for of in whole)
    assert tuple(one + 2 * other for one, other in zip(first, second, strict=True)) == whole


def test_an_estimate_of_what_nobody_held_counts_the_part_that_no_bill_covers(tables: Tables) -> None:
    tables.make(
        "api_charges: charge_id INT, bill_id INT, source_file VARCHAR, source_row BIGINT, start_ms BIGINT, end_ms BIGINT,"
        " is_repeated BOOLEAN"
    )
    tables.run("publish/focus/10_charges", month="2026-10")
    tables.make(_API_SHARES)
    tables.add("nodes: node_id, cluster, node, instance_type, gpu_count", "1, 'c', 'n', 'p5', 8")
    tables.hours(
        _CELLS,
        f"1, NULL, 'unallocated', NULL, 0, {HOUR}, 0, 16, 0, 4, 0, {8 * HOUR}, 0",
        f"1, NULL, 'not_collected', NULL, {HOUR}, {2 * HOUR}, 0, 0, 16, 16, 0, 0, {8 * HOUR}",
    )
    tables.run("publish/focus/20_holders")
    tables.run("publish/focus/40_splits")
    tables.run("publish/focus/60_rows", month="2026-10", from_ms=0, to_ms=2 * HOUR, currency="USD")
    assert tables.rows(
        "SELECT kind, gpu_hours, PricingQuantity, BilledCost, EffectiveCost, ListUnitPrice FROM focus_rows ORDER BY kind"
    ) == [("not_collected", 8, 8, 0, 16, 2), ("unallocated", 2, 2, 0, 4, 2)]


def test_what_metrics_tell_after_the_month_changes_no_seal(tables: Tables) -> None:
    tables.add("series: series_id, source, cluster, metric, labels", "1, 's', 'c', 'm', MAP {'a': 'b'}")
    tables.add("states: series_id, value, first_ms, last_ms", f"1, 8, 0, {5 * HOUR}")
    sealed = []
    for last in (HOUR - 1, 5 * HOUR, 9 * HOUR):
        tables.con.execute("UPDATE states SET last_ms = ?", [last])
        sealed += tables.answers("publish/seal_inputs", start=0, end=4 * HOUR, month="1970-01")
    assert [(row["kind"], row["source"], row["rows"]) for row in sealed] == 3 * [("metrics", "c from s", 1)]
    before, at_the_end, later = (row["checksum"] for row in sealed)
    assert before != at_the_end == later
