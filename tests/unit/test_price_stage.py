"""From nodes, a price book and the catalog to price segments: named cases, and random books against plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucost.errors import PriceError
from gpucost.periods import MS_PER_HOUR, to_ms
from tests.unit.price_nodes import NODE, START, Segment, empty_store, run, steps

Row = dict[str, Any]
SPOT = {"capacity_type": "spot"}


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with empty_store() as connection:
        yield connection


@dataclass
class Case:
    """Nodes, lines of a book and list prices of the case's type T, and what each node costs: (from, to, price)."""

    nodes: list[Row]
    lines: list[str]
    prices: list[list[tuple[float, float, str]]]
    listed: tuple[tuple[str, int], ...] = ()  # purchase option, price


def always(*prices: str) -> list[list[tuple[float, float, str]]]:
    """Of each node one price, or none where it is empty."""
    return [[(0, 24, price)] if price else [] for price in prices]


OPTIONS = ["on_demand", "savings_plan", "cud", "reserved", "capacity_block", "flex_start", "calendar", "spot"]
FIT = {
    "on_demand": "on_demand savings_plan cud", "unknown": "on_demand savings_plan cud",
    "reserved": "reserved savings_plan cud on_demand", "capacity_block": "capacity_block", "flex_start": "flex_start calendar",
    "spot": "spot",
}  # fmt: skip
RANKED = {  # of rows as specific the option that fits best wins, the last; one key holds one of on_demand, savings_plan or cud
    "reserved": (["on_demand"], ["cud"], ["savings_plan"], ["savings_plan", "reserved"]),
    "flex_start": (["calendar"], ["calendar", "flex_start"]),
}
NAMES = {"label_example_com_pool_name": "A", "label_capacity_type": "x"}
SELECTORS = {
    "example.com/pool-name=A": "5", "label_example_com_pool_name=A": "5", "capacityType=x": "5",
    "example.com/pool-name=A;capacityType=x": "5", "example.com/pool-name=a": "", "absent=A": "",
}  # fmt: skip
TIE = [",,,T,,5,USD,,,pool=train", ",,,T,,6,USD,2026-10-01T06:00:00Z,,team=a"]
LIST_ONLY = [{"capacity_type": capacity} for capacity in ("capacity_block", "flex_start", "on_demand")]
# in a zone of its own, but where a case names one
ELSEWHERE = NODE | {"zone": "us-east-1c"}
CASES = {
    "the most specific row wins at each moment": Case(
        [SPOT | {"zone": "us-east-1a"}, SPOT | {"zone": "us-east-1b"}],
        [",,,T,spot,12.00,USD", ",us-east-1,us-east-1a,T,spot,8.00,USD",
         ",us-east-1,us-east-1a,T,spot,24.00,USD,2026-10-01T12:00:00Z", ",,us-east-1a,,spot,1.00,USD,2026-10-01T18:00:00Z"],
        [[(0, 12, "8"), (12, 24, "24")], [(0, 24, "12")]],
    ),
    "no price but of spot prices spot": Case(
        [SPOT, {"capacity_type": "unknown"}], [",,,T,on_demand,9,USD", ",,,T,reserved,8,USD"], always("", "9")
    ),
    "a spot price does": Case([SPOT], [",,,T,on_demand,9,USD", ",,,T,spot,2,USD"], always("2")),
    **{
        f"{option} of {capacity}": Case(
            [{"capacity_type": capacity}], [f",,,T,{option},9,USD"], always("9" if option in fit.split() else "")
        )
        for capacity, fit in FIT.items() for option in OPTIONS
    },
    **{
        f"{names} of {capacity}{' where one is more specific' * bool(more)}": Case(
            [{"capacity_type": capacity}], [*(f",,,T,{name},{price},USD" for price, name in enumerate(names, 1)), *more],
            always("50" if more else str(len(names))),
        )
        for capacity, several in RANKED.items() for names in several
        for more in ([], [f",us-east-1,,T,{several[0][0]},50,USD"])
    },
    **{
        f"a row for all options prices reserved capacity only where none that fits does: {option}": Case(
            [{"capacity_type": "reserved"}], [",,,T,,9,USD", f",,,T,{option},8,USD"], always(price)
        )
        for option, price in {"savings_plan": "8", "on_demand": "8", "spot": "9", "capacity_block": "9"}.items()
    },
    "a price per GPU is multiplied": Case(
        [{}, {"gpu_count": 0.125}, {"gpu_count": 0.0}], [",,,T,on_demand,1.23456789,USD,,gpu"],
        always("9.876543120", "0.154320986", ""),
    ),
    **{
        f"labels are matched as exported: {selector}": Case(
            [{"labels": NAMES}, {"labels": None}], [f",,,T,,5,USD,,,{selector}"], always(price, "")
        )
        for selector, price in SELECTORS.items()
    },
    "of two selectors one fits": Case([{"labels": {"label_pool": "train"}}], TIE, always("5")),
    "of two selectors that tie a third is more specific": Case(
        [{}],
        [*TIE, *(f",,us-east-1c,T,,{price},USD,2026-10-01T{hour}:00:00Z,,pool=train" for price, hour in ((7, "03"), (8, "12")))],
        [[(0, 3, "5"), (3, 12, "7"), (12, 24, "8")]],
    ),
    "touching segments of one price are one": Case(
        [{}], [f",,,T,on_demand,5,USD,2026-10-01T0{hour}:00:00Z" for hour in (0, 3, 6)], always("5")
    ),
    "the catalog prices until the book begins": Case(
        [{"instance_type": "p4d.24xlarge", "region": None}], [",,,p4d.24xlarge,on_demand,9,USD,2026-10-01T12:00:00Z"],
        [[(0, 12, "21.957642"), (12, 24, "9")]],
    ),
    "list prices on demand price no capacity block": Case(LIST_ONLY, [], always("", "", "9"), (("on_demand", 9),)),
    "capacity blocks and flex start have their own": Case(
        LIST_ONLY, [], always("4", "6", "9"), (("on_demand", 9), ("capacity_block", 4), ("calendar", 6))
    ),
    "flex start before a calendar's": Case(
        LIST_ONLY, [], always("", "7", "9"), (("on_demand", 9), ("calendar", 6), ("flex_start", 7))
    ),
}  # fmt: skip
NUMBERS = {name: number * 10 for number, name in enumerate(CASES)}


@pytest.fixture(scope="module")
def priced() -> dict[int, list[Segment]]:
    """All cases in one store, each with an instance type of its own."""
    nodes, lines = [], []
    with empty_store() as con:
        for name, case in CASES.items():
            kind = f"t{NUMBERS[name]}.large"
            for number, node in enumerate(case.nodes, NUMBERS[name]):
                nodes.append(ELSEWHERE | {"instance_type": kind} | node | {"node_id": number})
            lines += [line.replace(",T,", f",{kind},") for line in case.lines]
            for option, price in case.listed:
                con.execute(
                    "INSERT INTO list_prices VALUES ('aws', 'us-east-1', '', $1, $2, 0, '', '', $3, 'USD', NULL, "
                    "DATE '2026-01-01', 'asked')",
                    [kind, option, price],
                )
        segments = run(con, nodes, lines)
    return {
        node["node_id"]: [segment for segment in segments if segment[0] == node["node_id"]] for node in nodes
    }


@pytest.mark.parametrize("name", CASES)
def test_what_a_book_prices(priced: dict[int, list[Segment]], name: str) -> None:
    for number, prices in enumerate(CASES[name].prices, NUMBERS[name]):
        assert steps(priced[number]) == [(start, end, Decimal(price)) for start, end, price in prices]


def test_segments_say_their_source_and_its_day(priced: dict[int, list[Segment]]) -> None:
    assert [segment[-2:] for segment in priced[NUMBERS["the catalog prices until the book begins"]]] == [
        ("catalog", date(2026, 9, 19)),
        ("price_book", date(2026, 10, 1)),
    ]


def test_the_order_of_what_is_specific(con: duckdb.DuckDBPyConnection) -> None:
    lines = [
        ",,,,,1,USD,,,", ",,,,on_demand,2,USD,,,", "aws,,,,,3,USD,,,", ",us-east-1,,,,4,USD,,,", ",,us-east-1a,,,5,USD,,,",
        ",,,P4D.24xlarge,,6,USD,,,", ",,,,,7,USD,,,pool=train", ",,,,,8,USD,,,pool=train;team=a",
    ]  # fmt: skip
    names = ("capacity_type", "provider", "region", "zone", "instance_type", "labels")
    facts = dict(zip(names, ("capacity_block", "gcp", "x", "x", "x", {}), strict=True))
    nodes = [NODE | facts]
    for fact in (
        *({name: NODE[name]} for name in names[:-1]),
        {"labels": {"label_pool": "train"}},
        {"labels": NODE["labels"]},
    ):
        facts |= fact
        nodes.append(NODE | facts | {"node_id": len(nodes) + 1})
    assert steps(run(con, nodes, lines)) == [(0, 24, Decimal(price)) for price in range(1, len(lines) + 1)]


ZONE_ID = {"labels": {"label_topology_k8s_aws_zone_id": "use1-az4"}}
# nodes, and their list prices
LISTED: list[tuple[Row, str]] = [
    # the region is read from the zone
    ({"region": None, "zone": "us-east-1-atl-2a"}, "21.957642"),
    (
        {"provider": "gcp", "region": None, "zone": "us-central1-a", "instance_type": "A2-highgpu-1g"},
        "3.673385",
    ),
    (
        {
            "provider": "azure",
            "region": None,
            "zone": "eastus-1",
            "instance_type": "standard_nc24ads_a100_v4",
        },
        "3.673",
    ),
    (
        {"provider": None, "region": None, "zone": "us-central1-f", "instance_type": "g2-standard-4"},
        "0.706832255",
    ),
    # spot is by zone; without the zone's id the lower median of 2.4655, 7.8799, 8.1203, 8.1915; g5.xlarge: of the region alone
    (SPOT | ZONE_ID, "8.1203"),
    (SPOT, "7.8799"),
    (SPOT | {"instance_type": "g5.xlarge"}, "0.5291"),
    # reserved capacity has the list price on demand; other regions have none
    ({"capacity_type": "reserved"}, "21.957642"),
    ({"region": "mars-1"}, ""),
]


def test_list_prices_by_region_zone_and_capacity(con: duckdb.DuckDBPyConnection) -> None:
    result = run(con, [NODE | node | {"node_id": number} for number, (node, _) in enumerate(LISTED)], [])
    expected = [
        (number, 0, 24, Decimal(price), "catalog") for number, (_, price) in enumerate(LISTED) if price
    ]
    assert [row[:5] for row in result] == expected


def test_two_selectors_that_tie_name_both_lines(con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(PriceError, match=r"lines 2 and 3 both price node n1 at 2026-10-01T06:00:00Z"):
        run(con, [NODE], [line.replace(",T,", ",,") for line in TIE])


def test_an_unpriced_kind_of_node_is_said_once_with_the_line_that_mends_it(
    con: duckdb.DuckDBPyConnection,
) -> None:
    new = NODE | {"instance_type": "p9.48xlarge", "capacity_type": "unknown"}
    dgx = NODE | {
        "node_id": 3,
        "provider": None,
        "instance_type": None,
        "region": None,
        "zone": None,
        "labels": {"label_nvidia_com_gpu_product": "H100"},
    }
    run(con, [new, new | {"node_id": 2}, dgx], [])
    messages = con.execute(
        "SELECT subject, message, fix FROM warnings WHERE code = 'unpriced_node' ORDER BY subject DESC"
    ).fetchall()
    [(subject, message, fix), (_, _, second_fix)] = messages
    assert subject == "p9.48xlarge"
    assert (
        message
        == "2 nodes of p9.48xlarge (unknown, us-east-1) cost nothing here, because no price fits: 384.0 GPU-hours"
    )
    assert fix.endswith("the line aws,us-east-1,,p9.48xlarge,on_demand,PRICE,USD,")
    assert ",,,,on_demand,PRICE,USD,,nvidia.com/gpu.product=H100" in second_fix
    run(con, [new], [fix.rsplit(" ", 1)[1].replace("PRICE", "7")])
    assert con.execute("SELECT count(*) FROM warnings").fetchall() == [(0,)]


def test_an_old_list_price_is_said(con: duckdb.DuckDBPyConnection) -> None:
    run(con, [NODE], [])
    assert con.execute("SELECT count(*) FROM warnings").fetchall() == [(0,)]
    later = to_ms(datetime(2026, 12, 20, tzinfo=UTC))
    run(con, [NODE | {"up_to_ms": later}, NODE | {"node_id": 2, "up_to_ms": later - 1}], [])
    [(code, subject, message)] = con.execute("SELECT code, subject, message FROM warnings").fetchall()
    assert (code, subject) == ("stale_price", "p4d.24xlarge")
    assert (
        message
        == "the list price of p4d.24xlarge (on_demand, us-east-1) is of 2026-09-19, 92 days before it was last used"
    )


def test_nothing_is_loaded_from_a_broken_book(con: duckdb.DuckDBPyConnection) -> None:
    before = run(con, [NODE], [])
    with pytest.raises(PriceError, match=r"prices\.csv:3: price_per_hour"):
        run(con, [NODE], [",,,,on_demand,5,USD", ",,,,spot,0,USD"])
    assert len(con.execute("SELECT * FROM node_prices").fetchall()) == len(before)


def priced_thing(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """What no two rows of a valid book have in common: what they price, and since when."""
    return (*row[:4], "on_demand" if row[4] == "cud" else row[4], row[6])


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["", "aws", "gcp"]),
        st.sampled_from(["", "us-east-1", "eu-west-1"]),
        st.sampled_from(["", "us-east-1a", "us-east-1b"]),
        st.sampled_from(["", "x1", "x2"]),
        st.sampled_from(["", "on_demand", "spot", "cud", "reserved"]),
        st.integers(1, 99),
        st.sampled_from(["", "-5", "0", "3", "3", "10", "23", "24", "30"]),
    ),
    max_size=14,
    unique_by=priced_thing,
)
FIELDS = ("provider", "region", "zone", "instance_type")


def plain_python(
    con: duckdb.DuckDBPyConnection, rows: list[tuple[Any, ...]], fleet: list[tuple[Any, ...]]
) -> None:
    lines = []
    for *fields, value, hour in rows:
        start = datetime.fromtimestamp(START / 1000 + int(hour) * 3600, UTC).isoformat() if hour else ""
        lines.append(",".join(map(str, [*fields, value, "USD", start])))
    nodes = [
        NODE
        | dict(zip((*FIELDS, "capacity_type"), node[:5], strict=True))
        | {
            "node_id": number,
            "up_from_ms": START + node[5] * MS_PER_HOUR,
            "up_to_ms": START + node[6] * MS_PER_HOUR,
        }
        for number, node in enumerate(fleet)
    ]
    segments = run(con, nodes, lines)
    for node in nodes:
        own = [segment for segment in segments if segment[0] == node["node_id"]]
        for hour in range(-1, 28):
            up = node["up_from_ms"] <= START + hour * MS_PER_HOUR < node["up_to_ms"]
            result = [int(value) for _, start, end, value, _, _ in own if start <= hour < end]
            expected = winner(rows, node, hour) if up else None
            assert result == ([] if expected is None else [expected])


FLEETS = (
    ROWS,
    st.lists(
        st.tuples(
            st.sampled_from([None, "aws", "gcp"]),
            st.sampled_from([None, "us-east-1", "eu-west-1"]),
            st.sampled_from(["us-east-1a", "us-east-1b"]),
            st.sampled_from([None, "x1", "X2"]),
            st.sampled_from(["on_demand", "spot", "reserved", "unknown"]),
            st.integers(0, 5),
            st.integers(6, 26),
        ),
        min_size=1,
        max_size=4,
    ),
)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(*FLEETS)
def test_the_winner_of_every_hour_is_that_of_plain_python(
    con: duckdb.DuckDBPyConnection, rows: list[tuple[Any, ...]], fleet: list[tuple[Any, ...]]
) -> None:
    plain_python(con, rows, fleet)


def winner(rows: list[tuple[Any, ...]], node: dict[str, Any], hour: int) -> int | None:
    """The price in force at the full hour, straight from the rule: fitting and begun, most specific, then latest."""
    fitting = {
        "on_demand": {"on_demand": 0, "cud": 0},
        "unknown": {"on_demand": 0, "cud": 0},
        "reserved": {"reserved": 3, "cud": 1, "on_demand": 0},
        "spot": {"spot": 0},
    }[node["capacity_type"]]
    best: tuple[list[int], float, int] | None = None
    for row in rows:
        begins = float(row[6]) if row[6] else float("-inf")
        option = row[4]
        given_fields = dict(zip(FIELDS, row[:4], strict=True))
        if begins > hour or (option and option not in fitting):
            continue
        known = node | {"region": node["region"] or "us-east-1"}  # both zones lie there
        if any(text and text != (known[name] or "").lower() for name, text in given_fields.items()):
            continue
        rank: list[int] = [
            bool(given_fields[name]) for name in ("instance_type", "zone", "region", "provider")
        ]
        rank += [bool(option), fitting.get(option, 0)]
        if best is None or (rank, begins) > best[:2]:
            best = (rank, begins, row[5])
    return best[2] if best else None
