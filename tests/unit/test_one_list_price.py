"""All commands use the same list price, although the store also has older, future and zonal prices."""

from __future__ import annotations

import json
import shutil
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

from gpucost import catalog, pipeline
from gpucost.catalog import load_catalog
from gpucost.cli.app import app
from gpucost.config.load import load_config
from gpucost.config.model import Config, Prices, StoreSettings
from gpucost.price import load_price_list
from gpucost.price.discounts import discounted
from gpucost.price.explain import explain_node
from gpucost.price.listing import ListedPrice
from gpucost.publish.rules import rule_prices
from gpucost.questions.whatif.prices import list_prices
from gpucost.store.connection import Store
from gpucost.whatif.rightsize import list_offers
from tests import own_catalog
from tests.replay.cases.words import MORNING, fleet, node, pod
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.text_tables import table, text_rows

P5, L4 = "p5.48xlarge", "g6.12xlarge"
FLEET = fleet(
    2,
    [
        node("h", P5, 0, 2, vcpus=192, memory_gib=2048),
        node("r", P5, 0, 2, "reserved", vcpus=192, memory_gib=2048),
        node("s", L4, 0, 2, "spot", vcpus=48, memory_gib=192),
    ],
    [pod("a", "h", list(range(8)), 0, 2), pod("b", "s", list(range(4)), 0, 2, cpu=2, memory_gib=8)],
    {},
)
TODAY = datetime.now(UTC).date()
SOON, LATER = TODAY + timedelta(days=30), TODAY + timedelta(days=40)
# zone, type, option, price, effective start and as-of date in the response of a cloud
COLLECTED = f"""
| {P5} | on_demand | 98 | | 2024-06-01
| {P5} | on_demand | 55 | 2026-01-01 | 2026-01-02
| {P5} | on_demand | 60 | {SOON} | 2026-02-01
| {P5} | on_demand | 11 | | {LATER}
us-west-2a | {P5} | on_demand | 57 | 2026-01-01 | 2026-01-02
us-west-2c | {P5} | on_demand | 7 | 2025-01-01 | 2026-01-02
us-west-2a | {L4} | spot | 3 | 2026-01-01 | 2026-01-02
us-west-2c | {L4} | spot | 2 | 2026-01-01 | 2026-01-02
us-west-2c | {L4} | spot | 1 | {SOON} | 2026-02-01
"""
LIST_PRICE = "INSERT INTO list_prices VALUES ('aws', $1, $2, $3, $4, 0, '', '', $5, $6, nullif($7, '')::DATE, $8, 'test')"
HEADER = "provider,region,zone,instance_type,purchase_option,term_years,payment_option,price_per_hour,currency,price_as_of"
SHIPPED = f"""{HEADER},source_id
aws,us-west-2,,{P5},on_demand,,,70,USD,2024-01-01,test
aws,us-west-2,,{L4},on_demand,,,5,USD,2024-01-01,test
"""


@pytest.fixture(scope="module")
def work(module_path: Path) -> Any:
    pricing = own_catalog.write(module_path / "pricing")
    (pricing / "prices.csv").write_text(SHIPPED)
    book = module_path / "prices.csv"
    book.write_text("price_per_hour,currency,instance_type\n1,USD,no-such-type\n")
    with pytest.MonkeyPatch.context() as patch:
        own_catalog.use(pricing, patch)
        patch.chdir(module_path)
        patch.setenv("HOME", str(module_path))
        store = load(FLEET, scrape(FLEET), write_config(FLEET, module_path, book), 2)
        with store.write() as con:
            for zone, kind, option, price, start, as_of in text_rows(COLLECTED):
                con.execute(LIST_PRICE, ["us-west-2", zone, kind, option, price, "USD", start, as_of])
            con.execute(
                "INSERT INTO spot_prices VALUES ('aws', 'us-west-2', 'us-west-2b', ?, 'Linux/UNIX', '', ?, NULL, 20, 'USD', 'h')",
                [P5, MORNING * 1000],
            )
        yield module_path


def configured(folder: Path) -> tuple[Config, Store]:
    config = load_config(folder / "gpucost.toml", environ={}, cwd=folder)
    return config, Store(config.store)


def priced(work: Path, name: str) -> float:
    config, store = configured(work)
    pipeline.attribute(config, store)
    with store.read() as con:
        [(price, source)] = con.execute(
            "SELECT price_per_hour, price_source FROM node_prices JOIN nodes USING (node_id) WHERE node = ?",
            [name],
        ).fetchall()
    assert source == "catalog"
    return float(price)


def explained(work: Path) -> float:
    config, store = configured(work)
    row = pipeline.read_attributed(
        config, store, lambda con: explain_node(con, config, "h", datetime.fromtimestamp(MORNING, UTC), None)
    )
    return float(row.price_per_hour or 0)


def by_basis(work: Path) -> float:
    """The list price from which the split started: the costs of the GPUs and of the host's cores and memory."""
    shutil.copyfile(work / "gpucost.duckdb", work / "split.duckdb")
    text = (work / "gpucost.toml").read_text()
    (work / "split.toml").write_text(
        text.replace('"node"', '"sku"').replace("gpucost.duckdb", "split.duckdb")
    )
    split = load_config(work / "split.toml", environ={}, cwd=work)
    pipeline.attribute(split, Store(split.store))
    with Store(split.store).read() as con:
        [(gpu,)] = con.execute(
            "SELECT sum(cost) / 2 FROM cost_hourly JOIN allocations USING (allocation_id) WHERE pod = 'a'"
        ).fetchall()
    return round(float(gpu) + 192 * 0.031611 + 2048 * 0.004237, 4)


def offered(work: Path, kind: str, option: str) -> float:
    config, _ = configured(work)
    [price] = [
        o.prices[0].per_node_hour
        for o in list_offers(list_prices(config, None))
        if (o.instance_type, o.capacity_type) == (kind, option)
    ]
    return float(price)


@cache
def rules(work: Path) -> dict[tuple[str, str], float]:
    """Prices in rules by type and capacity type, from a copy of the store that has only list prices."""
    config, store = configured(work)
    with store.read() as con:
        rows = con.execute("FROM list_prices").fetchall()
    bare = Store(work / "bare.duckdb")
    with bare.write() as con:
        con.executemany("INSERT INTO list_prices VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    prices = rule_prices(
        config.model_copy(update={"store_settings": StoreSettings(path=bare.path)}), bare
    ).prices
    return {(p.instance_type, p.capacity_type): float(p.per_hour) for p in prices}


PERIOD = "--from 2026-03-10T00:00Z --to 2026-03-10T02:00Z"
TO_P5 = f"--instance-type {P5} --region us-west-2"
OWN = "--purchase-price 280000 --gpu-model H100 --years 4 --price-per-kwh 0.12"
# a command, the path of a price in its answer, and the price: on-demand 55, which is in effect; for spot, without a price of
# the region or zone, the lower median of the zones
ANSWERS = f"""
prices {P5} --region us-west-2 --purchase-option on_demand | rows 1 price_per_hour | 55.0
prices {L4} --region us-west-2 --purchase-option spot | rows 0 price_per_hour | 2.0
prices history {P5} {PERIOD} | on_demand_price_per_hour | 55.0
whatif spot {TO_P5} --spot-price 9 --hours 9 | assumptions 0 value | 55.0
whatif spot --instance-type {L4} --region us-west-2 --hours 9 | assumptions 1 value | 2.0
whatif reserve --nodes 4 {TO_P5} --commitment-discount 1=30 | assumptions 3 value | 55.0
whatif buy {OWN} --nodes 8 {TO_P5} | assumptions 6 value | 55.0
"""


@pytest.mark.usefixtures("work")
@pytest.mark.parametrize(("words", "path", "price"), text_rows(ANSWERS))
def test_all_commands_use_the_same_price(words: str, path: str, price: str) -> None:
    result = CliRunner().invoke(app, [*words.split(), "--format", "json", "-q"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    for key in path.split():
        found = found[int(key)] if key.isdigit() else found[key]
    assert str(found) == price


def test_stages_and_rules_use_the_same_price(work: Path) -> None:
    assert {
        priced(work, "h"),
        priced(work, "r"),
        explained(work),
        by_basis(work),
        offered(work, P5, "on_demand"),
    } == {55}
    assert priced(work, "s") == offered(work, L4, "spot") == 2
    prices = rules(work)
    assert (prices[P5, "on_demand"], prices[P5, "reserved"], prices[L4, "spot"]) == (55, 55, 2)


ALWAYS, FOREVER = -4611686018427387904, 4611686018427387904
JUNE = 1780272000000
# zone, price, currency, effective start and as-of date of list prices, and the steps of a zone ("*": the region's median):
# only a price in effect on its as-of date applies to earlier times, and a median has one currency
STEPS = f"""
r-a 9 USD 2025-06-01 2026-01-01 | r-a 9 USD {ALWAYS} {FOREVER}
r-a 8 USD 2026-06-01 2026-01-01 | r-a 8 USD {JUNE} {FOREVER}
a 10 USD - 2026-01-01; b 9 EUR - 2026-01-01; c 12 USD - 2026-01-01 | * 10 USD {ALWAYS} {FOREVER}
a 10 USD - 2026-01-01; b 9 EUR - 2026-01-01 |
a 10 EUR - 2026-01-01; b 9 EUR - 2026-01-01 | * 9 EUR {ALWAYS} {FOREVER}
"""


@pytest.mark.parametrize(("facts", "expected"), text_rows(STEPS))
def test_steps_of_list_prices(con: duckdb.DuckDBPyConnection, facts: str, expected: str) -> None:
    for fact in facts.split(";"):
        zone, price, currency, start, as_of = fact.split()
        con.execute(LIST_PRICE, ["r", zone, "x.large", "on_demand", price, currency, start.strip("-"), as_of])
    catalog.load_catalog(con)
    load_price_list(con, ["x.large"])
    steps = con.execute(
        "SELECT zone, price_per_hour::INTEGER, currency, from_ms, to_ms FROM price_list WHERE zone = $1",
        [expected.split(" ")[0] or "*"],
    ).fetchall()
    assert [" ".join(map(str, step)) for step in steps] == ([expected] if expected else [])


# a discount, its price sources, and the discounted price of a spot A100 node at 10 an hour, from catalog and spot history
OFF_LISTED = """
    percent | price_sources           | purchase_option | catalog | spot_history
    20      | catalog                 |                 |       8 |           10
    20      | spot_history            |                 |      10 |            8
    20      | catalog spot_history    | spot            |       8 |            8
    20      | catalog spot_history    | on_demand       |      10 |           10
"""


@pytest.mark.parametrize("case", table(OFF_LISTED), ids=lambda case: " ".join(case.values()))
def test_discounts_reduce_listed_prices_of_their_source(
    con: duckdb.DuckDBPyConnection, case: dict[str, str]
) -> None:
    load_catalog(con)
    rule = {"percent": case["percent"], "price_sources": case["price_sources"].split()}
    # without nodes, an unknown GPU model is not an error
    rules = [rule | {"purchase_option": case.get("purchase_option")}, {"percent": 50, "gpu_model": "our own"}]
    config = Config(prices=Prices.model_validate({"discounts": rules}))
    known = {"provider": "aws", "instance_type": "P4d.24xlarge", "purchase_option": "spot", "source": "aws"}
    price = {"price_per_hour": Decimal(10), "price_per_gpu_hour": Decimal("1.25"), "currency": "USD"}
    rows = [
        ListedPrice(
            **dict.fromkeys(field.name for field in fields(ListedPrice)) | known | price | {"origin": name}
        )
        for name in ("catalog", "spot_history")
    ]
    left = discounted(con, config, rows, datetime.now(UTC))
    assert {row.origin: row.price_per_hour for row in left} == {
        name: Decimal(case[name]) for name in ("catalog", "spot_history")
    }
    assert left[0].price_per_hour <= left[1].price_per_hour  # sorted by price
    assert all(row.price_per_gpu_hour == row.price_per_hour / 8 for row in left)
    assert ["less 20 %" in row.source for row in left] == [row.price_per_hour == 8 for row in left]
