"""Price segments from nodes, a price book and the catalog, in named cases."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from gpucost.errors import PriceError
from gpucost.periods import to_ms
from tests.text_tables import text_rows, words
from tests.unit.price_nodes import NODE, empty_store, run, steps
from tests.unit.test_price_sources import Case, Priced, check_steps, segments_of

Row = dict[str, Any]
PLACE = ("provider", "region", "zone", "instance_type")


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with empty_store() as connection:
        yield connection


def case(nodes: list[Row], lines: list[str], prices: str, listed: str = "") -> Case:
    return Case(nodes, prices, listed=listed, book=tuple(lines))


OPTIONS = ["on_demand", "savings_plan", "cud", "reserved", "capacity_block", "flex_start", "calendar", "spot"]
# the purchase options that may price a capacity type
FIT = """
on_demand | on_demand savings_plan cud
unknown | on_demand savings_plan cud
reserved | reserved savings_plan cud on_demand
capacity_block | capacity_block
flex_start | flex_start calendar
spot | spot
"""
# of equally specific rows the option that fits best wins (the last); a key has one of on_demand, savings_plan or cud
RANKED = """
reserved | on_demand
reserved | cud
reserved | savings_plan
reserved | savings_plan reserved
flex_start | calendar
flex_start | calendar flex_start
"""
NAMES = {"label_example_com_pool_name": "A", "label_capacity_type": "x"}
SELECTORS = """
example.com/pool-name=A | 5
label_example_com_pool_name=A | 5
capacityType=x | 5
example.com/pool-name=A;capacityType=x | 5
example.com/pool-name=a |
absent=A |
"""
TIE = [",,,T,,5,USD,,,pool=train", ",,,T,,6,USD,2026-10-01T06:00:00Z,,team=a"]
LIST_ONLY = [{"capacity_type": capacity} for capacity in ("capacity_block", "flex_start", "on_demand")]
CASES = {
    "the most specific row wins at each moment": case(
        [words(f"capacity_type=spot zone=us-east-1{zone}") for zone in "ab"],
        [",,,T,spot,12.00,USD", ",us-east-1,us-east-1a,T,spot,8.00,USD",
         ",us-east-1,us-east-1a,T,spot,24.00,USD,2026-10-01T12:00:00Z", ",,us-east-1a,,spot,1.00,USD,2026-10-01T18:00:00Z"],
        "0 12 8, 12 24 24 | 12",
    ),
    **{
        f"{option} of {capacity}": case(
            [{"capacity_type": capacity}], [f",,,T,{option},9,USD"], "9" if option in fit.split() else ""
        )
        for capacity, fit in text_rows(FIT) for option in OPTIONS
    },
    **{
        f"{names} of {capacity}{' with a more specific row' * bool(more)}": case(
            [{"capacity_type": capacity}], [*(f",,,T,{name},{price},USD" for price, name in enumerate(names.split(), 1)), *more],
            "50" if more else str(len(names.split())),
        )
        for capacity, names in text_rows(RANKED)
        for more in ([], [f",us-east-1,,T,{names.split()[0]},50,USD"])
    },
    **{
        f"a row for all options prices reserved capacity only if no other row fits: {option}": case(
            [{"capacity_type": "reserved"}], [",,,T,,9,USD", f",,,T,{option},8,USD"], price
        )
        for option, price in {"savings_plan": "8", "on_demand": "8", "spot": "9", "capacity_block": "9"}.items()
    },
    "a price per GPU is multiplied": case(
        [{}, {"gpu_count": 0.125}, {"gpu_count": 0.0}], [",,,T,on_demand,1.23456789,USD,,gpu"], "9.876543120 | 0.154320986 |"
    ),
    **{
        f"labels are matched as exported: {selector}": case(
            [{"labels": NAMES}, {"labels": None}], [f",,,T,,5,USD,,,{selector}"], f"{price} |"
        )
        for selector, price in text_rows(SELECTORS)
    },
    "one of two selectors fits": case([{"labels": {"label_pool": "train"}}], TIE, "5"),
    "a more specific row wins over two tied selectors": case(
        [{}],
        [*TIE, *(f",,us-east-1c,T,,{price},USD,2026-10-01T{hour}:00:00Z,,pool=train" for price, hour in ((7, "03"), (8, "12")))],
        "0 3 5, 3 12 7, 12 24 8",
    ),
    "adjacent segments with the same price are merged": case(
        [{}], [f",,,T,on_demand,5,USD,2026-10-01T0{hour}:00:00Z" for hour in (0, 3, 6)], "5"
    ),
    "catalog prices apply until the book begins": case(
        [{"instance_type": "p4d.24xlarge", "region": None}], [",,,p4d.24xlarge,on_demand,9,USD,2026-10-01T12:00:00Z"],
        "0 12 21.957642, 12 24 9",
    ),
    "on-demand list prices do not price capacity blocks": case(LIST_ONLY, [], "| | 9", "price=9"),
    "capacity blocks and flex start have their own list prices": case(
        LIST_ONLY, [], "4 | 6 | 9", "price=9; price=4 option=capacity_block; price=6 option=calendar"
    ),
    "flex start prices override calendar prices": case(
        LIST_ONLY, [], "| 7 | 9", "price=9; price=6 option=calendar; price=7 option=flex_start"
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def priced() -> Priced:
    # in a zone of their own unless a case names one
    return segments_of(CASES, zone="us-east-1c")


@pytest.mark.parametrize("name", CASES)
def test_price_book_sets_node_prices(priced: Priced, name: str) -> None:
    check_steps(CASES[name], priced[name])


ORDERED = """
    ,,,,,1,USD,,,
    ,,,,on_demand,2,USD,,,
    aws,,,,,3,USD,,,
    ,us-east-1,,,,4,USD,,,
    ,,us-east-1a,,,5,USD,,,
    ,,,P4D.24xlarge,,6,USD,,,
    ,,,,,7,USD,,,pool=train
    ,,,,,8,USD,,,pool=train;team=a
"""


def test_more_specific_rows_win_in_order(con: duckdb.DuckDBPyConnection) -> None:
    lines = ORDERED.split()
    # each node has one more property of NODE than the previous node
    facts = [(name, NODE[name]) for name in ("capacity_type", *PLACE)]
    facts += [("labels", {"label_pool": "train"}), ("labels", NODE["labels"])]
    node = NODE | dict.fromkeys(PLACE, "x")
    nodes = [node | {"capacity_type": "capacity_block", "labels": {}}]
    for number, (name, value) in enumerate(facts, 2):
        nodes.append(nodes[-1] | {name: value, "node_id": number})
    assert steps(run(con, nodes, lines)) == [(0, 24, Decimal(price)) for price in range(1, len(lines) + 1)]


# provider, region, zone, type, capacity type and zone id of a node, and its list price
LISTED = """
# the region is read from the zone
aws | | us-east-1-atl-2a | p4d.24xlarge | on_demand | | 21.957642
gcp | | us-central1-a | A2-highgpu-1g | on_demand | | 3.673385
azure | | eastus-1 | standard_nc24ads_a100_v4 | on_demand | | 3.673
| | us-central1-f | g2-standard-4 | on_demand | | 0.706832255
# spot is by zone; without the zone's id the lower median of 2.4655, 7.8799, 8.1203, 8.1915; g5.xlarge: only a regional price
aws | us-east-1 | us-east-1a | p4d.24xlarge | spot | use1-az4 | 8.1203
aws | us-east-1 | us-east-1a | p4d.24xlarge | spot | | 7.8799
aws | us-east-1 | us-east-1a | g5.xlarge | spot | | 0.5291
# reserved capacity has the on-demand list price; other regions have no price
aws | us-east-1 | us-east-1a | p4d.24xlarge | reserved | | 21.957642
aws | mars-1 | us-east-1a | p4d.24xlarge | on_demand | |
"""


def test_list_prices_by_region_zone_and_capacity(con: duckdb.DuckDBPyConnection) -> None:
    rows = [row for row in text_rows(LISTED) if len(row) > 1]
    nodes = [
        NODE
        | {name: value or None for name, value in zip((*PLACE, "capacity_type"), row, strict=False)}
        | {"node_id": number, "labels": {"label_topology_k8s_aws_zone_id": row[5]}}
        for number, row in enumerate(rows)
    ]
    expected = [(number, 0, 24, Decimal(row[6]), "catalog") for number, row in enumerate(rows) if row[6]]
    assert [row[:5] for row in run(con, nodes, [])] == expected


def test_tied_selectors_are_an_error_that_names_both_lines(con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(PriceError, match=r"lines 2 and 3 both price node n1 at 2026-10-01T06:00:00Z"):
        run(con, [NODE], [line.replace(",T,", ",,") for line in TIE])


def test_unpriced_nodes_give_one_warning_with_the_missing_line(con: duckdb.DuckDBPyConnection) -> None:
    new = NODE | {"instance_type": "p9.48xlarge", "capacity_type": "unknown"}
    dgx = NODE | dict.fromkeys(PLACE)
    dgx |= {"node_id": 3, "labels": {"label_nvidia_com_gpu_product": "H100"}}
    run(con, [new, new | {"node_id": 2}, dgx], [])
    sql = (
        "SELECT message, fix FROM warnings WHERE code = 'unpriced_node' ORDER BY subject = 'p9.48xlarge' DESC"
    )
    [(message, fix), (_, second_fix)] = con.execute(sql).fetchall()
    nothing = "2 nodes of p9.48xlarge (unknown, us-east-1) cost nothing here, because no price fits: 384.0 GPU-hours"
    assert message == nothing
    assert fix.endswith("the line aws,us-east-1,,p9.48xlarge,on_demand,PRICE,USD,")
    assert ",,,,on_demand,PRICE,USD,,nvidia.com/gpu.product=H100" in second_fix
    run(con, [new], [fix.rsplit(" ", 1)[1].replace("PRICE", "7")])
    assert con.execute("SELECT count(*) FROM warnings").fetchall() == [(0,)]


def test_old_list_price_gives_a_warning(con: duckdb.DuckDBPyConnection) -> None:
    run(con, [NODE], [])
    assert con.execute("SELECT count(*) FROM warnings").fetchall() == [(0,)]
    later = to_ms(datetime(2026, 12, 20, tzinfo=UTC))
    run(con, [NODE | {"up_to_ms": later}, NODE | {"node_id": 2, "up_to_ms": later - 1}], [])
    text = "the list price of p4d.24xlarge (on_demand, us-east-1) is from 2026-09-19, 92 days before its last use"
    found = con.execute("SELECT code, subject, message FROM warnings").fetchall()
    assert found == [("stale_price", "p4d.24xlarge", text)]


def test_broken_book_changes_no_prices(con: duckdb.DuckDBPyConnection) -> None:
    before = run(con, [NODE], [])
    with pytest.raises(PriceError, match=r"prices\.csv:3: price_per_hour"):
        run(con, [NODE], [",,,,on_demand,5,USD", ",,,,spot,0,USD"])
    assert len(con.execute("SELECT * FROM node_prices").fetchall()) == len(before)
