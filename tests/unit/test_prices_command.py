"""`gpucost prices` as a user calls it, over a small catalog and a store; and every spelling of a GPU that the catalog knows."""

from __future__ import annotations

import csv
import json
import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.price.listing import gpu_models_called, nearest, spelled
from gpucost.questions import prices as command
from gpucost.resources import pricing_dir
from gpucost.store.connection import Store
from tests import own_catalog

TODAY = date(2026, 11, 21)


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = own_catalog.write(tmp_path / "pricing")
    own_catalog.use(directory, monkeypatch)
    monkeypatch.setattr(command, "today_in", lambda _: TODAY)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*words: str, code: int = 0) -> tuple[str, str]:
    result = CliRunner().invoke(app, ["prices", *words])
    assert result.exit_code == code, result.output
    return result.stdout, result.stderr


def asked(*words: str) -> dict[str, Any]:
    document = json.loads(call(*words, "--format", "json", "-q")[0])
    assert document["schema"] == "gpucost.prices/1"
    return dict(document)


def fill(work: Path, *list_prices: tuple[Any, ...], spot: tuple[tuple[Any, ...], ...] = ()) -> None:
    with Store(work / "gpucost.duckdb").write() as con:
        for row in list_prices:
            con.execute("INSERT INTO list_prices VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", list(row))
        for row in spot:
            con.execute("INSERT INTO spot_prices VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", list(row))


def on_demand(price: str, as_of: str, *, starts: str | None = None, currency: str = "USD") -> tuple[Any, ...]:
    return (
        "aws",
        "us-east-1",
        "",
        "p5.48xlarge",
        "on_demand",
        0,
        "",
        "",
        price,
        currency,
        starts,
        as_of,
        "asked",
    )


def at(moment: str) -> int:
    return int(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp() * 1000)


def spot(
    zone: str, moment: str, price: str, product: str = "Linux/UNIX", instance: str = ""
) -> tuple[Any, ...]:
    return (
        "aws",
        "us-east-1",
        zone,
        "p5.48xlarge",
        product,
        instance,
        at(moment),
        None,
        price,
        "USD",
        "history",
    )


def test_an_instance_type_lists_the_cheapest_region_of_each_price() -> None:
    document = asked("p5.48xlarge")
    rows = [
        (
            row["purchase_option"],
            row["region"],
            row["zone"],
            row["price_per_hour"],
            row["currency"],
            row["more_regions"],
        )
        for row in document["rows"]
    ]
    assert rows == [
        ("spot", "us-east-1", "use1-az2", 13.76, "USD", 1),
        ("on_demand", "us-east-1", None, 55.04, "USD", 1),
        ("on_demand", "cn-north-1", None, 400, "CNY", 0),
    ]
    first = document["rows"][0]
    assert (first["price_per_gpu_hour"], first["gpu_count"], first["spot_discount_percent"]) == (
        1.72,
        8,
        75.0,
    )
    assert (first["is_stale"], document["rows"][1]["is_stale"]) == (True, False)
    assert document["gpu_models"] == ["H100-80GB-HBM3"]


SLOW = ("p5.48xlarge", "Standard_ND96isr_H100_v5", "a3-highgpu-8g")


@pytest.mark.parametrize(
    "name", ["P5.48XLARGE", "nd96isr_h100_v5", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_an_instance_type_of_each_cloud_is_known_in_any_case(name: str) -> None:
    types = {row["instance_type"].lower() for row in asked(name)["rows"]}
    assert types <= {name.lower(), f"standard_{name.lower()}"} and types


def test_a_gpu_is_every_model_of_that_name_and_sorted_by_gpu_hour() -> None:
    rows = asked("h100", "--all-regions")["rows"]
    assert {row["gpu_model"] for row in rows} == {"H100-80GB-HBM3", "H100-PCIe"}
    dollars = [row["price_per_gpu_hour"] for row in rows if row["currency"] == "USD"]
    assert dollars == sorted(dollars) and len(dollars) == 9
    assert [row["currency"] for row in rows][-1] == "CNY"
    assert {row["provider"] for row in rows} == {"aws", "azure", "gcp", "lambda"}
    assert asked("NVIDIA H100 80GB HBM3")["gpu_models"] == ["H100-80GB-HBM3"]


def test_a_part_of_a_gpu_costs_its_part() -> None:
    (row,) = asked("g6f.large")["rows"]
    assert (row["gpu_count"], row["price_per_gpu_hour"]) == (0.125, 1.616)


def test_spot_as_dear_as_on_demand_is_no_discount() -> None:
    words = ("p5.48xlarge", "--region", "us-east-1", "--purchase-option", "spot")
    assert [row["spot_discount_percent"] for row in asked(*words)["rows"]] == [75.0, 0.0]
    assert "there is no discount there" in call(*words)[0]


def test_without_a_name_every_gpu_model_has_one_row() -> None:
    rows = asked()["rows"]
    assert [(row["gpu_model"], row["on_demand"]["price_per_gpu_hour"]) for row in rows] == [
        ("L4", 1.616),
        ("H100-80GB-HBM3", 6.88),
        ("H100-PCIe", 3.29),
    ]
    models = {row["gpu_model"]: row for row in rows}
    assert models["H100-80GB-HBM3"]["spot"]["price_per_hour"] == 13.76
    assert models["L4"]["spot"] is None
    assert [row["gpu_model"] for row in asked("--purchase-option", "cud")["rows"]] == ["H100-80GB-HBM3"]


def test_the_newest_fact_wins_and_both_stay_visible(work: Path) -> None:
    fill(
        work,
        on_demand("50", "2026-11-10"),
        on_demand("52", "2026-10-01"),
        on_demand("45", "2026-11-20", starts="2026-12-01"),
    )
    document = asked("p5.48xlarge", "--region", "us-east-1", "--purchase-option", "on_demand")
    assert [(row["price_per_hour"], row["origin"], row["source"]) for row in document["rows"]] == [
        (50, "store", "asked")
    ]
    lost = [(row["price_per_hour"], row["origin"], row["status"]) for row in document["superseded"]]
    assert lost == [(45, "store", "upcoming"), (52, "store", "superseded"), (55.04, "catalog", "superseded")]
    shown = call("p5.48xlarge", "--region", "us-east-1", "--superseded", "-q")[0]
    assert "superseded" in shown and re.search("upcoming +asked", shown)
    assert "upcoming" not in call("p5.48xlarge", "--region", "us-east-1", "-q")[0]


def test_the_only_price_of_a_place_is_upcoming_until_it_begins(work: Path) -> None:
    fill(work, ("aws", "us-east-1", "us-east-1a", *on_demand("1", "2026-11-20", starts="2027-01-01")[3:]))
    document = asked("p5.48xlarge", "--region", "us-east-1", "--purchase-option", "on_demand")
    assert [row["price_per_hour"] for row in document["rows"]] == [55.04]
    assert [(row["price_per_hour"], row["status"]) for row in document["superseded"]] == [(1, "upcoming")]


@pytest.mark.parametrize(
    ("offerings", "current"),
    [
        (["standard", "convertible"], [(30, "standard"), (31, "convertible")]),
        (["convertible"], [(20, "standard"), (30, "convertible")]),
    ],
)
def test_a_reservation_that_was_collected_takes_the_place_of_the_catalogs(
    work: Path, offerings: list[str], current: list[tuple[int, str]]
) -> None:
    with (work / "pricing/prices.csv").open("a") as file:
        file.write("aws,us-east-1,,p5.48xlarge,reserved,1,no_upfront,20,USD,2026-01-21,test\n")
    kind = ("aws", "us-east-1", "", "p5.48xlarge", "reserved", 1, "no_upfront")
    fill(
        work,
        *((*kind, name, 30 + at, "USD", None, "2026-11-20", "asked") for at, name in enumerate(offerings)),
    )
    rows = asked("p5.48xlarge", "--region", "us-east-1", "--purchase-option", "reserved")["rows"]
    assert [(row["price_per_hour"], row["offering"]) for row in rows] == current
    if len(offerings) == 1:
        return
    words = (
        "--nodes",
        "4",
        "--instance-type",
        "p5.48xlarge",
        "--region",
        "us-east-1",
        "--format",
        "json",
        "-q",
    )
    answer = CliRunner().invoke(app, ["whatif", "reserve", *words])
    assert answer.exit_code == 0, answer.output
    [best] = json.loads(answer.stdout)["best"]
    assert (best["committed_price_per_node_hour"], best["offering"]) == min(current)


def test_an_older_fact_of_the_store_does_not_win(work: Path) -> None:
    fill(work, on_demand("98.32", "2025-01-01"))
    assert asked("p5.48xlarge", "--region", "us-east-1")["rows"][-1]["price_per_hour"] == 55.04


def test_the_newest_price_of_the_spot_history_replaces_the_catalogs_of_its_region(work: Path) -> None:
    fill(
        work,
        spot=(
            spot("us-east-1a", "2026-11-01", "9"),
            spot("us-east-1a", "2026-11-20", "20"),
            spot("us-east-1a", "2026-11-20", "1", product="Windows"),
            spot("us-east-1a", "2026-11-20", "2", instance="i-1"),
            spot("us-east-1b", "2026-11-19", "30", product="Linux/UNIX (Amazon VPC)"),
        ),
    )
    document = asked("p5.48xlarge", "--all-regions", "--purchase-option", "spot")
    assert [(row["zone"], row["price_per_hour"], row["origin"]) for row in document["rows"]] == [
        ("usw2-az1", 15, "catalog"),
        ("us-east-1a", 20, "spot_history"),
        ("us-east-1b", 30, "spot_history"),
    ]
    assert {row["zone"] for row in document["superseded"]} == {"use1-az1", "use1-az2"}


def test_other_currencies_are_converted_only_by_a_rate(work: Path) -> None:
    shown, _ = call("p5.48xlarge")
    assert "CNY stand last, unconverted" in shown and "CNY 400.0000" in shown
    (work / "gpucost.toml").write_text("[prices]\nfx = { CNY = 0.125 }\n")
    row = asked("p5.48xlarge", "--region", "cn-*")["rows"][0]
    assert (row["price_per_hour"], row["currency"], row["listed_price_per_hour"], row["listed_currency"]) == (
        50,
        "USD",
        400,
        "CNY",
    )
    assert asked("p5.48xlarge", "--purchase-option", "on_demand")["rows"][0]["region"] == "cn-north-1"


@pytest.mark.parametrize("columns", ["", pytest.param("80", marks=pytest.mark.slow)])
def test_a_cheap_price_of_long_ago_says_its_age(
    work: Path, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    old = (
        "aws",
        "ap-south-1",
        "",
        "p5.48xlarge",
        "on_demand",
        0,
        "",
        "",
        "3",
        "USD",
        None,
        "2021-03-01",
        "asked",
    )
    fill(work, old)
    monkeypatch.setenv("COLUMNS", columns)
    for words in (["H100", "--purchase-option", "on_demand"], []):
        shown, _ = call(*words)
        assert re.search(r"(?s)\$0\.3750.*?\(2,091d\)", shown)
        assert "prices are over 90 days old" in shown
    assert "d)" not in call("a3-highgpu-8g")[0]


def test_what_means_nothing_offers_the_nearest() -> None:
    assert "did you mean H100" in call("H101", code=1)[1]
    assert "did you mean p5.48xlarge" in call("p5.49xlarge", code=1)[1]
    assert "there is aws, azure, gcp, lambda" in call("H100", "--provider", "amazon", code=1)[1]
    assert "region mars" in call("H100", "--provider", "aws", "--region", "mars", code=1)[1]
    assert "no list price of A30 is known" in call("A30", code=1)[1]
    assert "needs a GPU" in call("--all-regions", code=2)[1]
    call("H100", "--purchase-option", "gift", code=2)


def test_the_group_is_a_command_too() -> None:
    out, _ = call("--help")
    assert out.startswith("Usage: ") and "--all-regions" in out and "history" in out and "tco" in out
    assert call("H100", "--help")[0] == out
    assert "--purchase-price" in call("tco", "--help")[0]
    assert asked("--provider", "aws", "H100")["rows"]
    call("--colour", code=2)


def _rows(name: str) -> list[dict[str, str]]:
    with (pricing_dir() / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


MODELS = [row["gpu_model"] for row in _rows("gpus.csv")]
ALIASES = {spelled(row["alias"]): row["gpu_model"] for row in _rows("gpu_aliases.csv")}


def called(name: str) -> tuple[str, ...]:
    return gpu_models_called(name, MODELS, ALIASES)


@pytest.mark.parametrize(
    ("name", "models"),
    [
        ("H100", {"H100-80GB-HBM3", "H100-PCIe", "H100-NVL"}),
        ("NVIDIA H100 80GB HBM3", {"H100-80GB-HBM3"}),
        ("a100 80gb", {"A100-SXM4-80GB", "A100-80GB-PCIe"}),
        ("l40s", {"L40S"}),
        ("L4", {"L4"}),
        ("A10", {"A10"}),
        ("tesla t4", {"T4"}),
        ("H200", {"H200", "H200-NVL"}),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", {"A100-SXM4-40GB"}),
        ("Tesla-T4-SHARED", {"T4"}),
        ("nvidia-h100-mega-80gb", {"H100-80GB-HBM3"}),
        ("B200", {"B200"}),
        ("p5", set()),
        ("", set()),
        ("nvidia", set()),
    ],
)
def test_spellings(name: str, models: set[str]) -> None:
    assert set(called(name)) == models


def test_every_name_and_every_alias_is_understood() -> None:
    for model in MODELS:
        assert model in called(model), model
    for row in _rows("gpu_aliases.csv"):
        result = called(row["alias"])
        assert row["gpu_model"] in result or not re.search(r"[A-Za-z]", row["alias"]), row


def test_nearest_prefers_what_begins_so_and_knows_words() -> None:
    assert nearest("p5", ["p4d.24xlarge", "p5.48xlarge", "A10"], 1) == ["p5.48xlarge"]
    assert nearest("H101", ["A10", "H20", "H100-80GB-HBM3"], 1) == ["H100-80GB-HBM3"]
