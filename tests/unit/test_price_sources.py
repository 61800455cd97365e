"""Where the price of a moment comes from besides the book: spot history and list prices, as of each moment."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucost.periods import MS_PER_HOUR
from tests.unit.price_nodes import NODE, START, empty_store, run, steps

SPOT = NODE | {"capacity_type": "spot", "instance_type": "x9.large"}
DAY_MS = 24 * MS_PER_HOUR


def change(con: duckdb.DuckDBPyConnection, hour: float, price: str, zone: str = "us-east-1a", **other: object) -> None:
    """A change of the spot price of x9.large, `hour` hours from START."""
    row = {"product": "Linux/UNIX", "instance_id": "", "to_ms": None, "source": "aws us-east-1", "region": "us-east-1"} | other
    con.execute(
        "INSERT INTO spot_prices VALUES ('aws', $region, $zone, 'x9.large', $product, $instance_id, $at, $to_ms, $price, "
        "'USD', $source)",
        row | {"zone": zone, "at": START + round(hour * MS_PER_HOUR), "price": price},
    )


def collected(con: duckdb.DuckDBPyConnection, until_hour: float, kind: str = "spot", source: str = "aws us-east-1") -> None:
    con.execute(
        "INSERT INTO loads SELECT coalesce(max(load_id), 0) + 1, 1, $kind, $source, 0, $until, 1, 0, now()::TIMESTAMP FROM loads",
        {"kind": kind, "source": source, "until": START + round(until_hour * MS_PER_HOUR)},
    )


def listed(con: duckdb.DuckDBPyConnection, price: str, as_of: str, begins: str | None = None, **other: str) -> None:
    row = {"type": "p4d.24xlarge", "option": "on_demand", "region": "us-east-1", "zone": ""} | other
    con.execute(
        "INSERT INTO list_prices VALUES ('aws', $region, $zone, $type, $option, 0, '', '', $price, 'USD', "
        "$begins::DATE, $as_of::DATE, 'aws pricing get_products')",
        row | {"price": price, "as_of": as_of, "begins": begins},
    )


def test_a_spot_price_holds_until_the_next_change(con: duckdb.DuckDBPyConnection) -> None:
    change(con, -30, "1")
    change(con, 12.25, "3")
    change(con, 13, "2", zone="us-east-1b")
    collected(con, 20)
    first, second = run(con, [SPOT], [])
    assert first == (1, 0, 12.25, Decimal(1), "spot_history", date(2026, 9, 29))
    assert second == (1, 12.25, 24, Decimal(3), "spot_history", date(2026, 10, 1))


def test_nothing_but_spot_is_priced_by_spot_history(con: duckdb.DuckDBPyConnection) -> None:
    change(con, -1, "1")
    for capacity in ("on_demand", "reserved", "unknown"):
        assert run(con, [SPOT | {"capacity_type": capacity}], []) == []
    assert run(con, [SPOT | {"zone": "us-east-1b"}], []) == []


def test_the_book_comes_before_spot_history_and_that_before_list_prices(con: duckdb.DuckDBPyConnection) -> None:
    node = NODE | {"capacity_type": "spot"}
    listed(con, "9", "2026-09-01", option="spot")
    con.execute(
        "INSERT INTO spot_prices VALUES ('aws', 'us-east-1', 'us-east-1a', 'p4d.24xlarge', 'Linux/UNIX', '', $at, NULL, 5, "
        "'USD', 's')",
        {"at": START + 6 * MS_PER_HOUR},
    )
    result = run(con, [node], [",,,p4d.24xlarge,spot,2,USD,2026-10-01T18:00:00Z"])
    assert [(start, end, source) for _, start, end, _, source, _ in result] == [
        (0, 6, "catalog"),
        (6, 18, "spot_history"),
        (18, 24, "price_book"),
    ]


def test_the_last_price_is_carried_past_the_end_of_what_was_collected(con: duckdb.DuckDBPyConnection) -> None:
    change(con, -24 * 40, "1")
    collected(con, -24 * 3)
    assert steps(run(con, [SPOT], [], {"stale_after_days": 4})) == [(0, 24, Decimal(1))]
    con.execute("UPDATE loads SET to_ms = to_ms + 12 * 3600000")
    assert steps(run(con, [SPOT], [], {"stale_after_days": 3})) == [(0, 12, Decimal(1))]
    [(message, start, end)] = con.execute("SELECT message, from_ms, to_ms FROM warnings").fetchall()
    assert "96.0 GPU-hours" in message
    assert (start, end) == (START + 12 * MS_PER_HOUR, START + 24 * MS_PER_HOUR)
    # another load of the region, which brought nothing new of this type
    change(con, -5, "7", zone="us-east-1b", source="aws again")
    collected(con, 0, source="aws again")
    assert steps(run(con, [SPOT], [], {"stale_after_days": 3})) == [(0, 24, Decimal(1))]


def test_without_its_zone_a_node_has_the_lower_median_of_its_regions_zones(con: duckdb.DuckDBPyConnection) -> None:
    for zone, price in (("a", "1"), ("b", "2"), ("c", "4"), ("d", "3")):
        change(con, -1, price, zone=f"us-east-1{zone}")
    change(con, 6, "5", zone="us-east-1a")
    change(con, -1, "100", zone="us-west-2a", region="us-west-2")
    assert steps(run(con, [SPOT | {"zone": None}], [])) == [(0, 6, Decimal(2)), (6, 24, Decimal(3))]


def test_a_region_without_zones_prices_all_of_its_zones(con: duckdb.DuckDBPyConnection) -> None:
    change(con, -1, "1", zone="")
    change(con, 12, "2")
    assert steps(run(con, [SPOT], [])) == [(0, 12, Decimal(1)), (12, 24, Decimal(2))]


def test_zones_may_be_told_by_id(con: duckdb.DuckDBPyConnection) -> None:
    change(con, -1, "1", zone="use1-az4")
    node = SPOT | {"labels": {"label_topology_k8s_aws_zone_id": "use1-az4"}}
    assert steps(run(con, [node], [])) == [(0, 24, Decimal(1))]


def test_what_an_instance_was_charged_comes_before_the_market(con: duckdb.DuckDBPyConnection) -> None:
    change(con, -1, "1")
    change(con, 3, "7", zone="", instance_id="i-0abc", to_ms=START + 4 * MS_PER_HOUR, product="")
    change(con, 3, "9", zone="", instance_id="i-other", to_ms=START + 4 * MS_PER_HOUR, product="")
    assert steps(run(con, [SPOT], [])) == [(0, 3, Decimal(1)), (3, 4, Decimal(7)), (4, 24, Decimal(1))]


def test_linux_comes_first_and_windows_never(con: duckdb.DuckDBPyConnection) -> None:
    change(con, -1, "9", product="Windows")
    change(con, -1, "8", product="Red Hat Enterprise Linux")
    assert run(con, [SPOT], []) == []
    change(con, -1, "2", product="Linux/UNIX (Amazon VPC)")
    assert steps(run(con, [SPOT], [])) == [(0, 24, Decimal(2))]
    change(con, -1, "1")
    assert steps(run(con, [SPOT], [])) == [(0, 24, Decimal(1))]


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-30, 30), st.sampled_from("abc"), st.integers(1, 9)), max_size=12, unique_by=lambda c: c[:2]),
    st.sampled_from([None, "a", "b"]),
)
def test_spot_history_of_every_hour_is_that_of_plain_python(changes: list[tuple[int, str, int]], zone: str | None) -> None:
    with empty_store() as con:
        for hour, letter, price in changes:
            change(con, hour, str(price), zone=f"us-east-1{letter}")
        collected(con, 30)
        result = steps(run(con, [SPOT | {"zone": zone and f"us-east-1{zone}"}], []))
    for hour in range(24):
        in_force = {}
        for at, letter, price in sorted(changes):
            if at <= hour and zone in (None, letter):
                in_force[letter] = price
        ordered = sorted(in_force.values())
        expected = [ordered[(len(ordered) - 1) // 2]] if ordered else []
        assert [int(value) for start, end, value in result if start <= hour < end] == expected


def test_of_the_list_prices_that_have_begun_the_newest_holds(con: duckdb.DuckDBPyConnection) -> None:
    node = NODE | {"up_to_ms": START + 4 * DAY_MS}
    listed(con, "20", "2026-10-02")
    assert steps(run(con, [node], [])) == [(0, 24, Decimal("21.957642")), (24, 96, Decimal(20))]
    # asked later, and said to have begun before: holds from then on, over what was known before
    listed(con, "19", "2026-10-30", begins="2026-10-03")
    assert steps(run(con, [node], [])) == [(0, 24, Decimal("21.957642")), (24, 48, Decimal(20)), (48, 96, Decimal(19))]
    listed(con, "18", "2026-11-01", begins="2026-01-01")
    assert run(con, [node], []) == [(1, 0, 96, Decimal(18), "catalog", date(2026, 11, 1))]


def test_before_the_first_list_price_the_earliest_holds(con: duckdb.DuckDBPyConnection) -> None:
    listed(con, "5", "2026-10-02", type="x9.large")
    listed(con, "6", "2026-10-03", type="x9.large")
    node = NODE | {"instance_type": "x9.large", "up_to_ms": START + 3 * DAY_MS}
    assert steps(run(con, [node], [])) == [(0, 48, Decimal(5)), (48, 72, Decimal(6))]


def test_a_list_price_of_any_region_comes_after_all_others(con: duckdb.DuckDBPyConnection) -> None:
    node = NODE | {"instance_type": "x9.large"}
    listed(con, "7", "2026-09-01", type="x9.large", region="")
    assert steps(run(con, [node], [])) == [(0, 24, Decimal(7))]
    listed(con, "6", "2026-09-01", type="x9.large", zone="us-east-1b")
    assert steps(run(con, [node], [])) == [(0, 24, Decimal(6))]
    listed(con, "5", "2026-09-01", type="x9.large")
    assert steps(run(con, [node], [])) == [(0, 24, Decimal(5))]
    assert steps(run(con, [node | {"region": "us-west-2", "zone": "us-west-2a"}], [])) == [(0, 24, Decimal(7))]
