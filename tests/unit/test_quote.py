"""`gpucost quote` as a user calls it, over a small catalog: every way to buy so many GPUs for so long."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.periods import from_ms
from gpucost.questions.request import Request
from tests import own_catalog
from tests.unit.test_prices_command import at

OWN = 'currency = "USD"\npurchase_price = 350400\ngpus_per_node = 8\nyears = 4\nprice_per_kwh = 0\ngpu_model = "H100"\n'


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = own_catalog.write(tmp_path / "pricing")
    own_catalog.use(directory, monkeypatch)
    monkeypatch.setattr(Request, "now", from_ms(at("2026-11-21")))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_text(OWN)
    return tmp_path


def quote(*words: str, code: int = 0) -> tuple[str, str]:
    result = CliRunner().invoke(app, ["quote", *words])
    assert result.exit_code == code, result.output
    return result.stdout, result.stderr


def rows(*words: str) -> list[dict[str, Any]]:
    document = json.loads(quote(*words, "--format", "json", "-q")[0])
    assert document["schema"] == "gpucost.quote/1"
    return list(document["rows"])


def test_each_way_to_buy_instances_side_by_side() -> None:
    told = [
        (row["purchase_option"], row["region"], row["instances"], row["gpus"], row["cost"], row["is_stale"])
        for row in rows("p5.48xlarge", "--count", "2", "--hours", "168")
        if row["currency"] == "USD"
    ]
    # a price over 90 days old does not lead
    assert told == [
        ("on_demand", "us-east-1", 2, 16, 18493.44, False),
        ("spot", "us-east-1", 2, 16, 4623.36, True),
    ]


def test_a_commitment_and_own_nodes_are_paid_for_their_term() -> None:
    words = "H100 --gpus 12 --days 7 --provider gcp --own own.toml --price 3 --price-per gpu"
    found = rows(*words.split())
    # 12 GPUs are two instances of 8; own nodes cost 350,400 / (4 × 8,760) = 10 an hour
    assert [
        (row["purchase_option"], row["gpus"], round(row["cost"], 6), round(row["to_pay"], 6)) for row in found
    ] == [
        ("given", 12, 12 * 168 * 3, 12 * 168 * 3),
        ("on_demand", 16, 29732.64, 29732.64),
        ("own", 16, 2 * 168 * 10, 2 * 4 * 8760 * 10),
        ("cud", 16, 13058.304, 2042691.84),
    ]
    # for longer than its term it is paid by the hour
    (cud,) = (row for row in rows("a3-highgpu-8g", "--hours", "30000") if row["purchase_option"] == "cud")
    assert cud["cost"] == cud["to_pay"] == pytest.approx(30000 * 38.864)


@pytest.mark.parametrize(("gpus", "node", "single"), [(8, 23.92, 8 * 3.29), (12, 2 * 23.92, 12 * 3.29)])
def test_hosts_with_one_gpu_come_after_nodes(work: Path, gpus: int, node: float, single: float) -> None:
    """GPUs of different hosts have no NVLink: for 12 GPUs two nodes lead, though 12 hosts would cost less."""
    with (work / "pricing" / "prices.csv").open("a", encoding="utf-8") as file:
        file.write("lambda,,,gpu_8x_h100_sxm5,on_demand,,,23.92,USD,2026-11-01,test\n")
        file.write("lambda,,,gpu_1x_h100_pcie,on_demand,,,3.29,USD,2026-11-01,test\n")
    nodes, hosts = rows("H100", "--gpus", str(gpus), "--hours", "1", "--provider", "lambda")
    assert (nodes["instance_type"], nodes["cost"]) == ("gpu_8x_h100_sxm5", pytest.approx(node))
    assert (hosts["instance_type"], hosts["cost"]) == ("gpu_1x_h100_pcie", pytest.approx(single))
    # of one GPU there is nothing to keep apart
    (one,) = rows("H100", "--gpus", "1", "--hours", "1", "--provider", "lambda")
    assert (one["cost"], one["is_single_gpu_host"]) == (3.29, False)


def test_a_price_of_ones_own_needs_no_list() -> None:
    (row,) = rows("--gpus", "16", "--days", "7", "--price", "3", "--price-per", "gpu")
    assert (row["cost"], row["price_per_hour"]) == (8064, 48)
    (row,) = rows("--count", "2", "--price", "24")
    assert row["cost"] == 2 * 730 * 24


def test_old_prices_are_named_with_the_figure() -> None:
    text, _ = quote("p5.48xlarge", "--hours", "10")
    headline = text.partition("Ways to buy")[0]
    assert "Spot" in headline and "a price of 2025-11-30, 356 days ago" in headline
    assert "spot is interrupted" in text and "1 price is over 90 days old" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "what to quote is missing"),
        ("H100 --count 2", "--count counts instances, and H100 is a GPU model"),
        ("H100", "how many GPUs are needed is not said: H100 is a GPU model"),
        ("H100 --gpus 8 --count 1", "--count and --gpus both say"),
        ("H100 --hours 1 --days 1", "--hours and --days both say"),
        ("--price 3 --price-per gpu", "how many GPUs --price is for is not known"),
        ("--price 3 --gpus 2", "how many nodes --price is for is not known"),
        ("--own own.toml", "how many GPUs the own nodes should have is not known"),
        ("H100 --hours 0", "'0' is no number above 0"),
    ],
)
def test_what_is_missing_or_said_twice(words: str, message: str) -> None:
    assert message in quote(*words.split(), code=2)[1]
