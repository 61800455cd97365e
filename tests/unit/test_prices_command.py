"""`gpucost prices` and `gpucost quote` with a small catalog and a store; all spellings of GPU models in the catalog."""

from __future__ import annotations

import csv
import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from gpucost.periods import from_ms
from gpucost.price.listing import gpu_models_called, nearest, spelled
from gpucost.questions import prices as command
from gpucost.questions.request import Request
from gpucost.resources import pricing_dir
from gpucost.store.connection import Store
from tests import own_catalog
from tests.text_tables import cells, text_rows, words
from tests.unit.command import answer, check_end, run

TODAY = date(2026, 11, 21)
OWN = 'currency = "USD"\npurchase_price = 350400\ngpus_per_node = 8\nyears = 4\nprice_per_kwh = 0\ngpu_model = "H100"\n'


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = own_catalog.write(tmp_path / "pricing")
    own_catalog.use(directory, monkeypatch)
    monkeypatch.setattr(command, "today_in", lambda _: TODAY)
    monkeypatch.setattr(Request, "now", from_ms(at("2026-11-21")))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_text(OWN)
    return tmp_path


def prices_answer(words: str = "") -> Any:
    document = answer(f"prices {words} -q")
    assert document["schema"] == "gpucost.prices/1"
    return document


# defaults of list prices and spot price changes
LISTED = "region=us-east-1 zone= option=on_demand term=0 payment= offering= currency=USD"
SPOT = "product=Linux/UNIX instance="
LIST_PRICE = """INSERT INTO list_prices VALUES
('aws', $region, $zone, 'p5.48xlarge', $option, $term, $payment, $offering, $price, $currency, $starts, $as_of, 'test')"""
SPOT_PRICE = """INSERT INTO spot_prices VALUES
('aws', 'us-east-1', $zone, 'p5.48xlarge', replace($product, '_', ' '), $instance, $at, NULL, $price, 'USD', 'history')"""


def fill(work: Path, listed: str = "", spot: str = "") -> None:
    with Store(work / "gpucost.duckdb").write() as con:
        for line in listed.splitlines():
            con.execute(LIST_PRICE, {"starts": None, **words(LISTED), **words(line)})
        for line in spot.splitlines():
            row = words(line)
            con.execute(SPOT_PRICE, {**words(SPOT), **row, "at": at(row["at"])})


def at(moment: str) -> int:
    return int(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp() * 1000)


def test_instance_type_lists_the_cheapest_region_of_each_price() -> None:
    document = prices_answer("--provider aws p5.48xlarge")
    columns = (
        "purchase_option region zone price_per_hour price_per_gpu_hour currency gpu_count spot_discount_percent is_stale "
        "more_regions"
    )
    assert cells(document["rows"], columns) == text_rows("""
        spot | us-east-1 | use1-az2 | 13.76 | 1.72 | USD | 8.0 | 75.0 | True | 1
        on_demand | us-east-1 | None | 55.04 | 6.88 | USD | 8.0 | None | False | 1
        on_demand | cn-north-1 | None | 400.0 | 50.0 | CNY | 8.0 | None | False | 0
    """)
    assert document["gpu_models"] == ["H100-80GB-HBM3"]


@pytest.mark.parametrize("name", ["P5.48XLARGE", "nd96isr_h100_v5"])
def test_instance_types_are_found_in_any_letter_case(name: str) -> None:
    types = {row["instance_type"].lower() for row in prices_answer(name)["rows"]}
    assert types <= {name.lower(), f"standard_{name.lower()}"} and types


def test_gpu_name_matches_all_its_models_sorted_by_gpu_hour() -> None:
    rows = prices_answer("h100 --all-regions")["rows"]
    assert {row["gpu_model"] for row in rows} == {"H100-80GB-HBM3", "H100-PCIe"}
    dollars = [row["price_per_gpu_hour"] for row in rows if row["currency"] == "USD"]
    assert dollars == sorted(dollars) and len(dollars) == 9
    assert rows[-1]["currency"] == "CNY"
    assert {row["provider"] for row in rows} == {"aws", "azure", "gcp", "lambda"}
    assert prices_answer("'NVIDIA H100 80GB HBM3'")["gpu_models"] == ["H100-80GB-HBM3"]


def test_fractional_gpu_has_its_price_per_gpu_hour() -> None:
    assert cells(prices_answer("g6f.large")["rows"], "gpu_count price_per_gpu_hour") == [("0.125", "1.616")]


def test_spot_at_the_on_demand_price_has_no_discount() -> None:
    words = "p5.48xlarge --region us-east-1 --purchase-option spot"
    assert [row["spot_discount_percent"] for row in prices_answer(words)["rows"]] == [75.0, 0.0]
    assert "spot at 0 % off has the on-demand price" in run(f"prices {words}").stdout


def test_every_gpu_model_has_one_row_by_default() -> None:
    rows = prices_answer()["rows"]
    shown = [f"{row['gpu_model']} {row['on_demand']['price_per_gpu_hour']}" for row in rows]
    assert shown == ["L4 1.616", "H100-80GB-HBM3 6.88", "H100-PCIe 3.29"]
    assert rows[0]["spot"] is None and rows[1]["spot"]["price_per_hour"] == 13.76
    assert [row["gpu_model"] for row in prices_answer("--purchase-option cud")["rows"]] == ["H100-80GB-HBM3"]


# list prices in a store, the price in effect, and the prices that it replaces; 98.32 is older than the catalog price
FACTS = """
price=50 as_of=2026-11-10 + price=52 as_of=2026-10-01 + price=45 as_of=2026-11-20 starts=2026-12-01 \
| 50.0 store | 45.0 store upcoming, 52.0 store superseded, 55.04 catalog superseded
price=1 zone=us-east-1a as_of=2026-11-20 starts=2027-01-01 | 55.04 catalog | 1.0 store upcoming
price=11 as_of=2026-12-01 | 55.04 catalog | 11.0 store upcoming
price=98.32 as_of=2025-01-01 | 55.04 catalog | 98.32 store superseded
"""


@pytest.mark.parametrize(("listed", "price", "lost"), text_rows(FACTS))
def test_newest_price_in_effect_wins_and_all_stay_visible(
    work: Path, listed: str, price: str, lost: str
) -> None:
    fill(work, listed.replace("+", "\n"))
    document = prices_answer("p5.48xlarge --region us-east-1 --purchase-option on_demand")
    assert cells(document["rows"], "price_per_hour origin") == [tuple(price.split())]
    superseded = cells(document["superseded"], "price_per_hour origin status")
    assert superseded == [tuple(one.split()) for one in lost.split(",")]
    assert "upcoming" not in run("prices p5.48xlarge --region us-east-1 -q").stdout


@pytest.mark.parametrize(
    ("offerings", "current"),
    [
        ("standard convertible", "30.0 standard, 31.0 convertible"),
        ("convertible", "20.0 standard, 30.0 convertible"),
    ],
)
def test_collected_reservation_price_replaces_the_catalog_price(
    work: Path, offerings: str, current: str
) -> None:
    with (work / "pricing/prices.csv").open("a") as file:
        file.write("aws,us-east-1,,p5.48xlarge,reserved,1,no_upfront,20,USD,2026-01-21,test\n")
    for price, name in enumerate(offerings.split(), 30):
        fill(
            work, f"option=reserved term=1 payment=no_upfront offering={name} price={price} as_of=2026-11-20"
        )
    rows = prices_answer("p5.48xlarge --region us-east-1 --purchase-option reserved")["rows"]
    assert cells(rows, "price_per_hour offering") == [tuple(one.split()) for one in current.split(",")]
    if offerings == "convertible":
        return
    best = answer("whatif reserve --nodes 4 --instance-type p5.48xlarge --region us-east-1 -q")["best"]
    price, offering = current.split(",")[0].split()
    assert best[0]["committed_per_hour"] == 4 * float(price)
    assert best[0]["commitment"].endswith(f", {offering}")


def test_newest_spot_price_replaces_catalog_prices_of_its_region(work: Path) -> None:
    fill(
        work,
        spot="""zone=us-east-1a at=2026-11-01 price=9
        zone=us-east-1a at=2026-11-20 price=20
        zone=us-east-1a at=2026-11-20 price=1 product=Windows
        zone=us-east-1a at=2026-11-20 price=2 instance=i-1
        zone=us-east-1b at=2026-11-19 price=30 product=Linux/UNIX_(Amazon_VPC)""",
    )
    document = prices_answer("p5.48xlarge --all-regions --purchase-option spot")
    assert cells(document["rows"], "zone price_per_hour origin") == text_rows("""
        usw2-az1 | 15.0 | catalog
        us-east-1a | 20.0 | spot_history
        us-east-1b | 30.0 | spot_history
    """)
    assert {row["zone"] for row in document["superseded"]} == {"use1-az1", "use1-az2"}


def test_other_currencies_are_converted_only_with_a_rate(work: Path) -> None:
    shown = run("prices p5.48xlarge").stdout
    assert "CNY are last, unconverted" in shown and "CNY 400.0000" in shown
    (work / "gpucost.toml").write_text("[prices]\nfx = { CNY = 0.125 }\n")
    rows = prices_answer("p5.48xlarge --purchase-option on_demand")["rows"]
    assert cells(rows[:1], "region price_per_hour currency listed_price_per_hour listed_currency") == [
        ("cn-north-1", "50.0", "USD", "400.0", "CNY")
    ]


def test_old_price_is_shown_with_its_age(work: Path) -> None:
    fill(work, "region=ap-south-1 price=3 as_of=2021-03-01")
    for options in ("H100 --purchase-option on_demand", ""):
        shown = run(f"prices {options}").stdout
        assert re.search(r"(?s)\$0\.3750.*?\(2,091d\)", shown)
        assert "prices are over 90 days old" in shown
    assert "d)" not in run("prices a3-highgpu-8g").stdout


NOTHING = """
1 | H101 | did you mean H100
1 | p5.49xlarge | did you mean p5.48xlarge
1 | H100 --provider amazon | there is aws, azure, gcp, lambda
1 | H100 --provider aws --region mars | region mars
1 | A30 | no known list price of A30
2 | --all-regions | needs a GPU
2 | H100 --purchase-option gift | gift
"""


@pytest.mark.parametrize(("code", "words", "message"), text_rows(NOTHING))
def test_unknown_name_suggests_the_nearest(code: str, words: str, message: str) -> None:
    check_end(f"prices {words}", code, message)


def _rows(name: str) -> list[dict[str, str]]:
    with (pricing_dir() / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


MODELS = [row["gpu_model"] for row in _rows("gpus.csv")]
ALIASES = {spelled(row["alias"]): row["gpu_model"] for row in _rows("gpu_aliases.csv")}
SPELLINGS = """
H100 | H100-80GB-HBM3 H100-PCIe H100-NVL
NVIDIA H100 80GB HBM3 | H100-80GB-HBM3
a100 80gb | A100-SXM4-80GB A100-80GB-PCIe
l40s | L40S
L4 | L4
A10 | A10
tesla t4 | T4
H200 | H200 H200-NVL
NVIDIA-A100-SXM4-40GB-MIG-1g.5gb | A100-SXM4-40GB
Tesla-T4-SHARED | T4
nvidia-h100-mega-80gb | H100-80GB-HBM3
B200 | B200
p5 |
 |
nvidia |
"""


def test_all_spellings_of_gpu_models_are_known() -> None:
    for name, models in text_rows(SPELLINGS):
        assert set(gpu_models_called(name, MODELS, ALIASES)) == set(models.split()), name
    own = [(model, model) for model in MODELS]
    for name, model in [*own, *((row["alias"], row["gpu_model"]) for row in _rows("gpu_aliases.csv"))]:
        if re.search(r"[A-Za-z]", name):
            assert model in gpu_models_called(name, MODELS, ALIASES), name


def test_nearest_prefers_names_with_the_same_prefix() -> None:
    assert nearest("p5", ["p4d.24xlarge", "p5.48xlarge", "A10"], 1) == ["p5.48xlarge"]
    assert nearest("H101", ["A10", "H20", "H100-80GB-HBM3"], 1) == ["H100-80GB-HBM3"]


def rows(words: str) -> Any:
    document = answer(f"quote {words} -q")
    assert document["schema"] == "gpucost.quote/1"
    return document["rows"]


def test_each_way_to_buy_instances_has_its_cost() -> None:
    found = rows("p5.48xlarge --count 2 --hours 168")
    # a price over 90 days old is not first
    assert cells(found, "purchase_option region currency instances gpus cost is_stale")[:2] == text_rows("""
        on_demand | us-east-1 | USD | 2 | 16.0 | 18493.44 | False
        spot | us-east-1 | USD | 2 | 16.0 | 4623.36 | True
    """)
    assert {row["currency"] for row in found[2:]} == {"CNY"}


def test_commitment_and_own_nodes_are_paid_for_their_term() -> None:
    words = "H100 --gpus 12 --days 7 --provider gcp --own own.toml --price 3 --price-per gpu"
    # 12 GPUs are two instances of 8; own nodes cost 350,400 / (4 × 8,760) = 10 an hour: 2 × 168 × 10, 2 × 4 × 8,760 × 10
    assert cells(rows(words), "purchase_option gpus cost to_pay") == text_rows("""
        given | 12.0 | 6048.0 | 6048.0
        on_demand | 16.0 | 29732.64 | 29732.64
        own | 16.0 | 3360.0 | 700800.0
        cud | 16.0 | 13058.304 | 2042691.84
    """)
    # beyond its term a commitment is paid by the hour
    (cud,) = (row for row in rows("a3-highgpu-8g --hours 30000") if row["purchase_option"] == "cud")
    assert cud["cost"] == cud["to_pay"] == pytest.approx(30000 * 38.864)


def test_hosts_with_one_gpu_come_after_nodes(work: Path) -> None:
    """GPUs of different hosts have no NVLink: for 12 GPUs, two nodes rank above 12 cheaper hosts."""
    with (work / "pricing" / "prices.csv").open("a", encoding="utf-8") as file:
        file.write("lambda,,,gpu_8x_h100_sxm5,on_demand,,,23.92,USD,2026-11-01,test\n")
        file.write("lambda,,,gpu_1x_h100_pcie,on_demand,,,3.29,USD,2026-11-01,test\n")
    shown = []
    for gpus in (1, 8, 12):
        found = rows(f"H100 --gpus {gpus} --hours 1 --provider lambda")
        shown.append((gpus, *cells(found, "instance_type cost is_single_gpu_host")))
    assert shown == [
        # a single GPU needs no NVLink
        (1, ("gpu_1x_h100_pcie", "3.29", "False")),
        (8, ("gpu_8x_h100_sxm5", "23.92", "False"), ("gpu_1x_h100_pcie", "26.32", "True")),
        (12, ("gpu_8x_h100_sxm5", "47.84", "False"), ("gpu_1x_h100_pcie", "39.48", "True")),
    ]


def test_given_price_needs_no_list_price() -> None:
    (row,) = rows("--gpus 16 --days 7 --price 3 --price-per gpu")
    assert (row["cost"], row["price_per_hour"]) == (8064, 48)
    (row,) = rows("--count 2 --price 24")
    assert row["cost"] == 2 * 730 * 24


def test_headline_names_old_prices() -> None:
    text = run("quote p5.48xlarge --hours 10").stdout
    headline = text.partition("Ways to buy")[0]
    assert "Spot" in headline and "a price of 2025-11-30, 356 days ago" in headline
    assert "spot prices do not include" in text and "1 price is over 90 days old" in text


REFUSED = """
| the GPUs or the price are missing
H100 --count 2 | --count counts instances, and H100 is a GPU model
H100 | the number of GPUs is missing: H100 is a GPU model
H100 --gpus 8 --count 1 | --count and --gpus exclude each other
H100 --hours 1 --days 1 | --hours and --days exclude each other
--price 3 --price-per gpu | the number of GPUs of --price is missing
--price 3 --gpus 2 | the number of nodes of --price is missing
--own own.toml | the number of GPUs of the own nodes is missing
H100 --hours 0 | '0' is not a number above 0
"""


@pytest.mark.parametrize(("words", "message"), text_rows(REFUSED))
def test_missing_or_conflicting_options_are_errors(words: str, message: str) -> None:
    check_end(f"quote {words}", "2", message)
