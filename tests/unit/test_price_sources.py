"""Price sources other than the price book: spot history and list prices, as of each moment."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from gpucost.periods import MS_PER_HOUR
from tests.text_tables import text_rows, words
from tests.unit.price_nodes import NODE, START, Segment, empty_store, run, steps, told_steps

Row = dict[str, Any]
SPOT: list[Row] = [{"capacity_type": "spot"}]
HISTORY = """INSERT INTO spot_prices
VALUES ('aws', $region, $zone, $type, $product, $instance_id, $at, $to_ms, $price, 'USD', $source)"""
LIST = (
    "INSERT INTO list_prices VALUES ('aws', $region, $zone, $type, $option, 0, '', '', $price, 'USD', $begins::DATE, "
    "$as_of::DATE, 'aws pricing get_products')"
)


# defaults of spot price changes and list prices in the cases
CHANGE = "zone=us-east-1a region=us-east-1 product=Linux/UNIX source=aws"
LISTED = "option=on_demand zone= region=us-east-1 as_of=2026-01-01"


def changes(text: str, kind: str) -> list[Row]:
    """Spot price changes of a type: "at" and "to" in hours from START, underscores for spaces in products."""
    rows = []
    for line in filter(None, text.split("; ")):
        row: Row = {"instance_id": "", "to": None, "type": kind, **words(CHANGE), **words(line)}
        until = row.pop("to")
        row["at"] = START + round(float(row["at"]) * MS_PER_HOUR)
        row["to_ms"] = until and START + int(until) * MS_PER_HOUR
        rows.append(row | {"product": row["product"].replace("_", " ")})
    return rows


def collected(con: duckdb.DuckDBPyConnection, until_hour: float, source: str = "aws") -> None:
    con.execute(
        "INSERT INTO loads SELECT coalesce(max(load_id), 0) + 1, 1, 'spot', $source, 0, $until, 1, 0, now()::TIMESTAMP "
        "FROM loads",
        {"source": source, "until": START + round(until_hour * MS_PER_HOUR)},
    )


@dataclass
class Case:
    """Nodes (differences from NODE), the price steps of each, separated by bars, and prices of the type (T in a book)."""

    nodes: list[Row]
    prices: str
    changes: str = ""
    listed: str = ""
    book: tuple[str, ...] = ()


Priced = dict[str, list[list[Segment]]]


def segments_of(cases: dict[str, Case], **elsewhere: str) -> Priced:
    """The price segments of each node: all cases in one store, each with its own instance type."""
    nodes, lines = [], []
    with empty_store() as con:
        for number, case in enumerate(cases.values()):
            kind = f"x{number:03}.large"
            for row in changes(case.changes.replace("=own", f"=i-{kind}"), kind):
                con.execute(HISTORY, row)
            for line in filter(None, case.listed.split("; ")):
                con.execute(LIST, {"type": kind, "begins": None, **words(LISTED), **words(line)})
            like = NODE | elsewhere | words(f"machine_id=aws:///us-east-1a/i-{kind} instance_type={kind}")
            nodes += [like | node | {"node_id": 10 * number + at} for at, node in enumerate(case.nodes)]
            lines += [line.replace(",T,", f",{kind},") for line in case.book]
        collected(con, 20)
        segments = run(con, nodes, lines)
    return {
        name: [
            [segment for segment in segments if segment[0] == 10 * number + at]
            for at in range(len(case.nodes))
        ]
        for number, (name, case) in enumerate(cases.items())
    }


def check_steps(case: Case, segments: list[list[Segment]]) -> None:
    assert list(map(steps, segments)) == list(map(told_steps, case.prices.split("|")))


FIVE_ZONES = (
    "at=-1 price=1; at=-1 price=2 zone=us-east-1b; at=-1 price=4 zone=us-east-1c; at=-1 price=3 zone=us-east-1d; "
    "at=6 price=5; at=-1 price=100 zone=us-west-2a region=us-west-2"
)
WINDOWS = "at=-1 price=9 product=Windows; at=-1 price=8 product=Red_Hat_Enterprise_Linux"
VPC = f"{WINDOWS}; at=-1 price=2 product=Linux/UNIX_(Amazon_VPC)"
ONE: list[Row] = [{}]
FOUR_DAYS: list[Row] = [{"up_to_ms": START + 96 * MS_PER_HOUR}]
TWO = "price=21 as_of=2026-09-19; price=20 as_of=2026-10-02"
BEGUN = f"{TWO}; price=19 as_of=2026-10-30 begins=2026-10-03"
ANY_REGION = "price=7 as_of=2026-09-01 region="
OF_A_ZONE = f"{ANY_REGION}; price=6 as_of=2026-09-01 zone=us-east-1b"
PLACES = f"{OF_A_ZONE}; price=5 as_of=2026-09-01"
CASES = {
    "a spot price is valid until the next change": Case(
        SPOT, "0 12.25 1, 12.25 24 3", "at=-30 price=1; at=12.25 price=3; at=13 price=2 zone=us-east-1b"
    ),
    **{
        f"{capacity} is not priced by spot history": Case([{"capacity_type": capacity}], "", "at=-1 price=1")
        for capacity in ("on_demand", "reserved", "unknown")
    },
    "spot history does not price another zone": Case([words("capacity_type=spot zone=us-east-1b")], "", "at=-1 price=1"),
    "the book overrides spot history, which overrides list prices": Case(
        SPOT, "0 6 9, 6 18 5, 18 24 2", "at=6 price=5", "price=9 as_of=2026-09-01 option=spot",
        (",,,T,spot,2,USD,2026-10-01T18:00:00Z",),
    ),
    "a node without a zone has the lower median of its region's zones": Case(
        [{"capacity_type": "spot", "zone": None}], "0 6 2, 6 24 3", FIVE_ZONES
    ),
    "a region without zones prices all of its zones": Case(
        SPOT, "0 12 1, 12 24 2", "at=-1 price=1 zone=; at=12 price=2"
    ),
    "zones may be given by id": Case(
        [{"capacity_type": "spot", "labels": {"label_topology_k8s_aws_zone_id": "use1-az4"}}], "1", "at=-1 price=1 zone=use1-az4"
    ),
    "the charged price of an instance overrides the market price": Case(
        SPOT, "0 3 1, 3 4 7, 4 24 1",
        "at=-1 price=1; at=3 price=7 instance_id=own zone= product= to=4; at=3 price=9 instance_id=i-other zone= product= to=4",
    ),
    "Windows prices do not apply": Case(SPOT, "", WINDOWS),
    "prices of Linux in a VPC apply": Case(SPOT, "2", VPC),
    "prices of Linux take precedence": Case(SPOT, "1", f"{VPC}; at=-1 price=1"),
    "the newest list price applies from its day": Case(FOUR_DAYS, "0 24 21, 24 96 20", listed=TWO),
    # fetched later with an earlier start: applies from its start, over older prices
    "a list price with a past start applies from its start": Case(FOUR_DAYS, "0 24 21, 24 48 20, 48 96 19", listed=BEGUN),
    "a list price with an early start applies to all time": Case(
        FOUR_DAYS, "0 96 18", listed=f"{BEGUN}; price=18 as_of=2026-11-01 begins=2026-01-01"
    ),
    "the earliest list price applies to earlier time": Case(
        FOUR_DAYS, "0 48 5, 48 96 6", listed="price=5 as_of=2026-10-02; price=6 as_of=2026-10-03"
    ),
    "next month's price of a zone is not charged today": Case(
        ONE, "33", listed="price=33 as_of=2026-01-01; price=99 as_of=2026-09-30 begins=2027-01-01 zone=us-east-1a"
    ),
    "a list price of any region": Case(ONE, "7", listed=ANY_REGION),
    "a zonal price overrides a price of any region": Case(ONE, "6", listed=OF_A_ZONE),
    "a regional price overrides a zonal price": Case(ONE, "5", listed=PLACES),
    "a price of any region applies to other regions": Case([words("region=us-west-2 zone=us-west-2a")], "7", listed=PLACES),
}  # fmt: skip


@pytest.fixture(scope="module")
def priced() -> Priced:
    return segments_of(CASES)


@pytest.mark.parametrize("name", CASES)
def test_price_source_of_a_node(priced: Priced, name: str) -> None:
    check_steps(CASES[name], priced[name])


def test_segments_name_their_price_source(priced: Priced) -> None:
    names = (
        "a spot price is valid until the next change",
        "a list price with an early start applies to all time",
        "the book overrides spot history, which overrides list prices",
    )
    found = [segment[4:] for name in names for segment in priced[name][0]]
    assert [(source, str(day)) for source, day in found] == text_rows("""
        spot_history | 2026-09-29
        spot_history | 2026-10-01
        catalog | 2026-11-01
        catalog | 2026-09-01
        spot_history | 2026-10-01
        price_book | 2026-10-01
    """)


def test_last_price_is_valid_past_the_end_of_collected_time(con: duckdb.DuckDBPyConnection) -> None:
    def carried(days: int) -> list[tuple[float, float, Decimal]]:
        return steps(
            run(
                con,
                [NODE | {"capacity_type": "spot", "instance_type": "x9.large"}],
                [],
                {"stale_after_days": days},
            )
        )

    con.executemany(HISTORY, changes("at=-960 price=1", "x9.large"))
    collected(con, -72)
    assert carried(4) == told_steps("1")
    con.execute("UPDATE loads SET to_ms = to_ms + 12 * 3600000")
    assert carried(3) == told_steps("0 12 1")
    [(message, start, end)] = con.execute("SELECT message, from_ms, to_ms FROM warnings").fetchall()
    assert "96.0 GPU-hours" in message
    assert (start, end) == (START + 12 * MS_PER_HOUR, START + 24 * MS_PER_HOUR)
    # another load of the region without new prices of this type
    con.executemany(HISTORY, changes("at=-5 price=7 zone=us-east-1b source=again", "x9.large"))
    collected(con, 0, "again")
    assert carried(3) == told_steps("1")
