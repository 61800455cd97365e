"""Every command that needs a list price has the same one, though older ones, next month's and those of zones are in the store."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost import catalog, pipeline
from gpucost.cli.app import app
from gpucost.config.load import load_config
from gpucost.config.model import Config, StoreSettings
from gpucost.price import load_offers, load_price_list
from gpucost.price.explain import explain_node
from gpucost.publish.rules import rule_prices
from gpucost.store.connection import Store
from gpucost.whatif.rightsize import list_offers
from tests import own_catalog
from tests.replay.cases.words import MORNING, fleet, node, pod
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.unit.price_nodes import NODE, empty_store, run

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
PERIOD = ("--from", "2026-03-10T00:00Z", "--to", "2026-03-10T02:00Z")
TODAY = datetime.now(UTC).date()
SOON, LATER = TODAY + timedelta(days=30), TODAY + timedelta(days=40)
# zone, type, option, price, effective start, as of: what a cloud answered
ASKED = (
    ("", P5, "on_demand", 98, None, "2024-06-01"),
    ("", P5, "on_demand", 55, "2026-01-01", "2026-01-02"),
    ("", P5, "on_demand", 60, SOON, "2026-02-01"),
    ("", P5, "on_demand", 11, None, LATER),
    ("us-west-2a", P5, "on_demand", 57, "2026-01-01", "2026-01-02"),
    ("us-west-2c", P5, "on_demand", 7, "2025-01-01", "2026-01-02"),
    ("us-west-2a", L4, "spot", 3, "2026-01-01", "2026-01-02"),
    ("us-west-2c", L4, "spot", 2, "2026-01-01", "2026-01-02"),
    ("us-west-2c", L4, "spot", 1, SOON, "2026-02-01"),
)
SHIPPED = (
    ("aws", "us-west-2", "", P5, "on_demand", "70", "2024-01-01"),
    ("aws", "us-west-2", "", L4, "on_demand", "5", "2024-01-01"),
)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("one-price")
    pricing = own_catalog.write(folder / "pricing")
    with (pricing / "prices.csv").open(encoding="utf-8", newline="") as file:
        header = next(csv.reader(file))
    names = (
        "provider",
        "region",
        "zone",
        "instance_type",
        "purchase_option",
        "price_per_hour",
        "price_as_of",
    )
    with (pricing / "prices.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, header, restval="", lineterminator="\n")
        writer.writeheader()
        for row in SHIPPED:
            writer.writerow({**dict(zip(names, row, strict=True)), "currency": "USD", "source_id": "test"})
    book = folder / "prices.csv"
    book.write_text("price_per_hour,currency,instance_type\n1,USD,no-such-type\n")
    with pytest.MonkeyPatch.context() as patch:
        own_catalog.use(pricing, patch)
        patch.chdir(folder)
        patch.setenv("HOME", str(folder))
        store = load(FLEET, scrape(FLEET), write_config(FLEET, folder, book), 2)
        with store.write() as con:
            for zone, kind, option, price, start, as_of in ASKED:
                con.execute(
                    "INSERT INTO list_prices VALUES ('aws', 'us-west-2', ?, ?, ?, 0, '', '', ?, 'USD', ?, ?, 'asked')",
                    [zone, kind, option, price, start, as_of],
                )
            con.execute(
                "INSERT INTO spot_prices VALUES ('aws', 'us-west-2', 'us-west-2b', ?, 'Linux/UNIX', '', ?, NULL, 20, 'USD', 'h')",
                [P5, MORNING * 1000],
            )
        yield folder


def configured(folder: Path) -> tuple[Config, Store]:
    config = load_config(folder / "gpucost.toml", environ={}, cwd=folder)
    return config, Store(config.store)


def answer(*words: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*words, "--format", "json", "-q"])
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def listed(kind: str, option: str, zone: str | None = None) -> float:
    rows = answer("prices", kind, "--region", "us-west-2", "--purchase-option", option)["rows"]
    return next(float(row["price_per_hour"]) for row in rows if row["zone"] == zone)


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
    """What the host's cores and memory leave to GPUs tells the list price that the split began from."""
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
    config, store = configured(work)
    with store.read() as con:
        load_offers(con, config)
        [price] = [
            o.price_per_gpu_hour * o.gpus
            for o in list_offers(con)
            if (o.instance_type, o.purchase_option) == (kind, option)
        ]
    return float(price)


@cache
def rules(work: Path) -> dict[tuple[str, str], float]:
    """By type and capacity type, of a store without nodes: a copy that has list prices alone."""
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


TO_P5 = ("--instance-type", P5, "--region", "us-west-2")
OWN = ("--purchase-price", "280000", "--gpu-model", "H100", "--years", "4", "--price-per-kwh", "0.12")


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda _: listed(P5, "on_demand"), id="prices"),
        pytest.param(
            lambda _: answer("prices", "history", P5, *PERIOD)["on_demand_price_per_hour"],
            id="prices history",
        ),
        pytest.param(lambda work: priced(work, "h"), id="price stage"),
        pytest.param(lambda work: priced(work, "r"), id="price stage, reserved"),
        pytest.param(explained, id="explain node"),
        pytest.param(by_basis, id="cost basis"),
        pytest.param(
            lambda _: answer("whatif", "spot", *TO_P5, "--spot-price", "9", "--hours", "9")[
                "on_demand_price"
            ],
            id="spot",
        ),
        pytest.param(
            lambda _: answer("whatif", "reserve", "--nodes", "4", *TO_P5, "--commitment-discount", "1=30")[
                "best"
            ][0]["on_demand_price_per_node_hour"],
            id="reserve",
        ),
        pytest.param(
            lambda _: answer("whatif", "buy", *OWN, "--nodes", "8", *TO_P5)["cloud_price"], id="buy"
        ),
        pytest.param(lambda work: offered(work, P5, "on_demand"), id="rightsize"),
        pytest.param(lambda work: rules(work)[P5, "on_demand"], id="recording rules"),
        pytest.param(lambda work: rules(work)[P5, "reserved"], id="recording rules, reserved"),
    ],
)
def test_all_have_the_price_on_demand_that_has_begun(work: Path, ask: Callable[[Path], float]) -> None:
    assert ask(work) == 55


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda work: priced(work, "s"), id="price stage"),
        pytest.param(lambda _: listed(L4, "spot", "us-west-2c"), id="prices"),
        pytest.param(
            lambda _: answer(
                "whatif", "spot", "--instance-type", L4, "--region", "us-west-2", "--hours", "9"
            )["spot_price"],
            id="spot",
        ),
        pytest.param(lambda work: offered(work, L4, "spot"), id="rightsize"),
        pytest.param(lambda work: rules(work)[L4, "spot"], id="recording rules"),
    ],
)
def test_without_a_price_of_the_region_or_zone_all_have_the_lower_median_of_its_zones(
    work: Path, ask: Callable[[Path], float]
) -> None:
    assert ask(work) == 2


def test_what_has_not_begun_is_upcoming_and_what_was_replaced_superseded(work: Path) -> None:
    rows = answer("prices", P5, "--region", "us-west-2", "--purchase-option", "on_demand")["superseded"]
    assert sorted((row["status"], row["price_per_hour"]) for row in rows) == [
        ("superseded", 70), ("superseded", 98), ("upcoming", 11), ("upcoming", 60)
    ]  # fmt: skip


def steps(*facts: tuple[str, str, str, str, str, str, str | None, str]) -> list[tuple[Any, ...]]:
    """price_list of facts: region, zone, type, option, price, currency, effective start, as of."""
    with empty_store() as con:
        for region, zone, kind, option, price, currency, start, as_of in facts:
            con.execute(
                "INSERT INTO list_prices VALUES ('aws', ?, ?, ?, ?, 0, '', '', ?, ?, ?, ?, 'asked')",
                [region, zone, kind, option, price, currency, start, as_of],
            )
        catalog.load_catalog(con)
        load_price_list(con, [kind for _, _, kind, *_ in facts])
        return con.execute(
            "SELECT region, zone, price_per_hour::INTEGER, currency, from_ms, to_ms FROM price_list ORDER BY ALL"
        ).fetchall()


ALWAYS, FOREVER = -4611686018427387904, 4611686018427387904
JANUARY, JUNE = 1767225600000, 1780272000000


def test_only_a_price_that_had_begun_when_it_was_asked_for_reaches_back() -> None:
    begun = ("r", "r-a", "x.large", "on_demand", "9", "USD", "2025-06-01", "2026-01-01")
    ahead = ("r", "r-a", "x.large", "on_demand", "8", "USD", "2026-06-01", "2026-01-01")
    assert [row[2:] for row in steps(begun) if row[1] == "r-a"] == [(9, "USD", ALWAYS, FOREVER)]
    assert [row[2:] for row in steps(ahead) if row[1] == "r-a"] == [(8, "USD", JUNE, FOREVER)]


def test_next_months_price_of_a_zone_is_not_charged_today() -> None:
    now = ("us-east-1", "", 33, None, "2026-01-01")
    soon = ("us-east-1", "us-east-1a", 99, "2027-01-01", "2026-09-30")
    with empty_store() as con:
        for region, zone, price, start, as_of in (now, soon):
            con.execute(
                "INSERT INTO list_prices VALUES ('aws', ?, ?, 'p4d.24xlarge', 'on_demand', 0, '', '', ?, 'USD', ?, ?, 'asked')",
                [region, zone, price, start, as_of],
            )
        assert [segment[3] for segment in run(con, [NODE], [])] == [33]


@pytest.mark.parametrize(
    ("zones", "median"),
    [
        ((("a", "10", "USD"), ("b", "9", "EUR"), ("c", "12", "USD")), [(10, "USD")]),
        ((("a", "10", "USD"), ("b", "9", "EUR")), []),
        ((("a", "10", "EUR"), ("b", "9", "EUR")), [(9, "EUR")]),
    ],
)
def test_the_median_of_zones_is_of_one_currency(
    zones: tuple[tuple[str, str, str], ...], median: list[tuple[int, str]]
) -> None:
    facts = [
        ("r", zone, "x.large", "on_demand", price, currency, None, "2026-01-01")
        for zone, price, currency in zones
    ]
    assert [(price, currency) for _, zone, price, currency, *_ in steps(*facts) if zone == "*"] == median
