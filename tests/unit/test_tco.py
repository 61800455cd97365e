"""`gpucost prices tco`: the arithmetic to the last decimal, and what it writes into the price book."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.price.book import read_book
from gpucost.price.onprem import BookEntry, Inputs, tco, with_entry
from gpucost.resources import pricing_dir

UTC = ZoneInfo("UTC")

# By hand: 4 years are 35,040 h.  262,800 less 20 % is 210,240; / 35,040 = 6.   Maintenance 10 % of 262,800 / 8,760 = 3.
# Network 17,520 / 35,040 = 0.5.   8 x 500 W + 1,000 W = 5 kW x 1.2 x 0.10 = 0.6.   Colocation: rated 8 x 700 W + 1,000 W = 6.6 kW
# x 73 / 730 = 0.66.   Staff 175,200 / 40 / 8,760 = 0.5.   Together 11.26; / 8 = 1.4075; at 50 % in use 2.815.
BY_HAND = Inputs(
    currency="USD",
    purchase_price=Decimal(262_800),
    gpus_per_node=Decimal(8),
    years=Decimal(4),
    price_per_kwh=Decimal("0.10"),
    gpu_watts=Decimal(500),
    residual_percent=Decimal(20),
    other_watts=Decimal(1000),
    pue=Decimal("1.2"),
    colocation_per_kw_month=Decimal(73),
    staff_per_year=Decimal(175_200),
    staff_nodes=Decimal(40),
    network_per_node=Decimal(17_520),
    maintenance_percent_per_year=Decimal(10),
    utilization_percent=Decimal(50),
)


def test_by_hand() -> None:
    answer = tco(BY_HAND, tdp_watts=Decimal(700))
    assert {part.name: part.price_per_hour for part in answer.parts} == {
        "depreciation": Decimal(6), "maintenance": Decimal(3), "network": Decimal("0.5"), "power": Decimal("0.6"),
        "colocation": Decimal("0.66"), "staff": Decimal("0.5"),
    }  # fmt: skip
    assert answer.price_per_hour == Decimal("11.26")
    assert answer.price_per_gpu_hour == Decimal("1.4075")
    assert answer.price_per_utilized_gpu_hour == Decimal("2.815")


def test_the_rated_power_stands_in_for_what_was_not_measured() -> None:
    answer = tco(replace(BY_HAND, gpu_watts=None), tdp_watts=Decimal(700))
    assert (answer.gpu_watts, answer.gpu_watts_source, answer.node_watts) == (700, "tdp", 6600)
    assert tco(BY_HAND, None).parts[4].price_per_hour == Decimal("0.5")  # 5 kW: no rated power is known
    with pytest.raises(ValueError, match="neither"):
        tco(replace(BY_HAND, gpu_watts=None), None)


def _money(most: int) -> st.SearchStrategy[Decimal]:
    return st.decimals(0, most, places=4)


INPUTS = st.builds(
    Inputs,
    currency=st.just("USD"),
    purchase_price=st.decimals("0.01", 2_000_000, places=2),
    gpus_per_node=st.integers(1, 16).map(Decimal),
    years=st.decimals("0.5", 10, places=2),
    price_per_kwh=_money(1),
    gpu_watts=st.decimals(1, 2000, places=1),
    residual_percent=st.none() | _money(100),
    other_watts=st.none() | _money(20_000),
    pue=st.none() | st.decimals(1, 3, places=3),
    colocation_per_kw_month=st.none() | _money(500),
    staff_per_year=st.none() | _money(10_000_000),
    staff_nodes=st.integers(1, 10_000).map(Decimal),
    network_per_node=st.none() | _money(100_000),
    maintenance_percent_per_year=st.none() | _money(100),
    utilization_percent=st.none() | st.decimals("0.01", 100, places=2),
)


@settings(max_examples=8)
@given(INPUTS, st.none() | st.decimals(1, 2000, places=0))
def test_the_price_is_the_exact_sum_of_its_parts(inputs: Inputs, tdp: Decimal | None) -> None:
    answer = tco(inputs, tdp)
    assert sum(part.price_per_hour for part in answer.parts) == answer.price_per_hour
    assert all(part.price_per_hour >= 0 for part in answer.parts)
    assert abs(answer.price_per_gpu_hour * inputs.gpus_per_node - answer.price_per_hour) < Decimal("1e-8")
    in_use = answer.price_per_utilized_gpu_hour
    assert (in_use is None) == (inputs.utilization_percent is None)
    assert in_use is None or in_use >= answer.price_per_gpu_hour


# The command


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpucost.toml").write_text('[prices]\nbook = "book.csv"\n')
    (tmp_path / "node.toml").write_text(
        "purchase_price = 262800\ngpus_per_node = 8\nyears = 4\nprice_per_kwh = 0.1\ngpu_model = 'h100'\ngpu_watts = 500\n"
        "residual_percent = 20\nother_watts = 1000\npue = 1.2\ncolocation_per_kw_month = 73\nstaff_per_year = 175200\n"
        "staff_nodes = 40\nnetwork_per_node = 17520\nmaintenance_percent_per_year = 10\nutilization_percent = 50\n"
    )
    return tmp_path


def call(*words: str, code: int = 0) -> tuple[str, str]:
    result = CliRunner().invoke(app, ["prices", "tco", *words])
    assert result.exit_code == code, result.output
    return result.stdout, result.stderr


def answer_of(*words: str) -> dict[str, Any]:
    document = json.loads(call(*words, "--format", "json", "-q")[0])
    assert document["schema"] == "gpucost.tco/1"
    return dict(document)


def test_a_file_and_options_over_it() -> None:
    document = answer_of("node.toml")
    assert (
        document["price_per_hour"],
        document["price_per_gpu_hour"],
        document["price_per_utilized_gpu_hour"],
    ) == (11.26, 1.4075, 2.815)
    assert document["inputs"]["gpu_model"] == "H100-80GB-HBM3"
    assert (document["not_given"], document["saved"]) == ([], None)
    assert answer_of("node.toml", "--price-per-kwh", "0.2")["price_per_hour"] == 11.86


def test_options_alone_name_what_counts_as_nothing() -> None:
    words = (
        "--purchase-price",
        "35040",
        "--gpus-per-node",
        "4",
        "--years",
        "4",
        "--price-per-kwh",
        "0",
        "--gpu-model",
        "L40S",
    )
    out, _ = call(*words)
    assert "1.000000000" in out
    assert "rated 350 W of L40S" in out and "--gpu-watts" in out
    assert "pue" in out and "staff_per_year" in out
    assert "--gpu-watts" in call(*words, "--format", "csv")[1]
    assert answer_of(*words, "--currency", "eur")["currency"] == "EUR"


def test_the_shipped_example_can_be_used() -> None:
    assert answer_of(str(pricing_dir() / "onprem.toml"))["price_per_hour"] > 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "purchase_price, gpus_per_node, years, price_per_kwh are missing"),
        (("none.toml",), "cannot read none.toml"),
        (("node.toml", "--years", "-1"), "--years is -1"),
        (("node.toml", "--utilization-percent", "0"), "--utilization-percent is 0"),
        (("node.toml", "--residual-percent", "101"), "--residual-percent is 101"),
        (("node.toml", "--pue", "nan"), "it should be a finite number"),
        (("node.toml", "--gpus-per-node", "1.5"), "it should be a whole number"),
        (("node.toml", "--purchase-price", "1e30"), "less than or equal to 1000000000000"),
        (("node.toml", "--currency", "dollars"), "for example USD"),
        (("misspelled.toml",), "did you mean purchase_price?"),
        (("unmeasured.toml",), "did you mean H100"),
        (("unstaffed.toml",), "staff_nodes is missing"),
        (("powerless.toml",), "neither gpu_model nor gpu_watts"),
        (("several.toml",), "may be RTX-PRO-4500, RTX-PRO-6000"),
        (("word.toml",), "word.toml: years is 'four'"),
        (("nonsense.toml",), "is not TOML"),
    ],
)
def test_what_cannot_be_used_is_named(work: Path, words: tuple[str, ...], message: str) -> None:
    whole = (work / "node.toml").read_text()
    bare = "purchase_price = 1\ngpus_per_node = 1\nyears = 1\nprice_per_kwh = 1\n"
    (work / "misspelled.toml").write_text(whole.replace("purchase_price", "purchase_prise"))
    (work / "unmeasured.toml").write_text(bare + "gpu_model = 'H101'\n")
    (work / "unstaffed.toml").write_text(bare + "gpu_watts = 1\nstaff_per_year = 5\n")
    (work / "powerless.toml").write_text(bare)
    (work / "several.toml").write_text(bare + "gpu_model = 'RTX PRO'\n")
    (work / "word.toml").write_text(whole.replace("years = 4", "years = 'four'"))
    (work / "nonsense.toml").write_text("years =\n")
    is_usage = len(words) != 1  # nothing at all, or an option: not a file's content
    out, err = call(*words, code=2 if is_usage else 1)
    assert message in err + out
    assert "fix:" in err


# --save


def test_save_writes_a_row_that_the_book_reads(work: Path) -> None:
    _, err = call(
        "node.toml", "--save", "--node-selector", "node-pool=dgx", "--effective-start", "2026-10-01"
    )
    assert "as its last line" in err
    (row,) = read_book(work / "book.csv", "USD", UTC)
    assert (row.price_per_hour, row.per, row.purchase_option) == (Decimal("11.26"), "node", None)
    assert [value for _, value in row.node_selector] == ["dgx"]
    call("node.toml", "--save", "--instance-type", "dgx-h100")
    assert len(read_book(work / "book.csv", "USD", UTC)) == 2


def test_save_replaces_its_own_row_and_keeps_the_rest(work: Path) -> None:
    rows = ("3,USD,p5.48xlarge,", "", "9,USD,dgx,eu", "8,USD,dgx,", "")
    text = "\r\n".join(("# contract 17", "price_per_hour,currency,instance_type,region", *rows))
    (work / "book.csv").write_bytes(text.encode())
    _, err = call("node.toml", "--save", "--instance-type", "DGX")
    assert "in place of line 6" in err
    assert (work / "book.csv").read_bytes() == text.replace("8,USD,dgx,", "11.260000000,USD,DGX,").encode()
    call("node.toml", "--save", "--node-selector", "pool=a", "--effective-start", "2026-10-01")
    call("node.toml", "--save", "--node-selector", "pool=a", "--effective-start", "2026-11-01")
    read = read_book(work / "book.csv", "USD", UTC)
    assert [row.price_per_hour for row in read] == [
        3,
        9,
        Decimal("11.26"),
        Decimal("11.26"),
        Decimal("11.26"),
    ]
    assert (work / "book.csv").read_bytes().startswith(b"# contract 17\r\n")
    assert (
        (work / "book.csv").read_bytes().count(b"\n") == (work / "book.csv").read_bytes().count(b"\r\n") == 8
    )


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--save",), 2, "--save needs the nodes"),
        (("--save", "--node-selector", "dgx"), 2, "which is not label=value"),
        (("--save", "--instance-type", "a\nb"), 2, "cannot stand in the price book"),
        (("--save", "--instance-type", "a", "--effective-start", "soon"), 2, "--effective-start"),
        (("--save", "--instance-type", "a", "--currency", "EUR"), 1, "no rate from EUR to USD"),
        (("--instance-type", "a"), 2, "needs --save"),
    ],
)
def test_save_refuses_what_the_book_could_not_hold(
    work: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    assert message in call("node.toml", *words, code=code)[1]
    assert not (work / "book.csv").exists()


def test_save_leaves_a_broken_book_alone(work: Path) -> None:
    (work / "book.csv").write_text("price_per_hour,currency\nfree,USD\n")
    assert "book.csv:2: price_per_hour" in call("node.toml", "--save", "--instance-type", "a", code=1)[1]
    assert (work / "book.csv").read_text() == "price_per_hour,currency\nfree,USD\n"


def test_save_puts_back_a_book_that_would_not_load(work: Path) -> None:
    text = "price_per_hour,currency,instance_type\n3,USD,a\n"
    (work / "book.csv").write_text(text)
    words = ("--purchase-price", "1e12", "--years", "0.0001")  # more digits than a price may have
    assert "as it was" in call("node.toml", "--save", "--instance-type", "b", *words, code=1)[1]
    assert (work / "book.csv").read_text() == text


def test_save_needs_a_configured_book(work: Path) -> None:
    (work / "gpucost.toml").write_text("")
    assert "no price book is configured" in call("node.toml", "--save", "--instance-type", "a", code=1)[1]


@settings(max_examples=8)
@given(
    st.text("\ufeff", max_size=1),
    st.sampled_from(["\n", "\r\n"]),
    st.lists(st.sampled_from(["# note", "", "3,USD,a", '4,USD,"b"']), max_size=4, unique=True),
    st.tuples(
        st.sampled_from(["a", "node-pool", "example.com/kind"]), st.text("Az9,\"' ._-", max_size=8)
    ).map(lambda pair: f"{pair[0]}={pair[1]}x"),
)
def test_any_book_with_an_entry_still_loads_and_keeps_its_lines(
    tmp_path_factory: pytest.TempPathFactory, mark: str, end: str, lines: list[str], selector: str
) -> None:
    text = mark + "".join(line + end for line in ["price_per_hour,currency,instance_type", *lines])
    entry = BookEntry(Decimal("2.5"), "USD", node_selector=selector)
    entry.check(UTC)
    after, replaced = with_entry(text, entry, UTC)
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(after.encode())
    prices = [row.price_per_hour for row in read_book(path, "USD", UTC)]
    assert (
        replaced is None
        and sorted(prices)[0] == Decimal("2.5")
        and len(prices) == 1 + sum("USD" in line for line in lines)
    )
    again, line = with_entry(after, replace(entry, price_per_hour=Decimal(7)), UTC)
    assert line == len(lines) + 2 and again == after.replace("2.5,USD", "7,USD")
    assert after.startswith(mark) and after.count(end) == len(lines) + 2
