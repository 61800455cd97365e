"""Currencies and negotiated discounts: what they make of a price, and when."""

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
from tests.unit.price_nodes import DAY, NODE, START, run, steps

FX = "date,currency,rate\n2026-10-02,EUR,1.10\n2026-10-03,EUR,1.20\n2026-10-03,GBP,1.3\n"


def config(tmp_path: Path, text: str | None = None, **fx: str) -> Config:
    path = tmp_path / "fx.csv"
    if text is not None:
        path.write_text(text)
    return Config(
        prices=Prices(fx={k: Decimal(v) for k, v in fx.items()}, fx_rates=path if text is not None else None)
    )


def test_a_rate_holds_until_the_next_and_the_file_wins_from_its_first_date(tmp_path: Path) -> None:
    known = rates(config(tmp_path, FX, EUR="1.05", CHF="1.1"))
    days = [date(2026, 10, day) for day in (1, 2, 3, 30)]
    assert [known.convert(Decimal(2), "EUR", day, "a price") for day in days] == [
        Decimal(x) for x in ("2.10", "2.20", "2.40", "2.40")
    ]
    assert known.convert(Decimal(2), "USD", days[0], "a price") == 2
    assert known.convert(Decimal(2), "CHF", days[0], "a price") == Decimal("2.2")
    with pytest.raises(
        PriceError, match=r"no rate from GBP to USD on 2026-10-02; .*fx\.csv begins on 2026-10-03"
    ) as caught:
        known.convert(Decimal(2), "GBP", days[1], "a price")
    assert "[prices] fx = { GBP = … }" in (caught.value.fix or "")
    with pytest.raises(PriceError, match="no rate from SEK to USD"):
        known.convert(Decimal(2), "SEK", days[1], "a price")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (FX + "2026-10-04,EUR,0\n", ":5: rate: is 0"),
        (FX + "2026-10-04,EUR,-1\n", ":5: rate: is '-1'"),
        (FX + "2026-10-04,EUR,1.1e3\n", ":5: rate: is '1.1e3'"),
        (FX + "04.10.2026,EUR,1.1\n", ":5: date: is '04.10.2026'"),
        (FX + "2026-10-32,EUR,1.1\n", ":5: date: is '2026-10-32'"),
        (FX + "2026-10-04,euros,1.1\n", ":5: currency: is 'euros'"),
        (FX + "2026-10-04,USD,1\n", ":5: currency: is USD, the config's own"),
        (FX + "2026-10-03,EUR,1.21\n", ":5: date: has a second rate of EUR"),
        (FX + "2026-10-04,EUR\n", ":5: rate: the line has 2 fields"),
        ("date,rate\n", ":1: currency: is missing"),
        ("date,currency,rates\n", ":1: rates: is no column of a file of rates; did you mean rate"),
    ],
)
def test_a_bad_row_names_file_line_and_column(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(PriceError) as caught:
        rates(config(tmp_path, text))
    assert caught.value.message.startswith(f"{tmp_path / 'fx.csv'}{said}")


def test_a_missing_file_and_a_rate_of_the_currency_itself_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PriceError, match="cannot read the file of rates"):
        rates(Config(prices=Prices(fx_rates=tmp_path / "none.csv")))
    with pytest.raises(PriceError, match="fx has a rate for USD"):
        rates(config(tmp_path, USD="1"))


def test_prices_are_cut_where_the_rate_of_a_local_day_changes(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    (tmp_path / "fx.csv").write_text(FX)
    settings = {"fx": {"EUR": "1.05"}, "fx_rates": tmp_path / "fx.csv"}
    node = NODE | {"up_to_ms": START + 72 * MS_PER_HOUR}
    book = [",,,p4d.24xlarge,on_demand,10,EUR", ",,,p4d.24xlarge,on_demand,10,USD,2026-10-02T12:00:00Z"]
    expected = [(0, 22, Decimal("10.5")), (22, 36, Decimal(11)), (36, 72, Decimal(10))]
    assert steps(run(con, [node], book, settings, timezone="Europe/Berlin")) == expected


def test_a_currency_without_a_rate_is_an_error(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    with pytest.raises(PriceError, match=r"prices\.csv:2: currency: is 'EUR', but the config has no rate"):
        run(con, [NODE], [",,,p4d.24xlarge,on_demand,10,EUR"])
    (tmp_path / "fx.csv").write_text(FX)
    with pytest.raises(PriceError, match=r"node n1 is priced in EUR \(price book line 2\): .* on 2026-10-01"):
        run(con, [NODE], [",,,p4d.24xlarge,on_demand,10,EUR"], {"fx_rates": tmp_path / "fx.csv"})
    with pytest.raises(PriceError, match=r"node n1 is priced in USD .*: there is no rate from USD to EUR"):
        run(con, [NODE], [], currency="EUR")
    assert con.execute("SELECT count(*) FROM node_prices").fetchall() == [(0,)]
    # what does not win needs no rate
    assert steps(run(con, [NODE], [",,,,on_demand,5,EUR"], currency="EUR")) == [(0, 24, Decimal(5))]
    assert steps(run(con, [NODE], [], {"fx": {"USD": "0.5"}}, currency="EUR")) == [
        (0, 24, Decimal("10.978821"))
    ]


BOOK = [",,,,on_demand,10,USD", ",,,,spot,5,USD"]


FAMILIES = [
    ("p5", "p5.48xlarge", True),
    ("P5", "p5.48xlarge", True),
    ("p5", "p5en.48xlarge", False),
    ("p5", "p5", True),
    ("p4d.24xlarge", "p4d.24xlarge", True),
    ("p", "p5.48xlarge", True),
    ("g1", "g16.xlarge", False),
    ("Standard_ND", "Standard_ND96isr_H100_v5", True),
    ("standard_nd96", "Standard_ND96isr_H100_v5", False),
    ("Standard_N", "Standard_ND96isr_H100_v5", False),
    ("Standard_", "Standard_ND96isr_H100_v5", True),
    ("a3", "a3-megagpu-8g", True),
    ("a3-mega", "a3-megagpu-8g", False),
    ("p5", None, False),
]
SPOT = {"capacity_type": "spot"}
# A node, the discounts of its day, and its price.
DISCOUNTED: list[tuple[dict[str, Any], list[dict[str, Any]], str]] = [
    *(
        ({"instance_type": kind}, [{"instance_family": family}], "7" if fits else "10")
        for family, kind, fits in FAMILIES
    ),
    ({}, [{}, {"percent": "12.5"}], "6.125"),
    ({}, [{"provider": "AWS"}], "7"),
    ({}, [{"provider": "gcp"}], "10"),
    ({}, [{"gpu_model": "nvidia a100-sxm4-40gb"}], "7"),
    *(({"gpu_model": "T4"}, [{"gpu_model": name}], "7") for name in ("t4", "Tesla T4", "nvidia-tesla-t4")),
    ({"gpu_model": "Own-X 9"}, [{"gpu_model": "nvidia own x9"}], "7"),
    ({"gpu_model": "T4G"}, [{"gpu_model": "T4"}], "10"),
    ({}, [{"gpu_model": "H200"}], "10"),
    ({}, [{"price_sources": ["catalog"]}], "10"),
    ({}, [{"purchase_option": "savings_plan"}], "7"),
    (SPOT, [{"purchase_option": "on_demand"}], "5"),
    (SPOT, [{"purchase_option": "spot"}], "3.5"),
]


def test_what_is_left_out_matches_anything_and_all_that_match_multiply(
    con: duckdb.DuckDBPyConnection,
) -> None:
    """A family ends where a word or number does."""
    nodes, discounts = [], []
    for day, (node, terms, _) in enumerate(DISCOUNTED):
        begins = START + day * 24 * MS_PER_HOUR
        nodes.append(
            NODE | node | {"node_id": day, "up_from_ms": begins, "up_to_ms": begins + 24 * MS_PER_HOUR}
        )
        span = {"effective_start": DAY + timedelta(day), "effective_end": DAY + timedelta(day + 1)}
        discounts += [
            {"percent": 30} | {name: moment.date() for name, moment in span.items()} | one for one in terms
        ]
    prices = [(node, value) for node, _, _, value, _, _ in run(con, nodes, BOOK, {"discounts": discounts})]
    assert prices == [(day, Decimal(price)) for day, (_, _, price) in enumerate(DISCOUNTED)]


def test_a_gpu_model_that_nobody_knows_is_refused(con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(PriceError, match=r"number 2: gpu_model 'H2000' is no GPU model") as caught:
        run(con, [NODE], BOOK, {"discounts": [{"percent": 30}, {"percent": 30, "gpu_model": "H2000"}]})
    assert "H200" in (caught.value.fix or "")
    own = NODE | {"gpu_model": "H2000"}
    assert steps(run(con, [own], BOOK, {"discounts": [{"percent": 30, "gpu_model": "H2000"}]})) == [
        (0, 24, Decimal(7))
    ]


def test_reserved_capacity_that_is_paid_on_demand_has_the_discounts_of_both(
    con: duckdb.DuckDBPyConnection,
) -> None:
    lines = ("on_demand", "savings_plan", "reserved", "")
    reserved = NODE | {"capacity_type": "reserved", "up_to_ms": START + 96 * MS_PER_HOUR}
    nodes = [reserved | {"node_id": number, "instance_type": f"x{number}"} for number in range(len(lines))]
    nodes.append(NODE | {"node_id": 9, "capacity_type": "flex_start", "instance_type": "x1"})
    book = [*(f",,,x{number},{line},10,USD" for number, line in enumerate(lines)), ",,,x1,flex_start,10,USD"]
    days = {"on_demand": 30, "reserved": 20, "spot": 20, "capacity_block": 20}
    discounts: list[dict[str, Any]] = [
        {"percent": percent, "purchase_option": option, "effective_start": DAY.date() + timedelta(day)}
        | {"effective_end": DAY.date() + timedelta(day + 1)}
        for day, (option, percent) in enumerate(days.items())
    ]
    discounts.append({"percent": 30, "purchase_option": "calendar"})
    segments = run(con, nodes, book, {"discounts": discounts})
    prices = {(node, start): value for node, start, _, value, _, _ in segments}
    first = {0: 7, 1: 7, 2: 10, 3: 10}
    expected = {
        (node, start): price for node in first for start, price in ((0, first[node]), (24, 8), (48, 10))
    }
    assert prices == expected | {(9, 0): 7}


def test_a_discount_holds_for_its_local_days(con: duckdb.DuckDBPyConnection) -> None:
    node = NODE | {"up_to_ms": START + 72 * MS_PER_HOUR}
    settings = {
        "discounts": [
            {"percent": 30, "effective_start": "2026-10-02", "effective_end": "2026-10-03"},
            {"percent": 50, "effective_start": "2026-10-03"},
            {"percent": 10, "effective_end": "2026-10-03"},
        ]
    }
    result = steps(run(con, [node], BOOK, settings, timezone="Europe/Berlin"))
    assert result == [(0, 22, Decimal(9)), (22, 46, Decimal("6.3")), (46, 72, Decimal(5))]


def test_a_discount_is_taken_off_the_list_price(con: duckdb.DuckDBPyConnection) -> None:
    [(_, _, _, value, source, _)] = run(con, [NODE], [], {"discounts": [{"percent": 30}]})
    assert (value, source) == (Decimal("15.370349400"), "catalog")
