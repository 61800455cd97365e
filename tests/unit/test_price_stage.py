"""From nodes, a price book and the catalog to price segments: named cases, and random books against plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucost.errors import PriceError
from gpucost.periods import MS_PER_HOUR, to_ms
from tests.unit.price_nodes import NODE, START, empty_store, run, steps


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with empty_store() as connection:
        yield connection


def test_the_most_specific_row_wins_at_each_moment(con: duckdb.DuckDBPyConnection) -> None:
    lines = [
        ",,,p4d.24xlarge,spot,12.00,USD",
        ",us-east-1,us-east-1a,p4d.24xlarge,spot,8.00,USD",
        ",us-east-1,us-east-1a,p4d.24xlarge,spot,24.00,USD,2026-10-01T12:00:00Z",
        ",,,,spot,1.00,USD,2026-10-01T18:00:00Z",
    ]
    assert steps(run(con, [NODE | {"capacity_type": "spot"}], lines)) == [(0, 12, Decimal(8)), (12, 24, Decimal(24))]
    other_zone = NODE | {"capacity_type": "spot", "zone": "us-east-1b"}
    assert steps(run(con, [other_zone], lines)) == [(0, 24, Decimal(12))]


def test_the_order_of_what_is_specific(con: duckdb.DuckDBPyConnection) -> None:
    lines = [
        ",,,,,1,USD,,,", ",,,,on_demand,2,USD,,,", "aws,,,,,3,USD,,,", ",us-east-1,,,,4,USD,,,", ",,us-east-1a,,,5,USD,,,",
        ",,,P4D.24xlarge,,6,USD,,,", ",,,,,7,USD,,,pool=train", ",,,,,8,USD,,,pool=train;team=a",
    ]  # fmt: skip
    names = ("capacity_type", "provider", "region", "zone", "instance_type", "labels")
    facts = dict(zip(names, ("capacity_block", "gcp", "x", "x", "x", {}), strict=True))
    nodes = [NODE | facts]
    for fact in (*({name: NODE[name]} for name in names[:-1]), {"labels": {"label_pool": "train"}}, {"labels": NODE["labels"]}):
        facts |= fact
        nodes.append(NODE | facts | {"node_id": len(nodes) + 1})
    assert steps(run(con, nodes, lines)) == [(0, 24, Decimal(price)) for price in range(1, len(lines) + 1)]


def test_only_a_spot_price_prices_spot(con: duckdb.DuckDBPyConnection) -> None:
    spot = NODE | {"capacity_type": "spot", "instance_type": "unlisted"}
    lines = [f",,,unlisted,{option},9,USD" for option in ("on_demand", "reserved")]
    assert run(con, [spot], lines) == []
    assert steps(run(con, [spot], [*lines, ",,,unlisted,spot,2,USD"])) == [(0, 24, Decimal(2))]
    assert steps(run(con, [spot | {"capacity_type": "unknown"}], lines)) == [(0, 24, Decimal(9))]


@pytest.mark.parametrize(
    ("capacity", "options"),
    [
        ("on_demand", "on_demand savings_plan cud"),
        ("unknown", "on_demand savings_plan cud"),
        ("reserved", "reserved savings_plan cud on_demand"),
        ("capacity_block", "capacity_block"),
        ("flex_start", "flex_start calendar"),
        ("spot", "spot"),
    ],
)
def test_purchase_options_fit_by_capacity_type(con: duckdb.DuckDBPyConnection, capacity: str, options: str) -> None:
    bought = ["on_demand", "savings_plan", "cud", "reserved", "capacity_block", "flex_start", "calendar", "spot"]
    nodes = [NODE | {"node_id": n, "capacity_type": capacity, "instance_type": f"x.{name}"} for n, name in enumerate(bought)]
    result = run(con, nodes, [f",,,x.{option},{option},9,USD" for option in bought])
    assert [(bought[node], *rest[:3]) for node, *rest in result] == [
        (option, 0, 24, Decimal(9)) for option in bought if option in options.split()
    ]


@pytest.mark.parametrize(
    ("capacity", "options"), [("reserved", "on_demand cud savings_plan reserved"), ("flex_start", "calendar flex_start")]
)
def test_of_rows_as_specific_the_option_that_fits_best_wins(con: duckdb.DuckDBPyConnection, capacity: str, options: str) -> None:
    nodes, lines, expected, so_far = [], [], [], dict[str, int]()
    for number, option in enumerate(options.split(), start=1):
        # one key of a book holds one price of on_demand, savings_plan or cud: they tie on on-demand nodes
        so_far = {name: price for name, price in so_far.items() if not (option in "savings_plan cud" and name != "reserved")}
        so_far[option] = number
        # what is more specific still comes first
        for kind, more, price in (
            (f"x{number}", [], number),
            (f"y{number}", [f",us-east-1,,y{number},{options.split()[0]},50,USD"], 50),
        ):
            nodes.append(NODE | {"node_id": len(nodes), "capacity_type": capacity, "instance_type": kind})
            lines += [*(f",,,{kind},{name},{value},USD" for name, value in so_far.items()), *more]
            expected.append((0, 24, Decimal(price)))
    assert steps(run(con, nodes, lines)) == expected


def test_a_row_for_all_options_prices_reserved_capacity_only_where_none_that_fits_does(con: duckdb.DuckDBPyConnection) -> None:
    node = NODE | {"capacity_type": "reserved"}
    expected = {"savings_plan": 8, "on_demand": 8, "spot": 9, "capacity_block": 9}
    nodes = [node | {"node_id": number, "instance_type": f"x.{option}"} for number, option in enumerate(expected)]
    result = run(con, nodes, [line for option in expected for line in (f",,,x.{option},,9,USD", f",,,x.{option},{option},8,USD")])
    assert steps(result) == [(0, 24, Decimal(value)) for value in expected.values()]


def test_a_price_per_gpu_is_multiplied(con: duckdb.DuckDBPyConnection) -> None:
    nodes = [NODE, NODE | {"node_id": 2, "gpu_count": 0.125}, NODE | {"node_id": 3, "gpu_count": 0.0, "instance_type": None}]
    segments = run(con, nodes, [",,,,on_demand,1.23456789,USD,,gpu"])
    assert [(node, value) for node, _, _, value, _, _ in segments] == [(1, Decimal("9.876543120")), (2, Decimal("0.154320986"))]


def test_labels_are_matched_as_exported(con: duckdb.DuckDBPyConnection) -> None:
    node = NODE | {"instance_type": None, "labels": {"label_example_com_pool_name": "A", "label_capacity_type": "x"}}
    selectors = (
        "example.com/pool-name=A", "label_example_com_pool_name=A", "capacityType=x",
        "example.com/pool-name=A;capacityType=x", "example.com/pool-name=a", "absent=A",
    )  # fmt: skip
    nodes = [node | {"node_id": number, "instance_type": f"x{number}"} for number in range(len(selectors))]
    unlabeled = node | {"node_id": 9, "instance_type": "x5", "labels": None}
    result = run(con, [*nodes, unlabeled], [f",,,x{number},,5,USD,,,{selector}" for number, selector in enumerate(selectors)])
    assert [row[:4] for row in result] == [(number, 0, 24, Decimal(5)) for number in range(4)]
    assert steps(run(con, [node], [f",,,,,5,USD,,,{selectors[0]}"])) == [(0, 24, Decimal(5))]


def test_two_selectors_that_tie_name_both_lines(con: duckdb.DuckDBPyConnection) -> None:
    lines = [",,,,,5,USD,,,pool=train", ",,,,,6,USD,2026-10-01T06:00:00Z,,team=a"]
    with pytest.raises(PriceError, match=r"lines 2 and 3 both price node n1 at 2026-10-01T06:00:00Z"):
        run(con, [NODE], lines)
    assert steps(run(con, [NODE | {"labels": {"label_pool": "train"}}], lines)) == [(0, 24, Decimal(5))]
    decided = [*lines, ",,,p4d.24xlarge,,7,USD,2026-10-01T03:00:00Z,,pool=train"]
    assert steps(run(con, [NODE], decided)) == [(0, 3, Decimal(5)), (3, 24, Decimal(7))]


def test_the_catalog_prices_until_the_book_begins(con: duckdb.DuckDBPyConnection) -> None:
    listed, own = run(con, [NODE | {"region": None}], [",,,p4d.24xlarge,on_demand,9,USD,2026-10-01T12:00:00Z"])
    assert listed == (1, 0, 12, Decimal("21.957642"), "catalog", date(2026, 9, 19))
    assert own == (1, 12, 24, Decimal(9), "price_book", date(2026, 10, 1))


def test_the_region_is_read_from_the_zone(con: duckdb.DuckDBPyConnection) -> None:
    cases = [
        ("aws", "us-east-1-atl-2a", "p4d.24xlarge", "21.957642"),
        ("gcp", "us-central1-a", "A2-highgpu-1g", "3.673385"),
        ("azure", "eastus-1", "standard_nc24ads_a100_v4", "3.673"),
        (None, "us-central1-f", "g2-standard-4", "0.706832255"),
    ]
    nodes = [
        NODE | {"node_id": number, "provider": provider, "region": None, "zone": zone, "instance_type": kind}
        for number, (provider, zone, kind, _) in enumerate(cases)
    ]
    prices = [(value, source) for _, _, _, value, source, _ in run(con, nodes, [])]
    assert prices == [(Decimal(price), "catalog") for *_, price in cases]


def test_list_prices_of_spot_are_by_zone(con: duckdb.DuckDBPyConnection) -> None:
    spot = NODE | {"capacity_type": "spot"}
    known = spot | {"labels": {"label_topology_k8s_aws_zone_id": "use1-az4"}}
    nodes = [known, spot | {"node_id": 2}, spot | {"node_id": 3, "instance_type": "g5.xlarge"}]
    # without the zone's id the lower median of 2.4655, 7.8799, 8.1203, 8.1915; g5.xlarge: of the region alone
    assert steps(run(con, nodes, [])) == [(0, 24, Decimal(price)) for price in ("8.1203", "7.8799", "0.5291")]


def test_reserved_capacity_has_the_list_price_on_demand(con: duckdb.DuckDBPyConnection) -> None:
    result = run(con, [NODE | {"capacity_type": "reserved"}], [])
    assert [row[1:] for row in result] == [row[1:] for row in run(con, [NODE], [])] != []


def test_capacity_blocks_and_flex_start_have_list_prices_of_their_own(con: duckdb.DuckDBPyConnection) -> None:
    insert = (
        "INSERT INTO list_prices VALUES ('aws', 'us-east-1', '', 'x1', $option, 0, '', '', $price, 'USD', NULL, "
        "DATE '2026-01-01', 'asked')"
    )
    nodes = [
        NODE | {"node_id": number, "instance_type": "x1", "capacity_type": capacity}
        for number, capacity in enumerate(("capacity_block", "flex_start", "on_demand"), start=1)
    ]
    try:
        con.execute(insert, {"option": "on_demand", "price": 9})
        assert [row[0] for row in run(con, nodes, [])] == [3]
        con.execute(insert, {"option": "capacity_block", "price": 4})
        con.execute(insert, {"option": "calendar", "price": 6})
        assert [(row[0], row[3]) for row in run(con, nodes, [])] == [(1, 4), (2, 6), (3, 9)]
        con.execute(insert, {"option": "flex_start", "price": 7})
        assert [(row[0], row[3]) for row in run(con, nodes, [])] == [(1, 4), (2, 7), (3, 9)]
    finally:
        con.execute("DELETE FROM list_prices")


def test_list_prices_do_not_price_other_regions(con: duckdb.DuckDBPyConnection) -> None:
    assert run(con, [NODE | {"region": "mars-1"}], []) == []


def test_an_unpriced_kind_of_node_is_said_once_with_the_line_that_mends_it(con: duckdb.DuckDBPyConnection) -> None:
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
    assert message == "2 nodes of p9.48xlarge (unknown, us-east-1) cost nothing here, because no price fits: 384.0 GPU-hours"
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
    assert message == "the list price of p4d.24xlarge (on_demand, us-east-1) is of 2026-09-19, 92 days before it was last used"


def test_touching_segments_of_one_price_are_one(con: duckdb.DuckDBPyConnection) -> None:
    lines = [f",,,,on_demand,5,USD,2026-10-01T0{hour}:00:00Z" for hour in (0, 3, 6)]
    assert steps(run(con, [NODE], lines)) == [(0, 24, Decimal(5))]


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


def plain_python(con: duckdb.DuckDBPyConnection, rows: list[tuple[Any, ...]], fleet: list[tuple[Any, ...]]) -> None:
    lines = []
    for *fields, value, hour in rows:
        start = datetime.fromtimestamp(START / 1000 + int(hour) * 3600, UTC).isoformat() if hour else ""
        lines.append(",".join(map(str, [*fields, value, "USD", start])))
    nodes = [
        NODE
        | dict(zip((*FIELDS, "capacity_type"), node[:5], strict=True))
        | {"node_id": number, "up_from_ms": START + node[5] * MS_PER_HOUR, "up_to_ms": START + node[6] * MS_PER_HOUR}
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
        rank: list[int] = [bool(given_fields[name]) for name in ("instance_type", "zone", "region", "provider")]
        rank += [bool(option), fitting.get(option, 0)]
        if best is None or (rank, begins) > best[:2]:
            best = (rank, begins, row[5])
    return best[2] if best else None
