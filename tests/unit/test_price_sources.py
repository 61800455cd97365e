"""Where the price of a moment comes from besides the book: spot history and list prices, as of each moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucost.periods import MS_PER_HOUR
from tests.unit.price_nodes import NODE, START, Segment, empty_store, run, steps

SPOT = NODE | {"capacity_type": "spot"}
DAY_MS = 24 * MS_PER_HOUR
Row = dict[str, Any]
HISTORY = """INSERT INTO spot_prices
VALUES ('aws', $region, $zone, $type, $product, $instance_id, $at, $to_ms, $price, 'USD', $source)"""
LIST = (
    "INSERT INTO list_prices VALUES ('aws', $region, $zone, $type, $option, 0, '', '', $price, 'USD', $begins::DATE, "
    "$as_of::DATE, 'aws pricing get_products')"
)


def change(hour: float, price: str, zone: str = "us-east-1a", **other: Any) -> Row:
    """A change of the spot price, `hour` hours from START."""
    row = {
        "product": "Linux/UNIX",
        "instance_id": "",
        "to_ms": None,
        "source": "aws us-east-1",
        "region": "us-east-1",
    } | other
    return row | {"zone": zone, "at": START + round(hour * MS_PER_HOUR), "price": price}


def listed(price: str, as_of: str, begins: str | None = None, **other: str) -> Row:
    row = {"option": "on_demand", "region": "us-east-1", "zone": ""} | other
    return row | {"price": price, "as_of": as_of, "begins": begins}


def collected(con: duckdb.DuckDBPyConnection, until_hour: float, source: str = "aws us-east-1") -> None:
    con.execute(
        "INSERT INTO loads SELECT coalesce(max(load_id), 0) + 1, 1, 'spot', $source, 0, $until, 1, 0, now()::TIMESTAMP "
        "FROM loads",
        {"source": source, "until": START + round(until_hour * MS_PER_HOUR)},
    )


@dataclass
class Case:
    """A node, what is known of its type, and what it costs: (from, to, price)."""

    node: Row
    prices: list[tuple[float, float, str]]
    changes: list[Row] = field(default_factory=list)
    listed: list[Row] = field(default_factory=list)
    book: str = ""


def own(price: str) -> list[tuple[float, float, str]]:
    return [(0, 24, price)]


FIVE_ZONES = [*(change(-1, price, f"us-east-1{zone}") for zone, price in zip("abcd", "1243", strict=True)),
              change(6, "5"), change(-1, "100", "us-west-2a", region="us-west-2")]  # fmt: skip
CHARGED = {"zone": "", "to_ms": START + 4 * MS_PER_HOUR, "product": ""}
WINDOWS = [change(-1, "9", product="Windows"), change(-1, "8", product="Red Hat Enterprise Linux")]
VPC = change(-1, "2", product="Linux/UNIX (Amazon VPC)")
FOUR_DAYS = {"up_to_ms": START + 4 * DAY_MS}
BEGUN = [listed("21", "2026-09-19"), listed("20", "2026-10-02"), listed("19", "2026-10-30", "2026-10-03")]
PLACES = [
    listed("7", "2026-09-01", region=""),
    listed("6", "2026-09-01", zone="us-east-1b"),
    listed("5", "2026-09-01"),
]
CASES = {
    "a spot price holds until the next change": Case(
        SPOT, [(0, 12.25, "1"), (12.25, 24, "3")], [change(-30, "1"), change(12.25, "3"), change(13, "2", "us-east-1b")]
    ),
    **{
        f"{capacity} is not priced by spot history": Case(NODE | {"capacity_type": capacity}, [], [change(-1, "1")])
        for capacity in ("on_demand", "reserved", "unknown")
    },
    "nor is another zone": Case(SPOT | {"zone": "us-east-1b"}, [], [change(-1, "1")]),
    "the book comes before spot history and that before list prices": Case(
        SPOT, [(0, 6, "9"), (6, 18, "5"), (18, 24, "2")], [change(6, "5")], [listed("9", "2026-09-01", option="spot")],
        "spot,2,USD,2026-10-01T18:00:00Z",
    ),
    "without its zone a node has the lower median of its region's zones": Case(
        SPOT | {"zone": None}, [(0, 6, "2"), (6, 24, "3")], FIVE_ZONES
    ),
    "a region without zones prices all of its zones": Case(
        SPOT, [(0, 12, "1"), (12, 24, "2")], [change(-1, "1", ""), change(12, "2")]
    ),
    "zones may be told by id": Case(
        SPOT | {"labels": {"label_topology_k8s_aws_zone_id": "use1-az4"}}, own("1"), [change(-1, "1", "use1-az4")]
    ),
    "what an instance was charged comes before the market": Case(
        SPOT, [(0, 3, "1"), (3, 4, "7"), (4, 24, "1")],
        [change(-1, "1"), change(3, "7", instance_id="own") | CHARGED, change(3, "9", instance_id="i-other") | CHARGED],
    ),
    "Windows never": Case(SPOT, [], WINDOWS),
    "Linux in a VPC": Case(SPOT, own("2"), [*WINDOWS, VPC]),
    "Linux comes first": Case(SPOT, own("1"), [*WINDOWS, VPC, change(-1, "1")]),
    "of list prices the newest holds from its day": Case(NODE | FOUR_DAYS, [(0, 24, "21"), (24, 96, "20")], listed=BEGUN[:2]),
    # asked later, and said to have begun before: holds from then on, over what was known before
    "one that began before it was asked": Case(
        NODE | FOUR_DAYS, [(0, 24, "21"), (24, 48, "20"), (48, 96, "19")], listed=BEGUN
    ),
    "one that always was": Case(NODE | FOUR_DAYS, [(0, 96, "18")], listed=[*BEGUN, listed("18", "2026-11-01", "2026-01-01")]),
    "before the first list price the earliest holds": Case(
        NODE | FOUR_DAYS, [(0, 48, "5"), (48, 96, "6")], listed=[listed("5", "2026-10-02"), listed("6", "2026-10-03")]
    ),
    "a list price of any region": Case(NODE, own("7"), listed=PLACES[:1]),
    "comes after the region's zones": Case(NODE, own("6"), listed=PLACES[:2]),
    "and those after the region": Case(NODE, own("5"), listed=PLACES),
    "and prices other regions": Case(NODE | {"region": "us-west-2", "zone": "us-west-2a"}, own("7"), listed=PLACES),
}  # fmt: skip
NUMBERS = {name: number for number, name in enumerate(CASES)}


@pytest.fixture(scope="module")
def priced() -> dict[int, list[Segment]]:
    """All cases in one store, each with an instance type of its own."""
    nodes, lines = [], []
    with empty_store() as con:
        for name, case in CASES.items():
            kind = f"x{NUMBERS[name]:02}.large"
            for sql, rows in ((HISTORY, case.changes), (LIST, case.listed)):
                for row in rows:
                    machine = {"instance_id": f"i-{kind[1:3]}"} if row.get("instance_id") == "own" else {}
                    con.execute(sql, row | machine | {"type": kind})
            machine = {"machine_id": f"aws:///us-east-1a/i-{kind[1:3]}"}
            nodes.append(case.node | machine | {"node_id": NUMBERS[name], "instance_type": kind})
            lines += [f",,,{kind},{case.book}"] if case.book else []
        collected(con, 20)
        segments = run(con, nodes, lines)
    return {number: [segment for segment in segments if segment[0] == number] for number in NUMBERS.values()}


@pytest.mark.parametrize("name", CASES)
def test_what_prices_a_node(priced: dict[int, list[Segment]], name: str) -> None:
    expected = [(start, end, Decimal(price)) for start, end, price in CASES[name].prices]
    assert steps(priced[NUMBERS[name]]) == expected


def test_segments_say_where_their_prices_are_from(priced: dict[int, list[Segment]]) -> None:
    def sources(name: str) -> list[tuple[str, date | None]]:
        return [(source, day) for *_, source, day in priced[NUMBERS[name]]]

    assert sources("a spot price holds until the next change") == [
        ("spot_history", date(2026, 9, 29)),
        ("spot_history", date(2026, 10, 1)),
    ]
    assert sources("one that always was") == [("catalog", date(2026, 11, 1))]
    order = "the book comes before spot history and that before list prices"
    assert [source for source, _ in sources(order)] == ["catalog", "spot_history", "price_book"]


def test_the_last_price_is_carried_past_the_end_of_what_was_collected(con: duckdb.DuckDBPyConnection) -> None:
    node = SPOT | {"instance_type": "x9.large"}
    con.execute(HISTORY, change(-24 * 40, "1") | {"type": "x9.large"})
    collected(con, -24 * 3)
    assert steps(run(con, [node], [], {"stale_after_days": 4})) == [(0, 24, Decimal(1))]
    con.execute("UPDATE loads SET to_ms = to_ms + 12 * 3600000")
    assert steps(run(con, [node], [], {"stale_after_days": 3})) == [(0, 12, Decimal(1))]
    [(message, start, end)] = con.execute("SELECT message, from_ms, to_ms FROM warnings").fetchall()
    assert "96.0 GPU-hours" in message
    assert (start, end) == (START + 12 * MS_PER_HOUR, START + 24 * MS_PER_HOUR)
    # another load of the region, which brought nothing new of this type
    con.execute(HISTORY, change(-5, "7", "us-east-1b", source="aws again") | {"type": "x9.large"})
    collected(con, 0, source="aws again")
    assert steps(run(con, [node], [], {"stale_after_days": 3})) == [(0, 24, Decimal(1))]


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(-30, 30), st.sampled_from("abc"), st.integers(1, 9)),
        max_size=12,
        unique_by=lambda c: c[:2],
    ),
    st.sampled_from([None, "a", "b"]),
)
def test_spot_history_of_every_hour_is_that_of_plain_python(
    changes: list[tuple[int, str, int]], zone: str | None
) -> None:
    with empty_store() as con:
        for hour, letter, price in changes:
            con.execute(HISTORY, change(hour, str(price), f"us-east-1{letter}") | {"type": "x9.large"})
        collected(con, 30)
        node = SPOT | {"instance_type": "x9.large", "zone": zone and f"us-east-1{zone}"}
        result = steps(run(con, [node], []))
    for hour in range(24):
        in_force = {}
        for at, letter, price in sorted(changes):
            if at <= hour and zone in (None, letter):
                in_force[letter] = price
        ordered = sorted(in_force.values())
        expected = [ordered[(len(ordered) - 1) // 2]] if ordered else []
        assert [int(value) for start, end, value in result if start <= hour < end] == expected
