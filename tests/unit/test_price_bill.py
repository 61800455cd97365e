"""What a bill says of a machine is its node's price: which rows count, for which nodes, over which hours."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from gpucost.config.model import Discount
from gpucost.errors import PriceError
from gpucost.periods import MS_PER_HOUR
from tests.unit.billed import bill, hours
from tests.unit.price_nodes import NODE, START, Segment, empty_store, run

OTHER = NODE | {"node_id": 2, "node": "n2", "machine_id": "aws:///us-east-1b/i-0def"}
BOOK = [",,,,on_demand,7,USD,", ",,,,spot,2,USD,"]
VM = "azure:///subscriptions/S-1/resourceGroups/MC_ml/providers/Microsoft.Compute/virtualMachineScaleSets/aks-gpu-vmss/virtualMachines/{}"


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with empty_store() as connection:
        yield connection


def first(segments: list[Segment]) -> tuple[Decimal, str]:
    return segments[0][3], segments[0][4]


def billed(
    con: duckdb.DuckDBPyConnection, *nodes: dict[str, Any], sharing: str = "pooled", **prices: Any
) -> list[tuple[int, float, float, Decimal]]:
    """What a bill prices, as (node_id, from, to, price)."""
    return [s[:4] for s in run(con, list(nodes), [], {"commitment_sharing": sharing} | prices) if s[4] == "bill"]


def test_the_bill_comes_before_the_book_and_list_prices_for_the_hours_it_covers(con: duckdb.DuckDBPyConnection) -> None:
    bill(con, *hours(3, 4, cost="10"), *hours(5, cost="12"))
    assert run(con, [NODE], BOOK) == [
        (1, 0, 3, Decimal(7), "price_book", None),
        (1, 3, 5, Decimal(10), "bill", date(2026, 10, 1)),
        (1, 5, 6, Decimal(12), "bill", date(2026, 10, 1)),
        (1, 6, 24, Decimal(7), "price_book", None),
    ]


def test_a_half_hour_is_no_half_price(con: duckdb.DuckDBPyConnection) -> None:
    node = NODE | {"up_from_ms": START + MS_PER_HOUR // 2, "up_to_ms": START + 5 * MS_PER_HOUR // 2}
    bill(con, {"hour": 0, "hours": 0.5, "cost": "5"}, *hours(1), {"hour": 2, "hours": 0.5, "cost": "5"})
    assert billed(con, node) == [(1, 0.5, 2.5, Decimal(10))]


def test_a_machine_covered_in_part_has_one_price(con: duckdb.DuckDBPyConnection) -> None:
    bill(con, {"hours": 0.25, "cost": "1", "pricing": "Committed", "cause": "covered_usage"}, {"hours": 0.75, "cost": "7.5"})
    assert billed(con, NODE) == [(1, 0, 1, Decimal("8.5"))]


def test_parts_of_a_machine_that_carry_no_hours_are_part_of_its_price(con: duckdb.DuckDBPyConnection) -> None:
    vm = {"key": "proj/us-central1-a/gke-1", "type": "a2-highgpu-1g"}
    bill(con, vm | {"cost": "1"}, vm | {"cost": "0.5", "hours": None}, vm | {"cost": "2", "hours": None}, provider="gcp")
    node = NODE | {"machine_id": "gce://Proj/us-central1-a/gke-1", "provider": "gcp"}
    assert billed(con, node) == [(1, 0, 1, Decimal("3.5"))]


@pytest.mark.parametrize(
    ("machine_id", "key"),
    [
        ("aws:///us-east-1a/i-0ABC", "i-0abc"),
        ("aws:///us-east-1a/i-0abc", "I-0abc"),
        ("gce://my-project/us-central1-a/GKE-pool-1", "my-project/us-central1-a/gke-pool-1"),
        (VM.format(3), VM.format(3).removeprefix("azure://")),
        (VM.format(3), VM.format(3).removeprefix("azure:///").upper()),
        ("azure:///subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/virtualMachines/Gpu-1",
         "/subscriptions/S/resourcegroups/R/providers/microsoft.compute/virtualmachines/gpu-1"),
        ("nimbus://vm-17", "vm-17"),
        ("ocid1.instance.oc1.iad.abc", "ocid1.instance.oc1.iad.abc"),
    ],
)  # fmt: skip
def test_machines_are_matched_by_provider_id_in_any_case(con: duckdb.DuckDBPyConnection, machine_id: str, key: str) -> None:
    bill(con, {"key": key}, {"key": key + "4", "cost": "99", "type": "p5.48xlarge"})
    assert first(run(con, [NODE | {"machine_id": machine_id}], BOOK)) == (Decimal(10), "bill")


def test_a_machine_of_another_project_or_number_is_another_machine(con: duckdb.DuckDBPyConnection) -> None:
    bill(con, {"key": "p2/us-central1-a/gke-1"}, {"key": VM.format(33).removeprefix("azure://")})
    nodes = [
        NODE | {"machine_id": "gce://p1/us-central1-a/gke-1"},
        OTHER | {"machine_id": VM.format(3)},
        NODE | {"machine_id": None},
    ]
    for number, node in enumerate(nodes):
        assert {s[4] for s in run(con, [node | {"node_id": number}], BOOK)} == {"price_book"}


def test_a_scale_set_that_is_not_split_is_spread_over_its_nodes(con: duckdb.DuckDBPyConnection) -> None:
    whole = {
        "key": VM.format("").removesuffix("/virtualMachines/").removeprefix("azure://"),
        "length": 24,
        "type": "standard_nc24ads",
    }
    bill(con, whole | {"hours": 30.0, "cost": "90"}, provider="azure")
    nodes = [NODE | {"machine_id": VM.format(0)}, OTHER | {"machine_id": VM.format(1), "up_to_ms": START + 6 * MS_PER_HOUR}]
    assert billed(con, *nodes) == [(1, 0, 24, Decimal(3)), (2, 0, 6, Decimal(3))]
    origins = con.execute("SELECT DISTINCT origin FROM bill_candidates").fetchall()
    assert origins == [("bill of azure, 2026-10, the scale set's cost spread over its nodes, spread over the day",)]
    # its own row of a node comes before its scale set's
    own = whole | {"key": VM.format(1).removeprefix("azure://"), "hours": 6.0, "cost": "30"}
    bill(con, own, provider="azure", told_as="azure-cost")
    assert billed(con, *nodes, sharing="as_billed") == [(1, 0, 24, Decimal(3)), (2, 0, 6, Decimal(5))]


def test_a_day_is_spread_over_the_hours_that_it_bills_and_says_so(con: duckdb.DuckDBPyConnection) -> None:
    node = NODE | {"up_from_ms": START + 18 * MS_PER_HOUR, "up_to_ms": START + 30 * MS_PER_HOUR}
    bill(con, {"length": 24, "hours": 6.0, "cost": "60"}, {"hour": 24, "length": 24, "hours": 6.0, "cost": "66"})
    assert billed(con, node) == [(1, 18, 24, Decimal(10)), (1, 24, 30, Decimal(11))]
    assert con.execute("SELECT DISTINCT origin FROM bill_candidates").fetchall() == [
        ("bill of aws, 2026-10, spread over the day",)
    ]


@pytest.mark.parametrize("told", [None, 0.0])
def test_a_bill_without_hours_is_of_those_that_its_node_was_up(con: duckdb.DuckDBPyConnection, told: float | None) -> None:
    node = NODE | {"up_from_ms": START + 18 * MS_PER_HOUR}
    bill(con, {"length": 24, "hours": told, "cost": "60"}, {"key": "i-unseen", "length": 24, "hours": told, "cost": "48"})
    assert billed(con, node, sharing="as_billed") == [(1, 18, 24, Decimal(10))]
    unseen = con.execute("SELECT instance_hours, price_per_hour FROM billed_hours WHERE instance_key = 'i-unseen'").fetchall()
    assert unseen == [(24, 2)]


POOL = [
    {"cost": "4", "pricing": "Committed", "cause": "covered_usage"},
    {"key": "i-0def", "cost": "10"},
    {"key": "i-unseen", "hours": 0.5, "cost": "1"},
]


def test_machines_of_one_kind_share_commitments_or_keep_what_they_were_billed(con: duckdb.DuckDBPyConnection) -> None:
    bill(con, *POOL)
    assert [s[3] for s in billed(con, NODE, OTHER, sharing="as_billed")] == [Decimal(4), Decimal(10)]
    assert [s[3] for s in billed(con, NODE, OTHER)] == [Decimal(6), Decimal(6)]
    origins = con.execute("SELECT DISTINCT origin FROM bill_candidates").fetchall()
    assert origins == [("bill of aws, 2026-10, shared with machines of its kind",)]
    assert con.execute("SELECT sum(price_per_hour * instance_hours) = 15, sum(effective_cost) FROM billed_hours").fetchall() == [
        (True, 15)
    ]


@pytest.mark.parametrize(
    "other",
    [{"account": "1"}, {"region": "us-east-2"}, {"type": "p4de.24xlarge"}, {"pricing": "Dynamic"}, {"reservation": "cr-1"}],
)
def test_only_machines_of_one_kind_share(con: duckdb.DuckDBPyConnection, other: dict[str, str]) -> None:
    bill(con, {"cost": "4"}, {"key": "i-0def", "cost": "10"} | other)
    assert [s[3] for s in billed(con, NODE, OTHER)] == [Decimal(4), Decimal(10)]


def test_no_other_machines_price_is_a_spot_nodes_unless_it_is_a_spot_price(con: duckdb.DuckDBPyConnection) -> None:
    spot = OTHER | {"capacity_type": "spot"}
    bill(con, {"cost": "10"}, {"key": "i-0def", "hour": 1, "pricing": "Dynamic", "cost": "3"})
    assert [s[1:] for s in run(con, [spot], BOOK)] == [
        (0, 1, Decimal(2), "price_book", None),
        (1, 2, Decimal(3), "bill", date(2026, 10, 1)),
        (2, 24, Decimal(2), "price_book", None),
    ]
    # a bill that says on demand of a node that is labeled spot: its own price, shared with nobody
    bill(con, {"hour": 5, "cost": "10"}, {"hour": 5, "key": "i-0def", "cost": "4"})
    found = [s for s in run(con, [NODE, spot], BOOK) if s[1] == 5 and s[4] == "bill"]
    assert [(s[0], s[3]) for s in found] == [(1, Decimal(10)), (2, Decimal(4))]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"pricing": "Dynamic"}, "spot"),
        ({"reservation": "cr-1"}, "reserved"),
        ({}, "on_demand"),
        ({"pricing": "Committed"}, "on_demand"),
    ],
)
def test_the_bill_settles_an_unknown_capacity_type(con: duckdb.DuckDBPyConnection, row: dict[str, Any], expected: str) -> None:
    con.execute(
        "INSERT INTO warnings BY NAME SELECT 'unknown_capacity_type' AS code, 'prod' AS cluster, "
        "unnest(['n1', 'n2']) AS subject, $1 AS from_ms, '' AS message",
        [START],
    )
    bill(con, row)
    run(con, [NODE | {"capacity_type": "unknown"}, OTHER | {"capacity_type": "unknown"}], BOOK)
    assert con.execute("SELECT node, capacity_type FROM nodes ORDER BY 1").fetchall() == [("n1", expected), ("n2", "unknown")]
    assert con.execute("SELECT subject FROM warnings WHERE code = 'unknown_capacity_type'").fetchall() == [("n2",)]
    run(con, [NODE | {"capacity_type": "spot"}], BOOK)
    assert con.execute("SELECT capacity_type FROM nodes").fetchall() == [("spot",)]


@pytest.mark.parametrize("cause", ["zero_unexplained", "same", "reservation_cost_missing", "commitment_cost_missing"])
def test_a_zero_without_a_named_cause_is_no_price_and_is_told(con: duckdb.DuckDBPyConnection, cause: str) -> None:
    bill(con, *hours(0, 1, cost="0", cause=cause))
    assert [s[3:5] for s in run(con, [NODE], BOOK)] == [(Decimal(7), "price_book")]
    [(subject, message)] = con.execute("SELECT subject, message FROM warnings WHERE code = 'unexplained_zero'").fetchall()
    assert subject == "p4d.24xlarge"
    assert "2.0 hours" in message
    # nor does it pull down what others pay
    bill(con, {"key": "i-0def", "cost": "10"})
    assert first(run(con, [OTHER], BOOK)) == (Decimal(10), "bill")


@pytest.mark.parametrize(
    ("cost", "cause"), [("0", "zero_unexplained"), ("0", "reservation_cost_missing"), ("0.5", "fee_missing")]
)
def test_an_hour_of_which_one_row_lacks_its_cost_is_no_price(con: duckdb.DuckDBPyConnection, cost: str, cause: str) -> None:
    bill(con, {"cost": cost, "cause": cause}, {"cost": "2", "hours": None}, *hours(1, cost="10"))
    told = [s[3:5] for s in run(con, [NODE], BOOK)]
    assert told[:2] == [(Decimal(7), "price_book"), (Decimal(10), "bill")]
    [(message, fix)] = con.execute("SELECT message, fix FROM warnings WHERE code = 'unexplained_zero'").fetchall()
    assert "1.0 hours of p4d.24xlarge without their cost, or a part of it" in message
    assert cause in fix


def test_a_row_that_is_free_beside_others_lacks_nothing(con: duckdb.DuckDBPyConnection) -> None:
    bill(con, {"cost": "10"}, {"cost": "0", "hours": None})
    assert first(run(con, [NODE], BOOK)) == (Decimal(10), "bill")


@pytest.mark.parametrize("cause", ["free_tier", "promotion"])
def test_a_zero_with_a_named_cause_is_a_price(con: duckdb.DuckDBPyConnection, cause: str) -> None:
    bill(con, *hours(*range(24), cost="0", cause=cause))
    assert [s[3:5] for s in run(con, [NODE], BOOK)] == [(Decimal(0), "bill")]
    assert con.execute("SELECT count(*) FROM warnings").fetchall() == [(0,)]


def test_a_bill_of_aws_that_an_earlier_version_loaded_is_told(con: duckdb.DuckDBPyConnection) -> None:
    asked = "SELECT message, fix FROM warnings WHERE code = 'old_bill' ORDER BY from_ms"
    bill(con, *hours(0))
    old = [bill(con, *hours(1), period="2026-09"), bill(con, *hours(2), provider="gcp", told_as="gcp")]
    con.execute("UPDATE bills SET load_bills = NULL WHERE bill_id IN (SELECT unnest($1))", [old])
    run(con, [NODE], BOOK)
    [(message, fix)] = con.execute(asked).fetchall()
    assert message.startswith("the bill of aws, 2026-09, was loaded by an earlier gpucost: ")
    assert fix == "gpucost collect aws PATH"
    con.execute("UPDATE bills SET load_bills = 1")
    run(con, [NODE], BOOK)
    assert not con.execute(asked).fetchall()


def test_what_is_billed_beside_a_machine_is_no_part_of_its_price(con: duckdb.DuckDBPyConnection) -> None:
    bill(
        con,
        {},
        *({"kind": kind, "cost": "50"} for kind in ("storage", "network", "other", "credit", "tax", "split", "reserved_unused")),
    )
    assert first(run(con, [NODE], BOOK)) == (Decimal(10), "bill")


def test_a_later_billing_period_corrects_an_hour(con: duckdb.DuckDBPyConnection) -> None:
    bill(con, *hours(0, 1), period="2026-09")
    # a lower price, told with the hours again and without; the hour taken back and charged anew
    fixes = [{"cost": "-2", "correction": "Correction", "pricing": None, "reservation": None}]
    bill(con, fixes[0] | {"hours": 0.0}, fixes[0] | {"hour": 1, "hours": 1.0})
    assert billed(con, NODE) == [(1, 0, 2, Decimal(8))]
    assert con.execute("SELECT sum(instance_hours), sum(effective_cost) FROM billed_hours").fetchall() == [(2, 16)]


def test_a_correction_may_take_the_hour_back_and_charge_another(con: duckdb.DuckDBPyConnection) -> None:
    bill(con, *hours(0), period="2026-09")
    bill(
        con, {"cost": "-10", "hours": -1.0, "correction": "Correction"}, {"cost": "5", "hours": 0.25, "correction": "Correction"}
    )
    assert billed(con, NODE) == [(1, 0, 1, Decimal(20))]


def test_corrections_of_a_bill_that_is_not_there_are_no_price(con: duckdb.DuckDBPyConnection) -> None:
    bill(con, {"cost": "-2", "correction": "Correction"}, {"hour": 1, "cost": "3", "correction": "Correction"})
    assert [s[4] for s in run(con, [NODE], BOOK)] == ["price_book"]


def test_a_price_is_never_negative(con: duckdb.DuckDBPyConnection) -> None:
    bill(con, {"cost": "10"}, {"cost": "-12", "correction": "Correction"})
    assert first(run(con, [NODE], BOOK)) == (Decimal(0), "bill")


def test_of_two_formats_that_tell_of_the_same_time_the_newer_load_counts(con: duckdb.DuckDBPyConnection) -> None:
    bill(con, *hours(*range(6)))
    bill(con, *hours(*range(3), cost="11"), told_as="focus")
    assert billed(con, NODE) == [(1, 0, 3, Decimal(11)), (1, 3, 6, Decimal(10))]
    bill(con, {"length": 24, "hours": 24.0, "cost": "288"}, told_as="focus-daily")
    assert billed(con, NODE) == [(1, 0, 24, Decimal(12))]


def test_parts_of_one_format_add_up(con: duckdb.DuckDBPyConnection) -> None:
    bill(con, {"cost": "10"})
    bill(con, {"cost": "1", "hours": None})
    assert billed(con, NODE) == [(1, 0, 1, Decimal(11))]


def test_charges_that_overlap_in_part_are_one_period(con: duckdb.DuckDBPyConnection) -> None:
    bill(con, *hours(0, 1, 2), {"hour": 1, "length": 2, "hours": None, "cost": "4"}, {"hour": 24, "cost": "1"})
    assert billed(con, NODE) == [(1, 0, 1, Decimal(10)), (1, 1, 3, Decimal(12))]


def test_a_restated_bill_prices_anew(con: duckdb.DuckDBPyConnection) -> None:
    number = bill(con, {})
    run(con, [NODE], BOOK)
    con.execute("DELETE FROM bill_rows WHERE bill_id = $1", [number])
    con.execute("DELETE FROM bills WHERE bill_id = $1", [number])
    assert [s[4] for s in run(con, [NODE], BOOK)] == ["price_book"]
    bill(con, {"cost": "9"})
    assert first(run(con, [NODE], BOOK)) == (Decimal(9), "bill")


def test_a_bill_in_another_currency(con: duckdb.DuckDBPyConnection) -> None:
    bill(con, *hours(*range(24), currency="EUR"))
    assert billed(con, NODE, fx={"EUR": Decimal("1.1")}) == [(1, 0, 24, Decimal(11))]
    assert con.execute("SELECT DISTINCT rate FROM billed_hours").fetchall() == [(Decimal("1.1"),)]
    with pytest.raises(PriceError, match=r"node n1 .*EUR.*bill of aws, 2026-10"):
        run(con, [NODE], [])
    # of a machine that is no node, nobody asks
    assert billed(con, OTHER) == []


def test_no_discount_is_taken_off_a_bill_unless_it_is_told_to(con: duckdb.DuckDBPyConnection) -> None:
    bill(con, {})
    assert first(run(con, [NODE], BOOK, {"discounts": [Discount(percent=Decimal(30))]})) == (Decimal(10), "bill")


def test_a_machine_with_a_gpu_attached_is_one_of_gpus(con: duckdb.DuckDBPyConnection) -> None:
    vm = {"key": "p/z/n1-gpu", "type": "n1-standard-8"}
    number = bill(con, vm, vm | {"hours": None, "cost": "3"}, {"key": "p/z/n1-plain", "type": "n1-standard-8"}, provider="gcp")
    con.execute(
        "UPDATE bill_rows SET sku_description = 'Nvidia Tesla T4 GPU running in Americas' WHERE bill_id = $1 AND source_row = 1",
        [number],
    )
    run(con, [], [])
    assert con.execute("SELECT instance_key, effective_cost FROM billed_hours").fetchall() == [("p/z/n1-gpu", 13)]
