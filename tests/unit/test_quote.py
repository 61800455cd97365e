"""`gpucost quote` as a user calls it, over a small catalog: every way to buy so many GPUs for so long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpucost.periods import from_ms
from gpucost.questions.request import Request
from tests import own_catalog
from tests.text_tables import cells, text_rows
from tests.unit.command import answer, check_end, run
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


def rows(words: str) -> Any:
    document = answer(f"quote {words} -q")
    assert document["schema"] == "gpucost.quote/1"
    return document["rows"]


def test_each_way_to_buy_instances_side_by_side() -> None:
    found = rows("p5.48xlarge --count 2 --hours 168")
    # a price over 90 days old does not lead
    assert cells(found, "purchase_option region currency instances gpus cost is_stale")[:2] == text_rows("""
        on_demand | us-east-1 | USD | 2 | 16.0 | 18493.44 | False
        spot | us-east-1 | USD | 2 | 16.0 | 4623.36 | True
    """)
    assert {row["currency"] for row in found[2:]} == {"CNY"}


def test_a_commitment_and_own_nodes_are_paid_for_their_term() -> None:
    words = "H100 --gpus 12 --days 7 --provider gcp --own own.toml --price 3 --price-per gpu"
    # 12 GPUs are two instances of 8; own nodes cost 350,400 / (4 × 8,760) = 10 an hour: 2 × 168 × 10, 2 × 4 × 8,760 × 10
    assert cells(rows(words), "purchase_option gpus cost to_pay") == text_rows("""
        given | 12.0 | 6048.0 | 6048.0
        on_demand | 16.0 | 29732.64 | 29732.64
        own | 16.0 | 3360.0 | 700800.0
        cud | 16.0 | 13058.304 | 2042691.84
    """)
    # for longer than its term it is paid by the hour
    (cud,) = (row for row in rows("a3-highgpu-8g --hours 30000") if row["purchase_option"] == "cud")
    assert cud["cost"] == cud["to_pay"] == pytest.approx(30000 * 38.864)


def test_hosts_with_one_gpu_come_after_nodes(work: Path) -> None:
    """GPUs of different hosts have no NVLink: for 12 GPUs two nodes lead, though 12 hosts would cost less."""
    with (work / "pricing" / "prices.csv").open("a", encoding="utf-8") as file:
        file.write("lambda,,,gpu_8x_h100_sxm5,on_demand,,,23.92,USD,2026-11-01,test\n")
        file.write("lambda,,,gpu_1x_h100_pcie,on_demand,,,3.29,USD,2026-11-01,test\n")
    shown = []
    for gpus in (1, 8, 12):
        told = rows(f"H100 --gpus {gpus} --hours 1 --provider lambda")
        shown.append((gpus, *cells(told, "instance_type cost is_single_gpu_host")))
    assert shown == [
        # of one GPU there is nothing to keep apart
        (1, ("gpu_1x_h100_pcie", "3.29", "False")),
        (8, ("gpu_8x_h100_sxm5", "23.92", "False"), ("gpu_1x_h100_pcie", "26.32", "True")),
        (12, ("gpu_8x_h100_sxm5", "47.84", "False"), ("gpu_1x_h100_pcie", "39.48", "True")),
    ]


def test_a_price_of_ones_own_needs_no_list() -> None:
    (row,) = rows("--gpus 16 --days 7 --price 3 --price-per gpu")
    assert (row["cost"], row["price_per_hour"]) == (8064, 48)
    (row,) = rows("--count 2 --price 24")
    assert row["cost"] == 2 * 730 * 24


def test_old_prices_are_named_with_the_figure() -> None:
    text = run("quote p5.48xlarge --hours 10").stdout
    headline = text.partition("Ways to buy")[0]
    assert "Spot" in headline and "a price of 2025-11-30, 356 days ago" in headline
    assert "spot is interrupted" in text and "1 price is over 90 days old" in text


REFUSED = """
| what to quote is missing
H100 --count 2 | --count counts instances, and H100 is a GPU model
H100 | how many GPUs are needed is not said: H100 is a GPU model
H100 --gpus 8 --count 1 | --count and --gpus both say
H100 --hours 1 --days 1 | --hours and --days both say
--price 3 --price-per gpu | how many GPUs --price is for is not known
--price 3 --gpus 2 | how many nodes --price is for is not known
--own own.toml | how many GPUs the own nodes should have is not known
H100 --hours 0 | '0' is no number above 0
"""


@pytest.mark.parametrize(("words", "message"), text_rows(REFUSED))
def test_what_is_missing_or_said_twice(words: str, message: str) -> None:
    check_end(f"quote {words}", "2", message)
