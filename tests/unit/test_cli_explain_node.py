"""`gpucost explain node`: matching prices, the reason for the winner, and errors for unknown nodes."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from gpucost.store.connection import Store
from tests.text_tables import cells, text_rows
from tests.unit.command import call
from tests.unit.price_nodes import HEADER, NODE, START

BOOK = [
    ",,,p4d.24xlarge,on_demand,20,EUR,,,",
    ",us-east-1,,p4d.24xlarge,on_demand,16,EUR,,,",
    ",,,p4d.24xlarge,spot,5,EUR,2026-10-02,,",
]
CONFIG = """
prometheus = []
[prices]
book = "prices.csv"
fx = { EUR = 1.25 }
[[prices.discounts]]
percent = 30
instance_family = "p4d"
[[prices.discounts]]
percent = 10
gpu_model = "H200"
"""


@pytest.fixture(scope="module")
def filled(module_path: Path) -> Path:
    """A store with handmade nodes, because inventory would not find any."""
    (module_path / "gpucost.toml").write_text(CONFIG)
    (module_path / "prices.csv").write_text("\n".join([HEADER, *BOOK]))
    spot = NODE | {"node_id": 2, "node": "s1", "capacity_type": "spot"}
    dgx = NODE | {"node_id": 4, "node": "dgx", "instance_type": None}
    again = NODE | {"node_id": 3, "cluster": "dev"}
    with Store(module_path / "gpucost.duckdb").write() as con:
        for node in (NODE, spot, again, dgx):
            con.execute(
                f"INSERT INTO nodes ({', '.join(NODE)}) VALUES ({', '.join('$' + name for name in NODE)})",  # noqa: S608
                node,
            )
        con.execute(
            "INSERT INTO spot_prices VALUES ('aws', 'us-east-1', 'us-east-1a', 'p4d.24xlarge', 'Linux/UNIX', '', $1, NULL, 7, "
            "'USD', 's')",
            [START],
        )
        con.execute(
            "INSERT INTO warnings VALUES ('unpriced_node', NULL, 'A100-SXM4-40GB', $1, $2, 'm', 'do this')",
            [START, START * 2],
        )
    return module_path


@pytest.fixture
def folder(filled: Path, in_an_empty_folder: Path) -> Path:
    return Path(copytree(filled, in_an_empty_folder, dirs_exist_ok=True))


explain = partial(call, "explain", "node")
N1 = ("n1", "--cluster", "prod")


def answered(*options: str) -> Any:
    return json.loads(explain(*options, "--format", "json")[0])


def test_steps_from_the_winner_to_the_price(folder: Path) -> None:
    answer = answered(*N1)
    names = "at price_source price_per_hour price_per_gpu_hour currency"
    assert cells([answer], names) == text_rows("2026-10-01T23:59:59.999Z | price_book | 14.0 | 1.75 | USD")
    assert cells(answer["candidates"], "price_per_hour currency wins") == text_rows("""
        16.0 | EUR | True
        20.0 | EUR | False
        21.957642 | USD | False""")
    assert cells(answer["steps"], "step factor price_per_hour") == text_rows("""
        price | 1.0 | 16.0
        rate | 1.25 | 20.0
        discount | 0.7 | 14.0""")


TABLE = """
is p4d.24xlarge
on-demand, 8 × A100-SXM4-40GB
price book line 3
wins: more specific, names a region
less specific: the winner names a region
the price book comes first
x 1.25  1 EUR in USD on 2026-10-01: 20
x 0.7  30 % off, [[prices.discounts]] 1: instance_family = p4d: 14"""


def test_table_gives_the_reason_of_the_winner(folder: Path) -> None:
    text = explain(*N1)[0]
    assert [line for line in TABLE.strip().splitlines() if line not in text] == []
    assert text.endswith("14 USD per node-hour, 1.75 per GPU-hour\n")


def test_preferred_purchase_option_is_named(folder: Path) -> None:
    book = [",,,p4d.24xlarge,reserved,10,EUR,,,", ",,,p4d.24xlarge,on_demand,20,EUR,,,"]
    (folder / "prices.csv").write_text("\n".join([HEADER, *book]))
    with Store(folder / "gpucost.duckdb").write() as con:
        con.execute(
            "UPDATE nodes SET capacity_type = CASE node WHEN 'n1' THEN 'reserved' ELSE 'flex_start' END"
        )
        con.execute(
            "INSERT INTO list_prices SELECT 'aws', 'us-east-1', '', 'p4d.24xlarge', option, 0, '', '', price, 'USD', NULL, "
            "DATE '2026-01-01', 'asked' FROM (VALUES ('calendar', 8), ('flex_start', 6)) AS t(option, price)"
        )
    reserved, flex = answered(*N1)["candidates"], answered("s1")["candidates"]
    for one in reserved:
        one["origin"] = one["origin"].split(":")[0]
    assert cells(reserved, "origin why") == text_rows("""
        price book line 2 | wins: its purchase option comes first for such nodes
        price book line 3 | the winner's purchase option comes first for such nodes
        catalog of gpucost | the price book comes first""")
    assert cells(flex, "price_per_hour why") == text_rows("""
        6.0 | wins: its purchase option comes first for such nodes
        8.0 | the winner's purchase option comes first for such nodes""")


def test_each_moment_has_its_own_winner_or_none(folder: Path) -> None:
    answer = answered("s1", "--at", "2026-10-01T12:00Z")
    assert cells([answer], "price_source price_per_hour") == [("spot_history", "4.9")]
    assert cells(answer["candidates"][:1], "origin why") == text_rows(
        "us-east-1a spot history | wins: spot price history comes before list prices"
    )
    text = explain("dgx")[0]
    assert "no price matches at that time" in text and "fix: do this" in text
    assert answered("dgx")["price_per_hour"] is None


REFUSED = """
n1 | 2 | node n1 is in 2 clusters: dev, prod
n1 --cluster x | 2 | it is in dev, prod
n2 | 2 | did you mean n1
s1 --at 2026-10-03 | 1 | was not up at 2026-10-03T00:00:00Z
s1 --at noon | 2 | --at 'noon' is not a date or time"""


@pytest.mark.parametrize(("options", "code", "message"), text_rows(REFUSED))
def test_unknown_nodes_and_times_are_refused(folder: Path, options: str, code: str, message: str) -> None:
    assert message in explain(*options.split(), code=int(code))[1]
