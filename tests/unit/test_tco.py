"""`gpucost prices tco`: the arithmetic to the last decimal."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gpucost.price.onprem import Inputs, tco
from gpucost.resources import pricing_dir
from tests.text_tables import cells, text_rows, words
from tests.unit.command import answer, run
from tests.unit.whatif_costs import figures

UTC = ZoneInfo("UTC")
PRICES = "price_per_hour price_per_gpu_hour price_per_utilized_gpu_hour"

# By hand: 4 years are 35,040 h.  262,800 less 20 % is 210,240; / 35,040 = 6.   Maintenance 10 % of 262,800 / 8,760 = 3.
# Network 17,520 / 35,040 = 0.5.   8 x 500 W + 1,000 W = 5 kW x 1.2 x 0.10 = 0.6.   Colocation: rated 8 x 700 W + 1,000 W = 6.6 kW
# x 73 / 730 = 0.66.   Staff 175,200 / 40 / 8,760 = 0.5.   Total 11.26; / 8 = 1.4075; at 50 % utilization 2.815.
NODE = """purchase_price=262800 gpus_per_node=8 years=4 price_per_kwh=0.10 gpu_watts=500 residual_percent=20 other_watts=1000
pue=1.2 colocation_per_kw_month=73 staff_per_year=175200 staff_nodes=40 network_per_node=17520 maintenance_percent_per_year=10
utilization_percent=50"""


def inputs(text: str) -> dict[str, Any]:
    return {name: Decimal(value) for name, value in words(text).items()}


BY_HAND = Inputs(currency="USD", **inputs(NODE))


def test_tco_equals_calculation_by_hand() -> None:
    answer = tco(BY_HAND, tdp_watts=Decimal(700))
    assert {part.name: part.price_per_hour for part in answer.parts} == inputs(
        "depreciation=6 maintenance=3 network=0.5 power=0.6 colocation=0.66 staff=0.5"
    )
    assert figures(answer, PRICES) == "11.26 1.4075 2.815"


def test_rated_power_replaces_missing_measurement() -> None:
    answer = tco(replace(BY_HAND, gpu_watts=None), tdp_watts=Decimal(700))
    assert (answer.gpu_watts, answer.gpu_watts_source, answer.node_watts) == (700, "tdp", 6600)
    assert tco(BY_HAND, None).parts[4].price_per_hour == Decimal("0.5")  # 5 kW: the rated power is unknown
    with pytest.raises(ValueError, match="neither"):
        tco(replace(BY_HAND, gpu_watts=None), None)


ODD = "purchase_price=99999.99 gpus_per_node=7 years=3.7 price_per_kwh=0.1234 gpu_watts=333.3"
PARTS = f"{ODD} pue=1.357 staff_per_year=77777.7777 staff_nodes=13 network_per_node=0.01 utilization_percent=33.33"


@pytest.mark.parametrize("given", [ODD, PARTS])
def test_price_is_the_exact_sum_of_its_parts(given: str) -> None:
    answer = tco(Inputs(currency="USD", **inputs(given)), None)
    assert sum(part.price_per_hour for part in answer.parts) == answer.price_per_hour
    assert abs(answer.price_per_gpu_hour * 7 - answer.price_per_hour) < Decimal("1e-8")
    in_use = answer.price_per_utilized_gpu_hour
    assert (
        in_use is None
        if given == ODD
        else in_use == pytest.approx(answer.price_per_gpu_hour / Decimal("0.3333"))
    )


# The command


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpucost.toml").write_text('[prices]\nbook = "book.csv"\n')
    (tmp_path / "node.toml").write_text("\n".join(NODE.split()) + "\ngpu_model = 'h100'\n")
    return tmp_path


def answer_of(words: str) -> Any:
    document = answer(f"prices tco {words} -q")
    assert document["schema"] == "gpucost.tco/1"
    return document


def test_options_override_the_file() -> None:
    document = answer_of("node.toml")
    assert cells([document], f"{PRICES} not_given") == [("11.26", "1.4075", "2.815", "[]")]
    assert document["inputs"]["gpu_model"] == "H100-80GB-HBM3"
    assert answer_of("node.toml --price-per-kwh 0.2")["price_per_hour"] == 11.86
    assert answer_of(f"{pricing_dir()}/onprem.toml")["price_per_hour"] > 1


def test_parts_without_options_are_listed_as_not_given() -> None:
    words = "--purchase-price 35040 --gpus-per-node 4 --years 4 --price-per-kwh 0 --gpu-model L40S"
    out = run(f"prices tco {words}").stdout
    for text in ("1.000000000", "rated 350 W of L40S", "--gpu-watts", "pue", "staff_per_year"):
        assert text in out
    assert "--gpu-watts" in run(f"prices tco {words} --format csv").stderr
    assert answer_of(f"{words} --currency eur")["currency"] == "EUR"


BARE = "purchase_price = 1\ngpus_per_node = 1\nyears = 1\nprice_per_kwh = 1\n"
FILES = {
    "misspelled": "purchase_prise = 1\n",
    "unmeasured": BARE + "gpu_model = 'H101'\n",
    "unstaffed": BARE + "gpu_watts = 1\nstaff_per_year = 5\n",
    "powerless": BARE,
    "several": BARE + "gpu_model = 'RTX PRO'\n",
    "word": BARE.replace("years = 1", "years = 'four'"),
    "nonsense": "years =\n",
}
REFUSED = """
 | 2 | purchase_price, gpus_per_node, years, price_per_kwh are missing
none.toml | 1 | cannot read none.toml
node.toml --years -1 | 2 | --years is -1
node.toml --utilization-percent 0 | 2 | --utilization-percent is 0
node.toml --residual-percent 101 | 2 | --residual-percent is 101
node.toml --pue nan | 2 | it should be a finite number
node.toml --gpus-per-node 1.5 | 2 | it should be a whole number
node.toml --purchase-price 1e30 | 2 | less than or equal to 1000000000000
node.toml --currency dollars | 2 | for example USD
misspelled.toml | 1 | did you mean purchase_price?
unmeasured.toml | 1 | did you mean H100
unstaffed.toml | 1 | staff_nodes is missing
powerless.toml | 1 | neither gpu_model nor gpu_watts
several.toml | 1 | may be RTX-PRO-4500, RTX-PRO-6000
word.toml | 1 | word.toml: years is 'four'
nonsense.toml | 1 | is not valid TOML
"""


@pytest.mark.parametrize(("words", "code", "message"), text_rows(REFUSED))
def test_invalid_input_is_named(work: Path, words: str, code: str, message: str) -> None:
    for name, text in FILES.items():
        (work / f"{name}.toml").write_text(text)
    result = run(f"prices tco {words}", int(code))
    assert message in result.output and "fix:" in result.stderr
