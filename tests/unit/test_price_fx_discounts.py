"""Currencies and negotiated discounts: their effect on prices, and when it applies."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gpucost.config.model import Config, Prices
from gpucost.errors import PriceError
from gpucost.periods import MS_PER_HOUR
from gpucost.price.fx import rates
from tests.text_tables import text_rows, words
from tests.unit.price_nodes import DAY, NODE, START, run, steps, told_steps

FX = "date,currency,rate\n2026-10-02,EUR,1.10\n2026-10-03,EUR,1.20\n2026-10-03,GBP,1.3\n"


def config(tmp_path: Path, text: str | None = None, **fx: str) -> Config:
    path = tmp_path / "fx.csv"
    if text is not None:
        path.write_text(text)
    return Config(
        prices=Prices(fx={k: Decimal(v) for k, v in fx.items()}, fx_rates=path if text is not None else None)
    )


def test_rate_is_valid_until_the_next_and_the_file_overrides_from_its_first_date(tmp_path: Path) -> None:
    known = rates(config(tmp_path, FX, EUR="1.05", CHF="1.1"))
    days = [date(2026, 10, day) for day in (1, 2, 3, 30)]
    converted = [str(known.convert(Decimal(2), "EUR", day, "a price")) for day in days]
    assert converted == ["2.10", "2.20", "2.40", "2.40"]
    for currency, worth in (("USD", "2"), ("CHF", "2.2")):
        assert known.convert(Decimal(2), currency, days[0], "a price") == Decimal(worth)
    missing = {"GBP": r" on 2026-10-02; .*fx\.csv begins on 2026-10-03", "SEK": ""}
    for currency, why in missing.items():
        with pytest.raises(PriceError, match=f"no rate from {currency} to USD{why}") as caught:
            known.convert(Decimal(2), currency, days[1], "a price")
        assert f"[prices] fx = {{ {currency} = … }}" in (caught.value.fix or "")


# a row after the rows of FX, or only a header
BAD = """
2026-10-04,EUR,0 | :5: rate: is 0
2026-10-04,EUR,-1 | :5: rate: is '-1'
2026-10-04,EUR,1.1e3 | :5: rate: is '1.1e3'
04.10.2026,EUR,1.1 | :5: date: is '04.10.2026'
2026-10-32,EUR,1.1 | :5: date: is '2026-10-32'
2026-10-04,euros,1.1 | :5: currency: is 'euros'
2026-10-04,USD,1 | :5: currency: is USD, the config's currency
2026-10-03,EUR,1.21 | :5: date: has a second rate of EUR
2026-10-04,EUR | :5: rate: the line has 2 fields
date,rate | :1: currency: is missing
date,currency,rates | :1: rates: not a column of a file of rates; did you mean rate
"""


@pytest.mark.parametrize(("line", "message"), text_rows(BAD))
def test_invalid_row_is_reported_with_file_line_and_column(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(PriceError) as caught:
        rates(config(tmp_path, (line if line.startswith("date") else FX + line) + "\n"))
    assert caught.value.message.startswith(f"{tmp_path / 'fx.csv'}{message}")


def test_missing_rates_file_and_a_rate_for_the_own_currency_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PriceError, match="cannot read the file of rates"):
        rates(Config(prices=Prices(fx_rates=tmp_path / "none.csv")))
    with pytest.raises(PriceError, match="fx has a rate for USD"):
        rates(config(tmp_path, USD="1"))


def test_price_segments_split_at_rate_changes_of_local_days(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    (tmp_path / "fx.csv").write_text(FX)
    settings = {"fx": {"EUR": "1.05"}, "fx_rates": tmp_path / "fx.csv"}
    node = NODE | {"up_to_ms": START + 72 * MS_PER_HOUR}
    book = [",,,p4d.24xlarge,on_demand,10,EUR", ",,,p4d.24xlarge,on_demand,10,USD,2026-10-02T12:00:00Z"]
    result = steps(run(con, [node], book, settings, timezone="Europe/Berlin"))
    assert result == told_steps("0 22 10.5, 22 36 11, 36 72 10")


def test_currency_without_a_rate_is_an_error(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    (tmp_path / "fx.csv").write_text(FX)
    book, late = [",,,p4d.24xlarge,on_demand,10,EUR"], {"fx_rates": tmp_path / "fx.csv"}
    for lines, prices, currency, message in (
        (book, {}, "USD", r"prices\.csv:2: currency: is 'EUR', which has no exchange rate"),
        (book, late, "USD", r"node n1 is priced in EUR \(price book line 2\): .* on 2026-10-01"),
        ([], {}, "EUR", r"node n1 is priced in USD .*: there is no rate from USD to EUR"),
    ):
        with pytest.raises(PriceError, match=message):
            run(con, [NODE], lines, prices, currency=currency)
    assert con.execute("SELECT count(*) FROM node_prices").fetchall() == [(0,)]
    # a price that is not used needs no rate
    assert steps(run(con, [NODE], [",,,,on_demand,5,EUR"], currency="EUR")) == told_steps("5")
    assert steps(run(con, [NODE], [], {"fx": {"USD": "0.5"}}, currency="EUR")) == told_steps("10.978821")


BOOK = [",,,,on_demand,10,USD", ",,,,spot,5,USD"]


# The differences of a node from NODE, the discounts of its day (30 % by default), and its price. Without a discount the price
# is 10, or 5 for spot. GPU names have underscores for spaces. A family ends at the end of a word or number.
DISCOUNTED = """
instance_type=p5.48xlarge | instance_family=p5 | 7
instance_type=p5.48xlarge | instance_family=P5 | 7
instance_type=p5en.48xlarge | instance_family=p5 | 10
instance_type=p5 | instance_family=p5 | 7
instance_type=p4d.24xlarge | instance_family=p4d.24xlarge | 7
instance_type=p5.48xlarge | instance_family=p | 7
instance_type=g16.xlarge | instance_family=g1 | 10
instance_type=Standard_ND96isr_H100_v5 | instance_family=Standard_ND | 7
instance_type=Standard_ND96isr_H100_v5 | instance_family=standard_nd96 | 10
instance_type=Standard_ND96isr_H100_v5 | instance_family=Standard_N | 10
instance_type=Standard_ND96isr_H100_v5 | instance_family=Standard_ | 7
instance_type=a3-megagpu-8g | instance_family=a3 | 7
instance_type=a3-megagpu-8g | instance_family=a3-mega | 10
instance_type= | instance_family=p5 | 10
 | percent=30; percent=12.5 | 6.125
 | provider=AWS | 7
 | provider=gcp | 10
 | gpu_model=nvidia_a100-sxm4-40gb | 7
gpu_model=T4 | gpu_model=t4 | 7
gpu_model=T4 | gpu_model=Tesla_T4 | 7
gpu_model=T4 | gpu_model=nvidia-tesla-t4 | 7
gpu_model=Own-X_9 | gpu_model=nvidia_own_x9 | 7
gpu_model=T4G | gpu_model=T4 | 10
 | gpu_model=H200 | 10
 | price_sources=catalog | 10
 | purchase_option=savings_plan | 7
capacity_type=spot | purchase_option=on_demand | 5
capacity_type=spot | purchase_option=spot | 3.5
"""


def terms(text: str) -> dict[str, Any]:
    named: dict[str, Any] = {name: value or None for name, value in words(text).items()}
    if "gpu_model" in named:
        named["gpu_model"] = named["gpu_model"].replace("_", " ")
    return named | ({"price_sources": [named["price_sources"]]} if "price_sources" in named else {})


def test_omitted_conditions_match_all_and_matching_discounts_multiply(con: duckdb.DuckDBPyConnection) -> None:
    nodes, discounts, expected = [], [], []
    for day, (node, rules, price) in enumerate(text_rows(DISCOUNTED)):
        begins = START + day * 24 * MS_PER_HOUR
        span = {"node_id": day, "up_from_ms": begins, "up_to_ms": begins + 24 * MS_PER_HOUR}
        nodes.append(NODE | terms(node) | span)
        first = DAY.date() + timedelta(day)
        dated = {"percent": 30, "effective_start": first, "effective_end": first + timedelta(1)}
        discounts += [dated | terms(one) for one in rules.split(";")]
        expected.append((day, Decimal(price)))
    prices = [(node, value) for node, _, _, value, _, _ in run(con, nodes, BOOK, {"discounts": discounts})]
    assert prices == expected


def test_unknown_gpu_model_is_refused(con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(PriceError, match=r"number 2: gpu_model 'H2000' is neither") as caught:
        run(con, [NODE], BOOK, {"discounts": [{"percent": 30}, {"percent": 30, "gpu_model": "H2000"}]})
    assert "H200" in (caught.value.fix or "")
    own = NODE | {"gpu_model": "H2000"}
    segments = run(con, [own], BOOK, {"discounts": [{"percent": 30, "gpu_model": "H2000"}]})
    assert steps(segments) == told_steps("7")


# a capacity type, the line that prices it at 10, and its prices on four days with a discount of 30 % on on-demand, or of 20 %
# on reserved, spot and capacity blocks
BOTH = """
reserved | on_demand | 0 24 7, 24 48 8, 48 96 10
reserved | savings_plan | 0 24 7, 24 48 8, 48 96 10
reserved | reserved | 0 24 10, 24 48 8, 48 96 10
reserved | | 0 24 10, 24 48 8, 48 96 10
flex_start | flex_start | 0 96 7
"""


def test_reserved_capacity_at_on_demand_prices_gets_both_discounts(con: duckdb.DuckDBPyConnection) -> None:
    rows = text_rows(BOTH)
    lasting = NODE | {"up_to_ms": START + 96 * MS_PER_HOUR}
    nodes = [
        lasting | {"node_id": number, "capacity_type": capacity, "instance_type": f"x{number}"}
        for number, (capacity, *_) in enumerate(rows)
    ]
    book = [f",,,x{number},{line},10,USD" for number, (_, line, _) in enumerate(rows)]
    discounts: list[dict[str, Any]] = [{"percent": 30, "purchase_option": "calendar"}]
    for day, (option, percent) in enumerate(
        (("on_demand", 30), ("reserved", 20), ("spot", 20), ("capacity_block", 20))
    ):
        first = DAY.date() + timedelta(day)
        span = {"effective_start": first, "effective_end": first + timedelta(1)}
        discounts.append({"percent": percent, "purchase_option": option, **span})
    segments = run(con, nodes, book, {"discounts": discounts})
    for number, (*_, prices) in enumerate(rows):
        assert steps([segment for segment in segments if segment[0] == number]) == told_steps(prices)


def test_discount_applies_to_its_local_days(con: duckdb.DuckDBPyConnection) -> None:
    node = NODE | {"up_to_ms": START + 72 * MS_PER_HOUR}
    rules = "percent=30 effective_start=2026-10-02 effective_end=2026-10-03; percent=50 effective_start=2026-10-03"
    discounts = [words(one) for one in f"{rules}; percent=10 effective_end=2026-10-03".split(";")]
    result = steps(run(con, [node], BOOK, {"discounts": discounts}, timezone="Europe/Berlin"))
    assert result == told_steps("0 22 9, 22 46 6.3, 46 72 5")


def test_discount_reduces_the_list_price(con: duckdb.DuckDBPyConnection) -> None:
    [(_, _, _, value, source, _)] = run(con, [NODE], [], {"discounts": [{"percent": 30}]})
    assert (value, source) == (Decimal("15.370349400"), "catalog")
