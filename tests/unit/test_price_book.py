"""Handwritten price books: how fields are read, and errors with file, line and column."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gpucost.config.model import Config, Prices
from gpucost.errors import PriceError
from gpucost.price.book import BookRow, book_digest, read_book
from tests.text_tables import cells, text_rows

HEADER = "provider,region,zone,instance_type,purchase_option,price_per_hour,currency,effective_start"
BERLIN = ZoneInfo("Europe/Berlin")


def read(tmp_path: Path, text: str | bytes, currency: str = "USD") -> list[BookRow]:
    path = tmp_path / "prices.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_book(path, currency, BERLIN)


def test_every_field_is_read(tmp_path: Path) -> None:
    header = HEADER + ",per,node_selector"
    line = "AWS,us-east-1,us-east-1a,P4D.24xlarge,on-demand,32.10,USD,2026-10-01T12:00:00Z,gpu,pool=a;example.com/kind=x y"
    [row] = read(tmp_path, f"{header}\n{line}\n")
    columns = "line provider region zone instance_type purchase_option price_per_hour currency per"
    assert cells([vars(row)], columns) == text_rows(
        "2 | aws | us-east-1 | us-east-1a | p4d.24xlarge | on_demand | 32.10 | USD | gpu"
    )
    assert row.node_selector == (("label_example_com_kind", "x y"), ("label_pool", "a"))
    assert row.effective_start == (datetime(2026, 10, 1, 12, tzinfo=UTC), date(2026, 10, 1))


def test_byte_order_mark_comments_and_blank_lines_are_ignored(tmp_path: Path) -> None:
    lines = ("\ufeff# our contract", HEADER, "", "# A100", ",,,p4d.24xlarge,spot,12,usd,", ",,,,,,,", "", "")
    [row] = read(tmp_path, "\r\n".join(lines))
    assert (row.line, row.purchase_option, row.price_per_hour) == (5, "spot", 12)
    assert row.effective_start[0] is None


def test_columns_may_be_in_any_order_and_most_are_optional(tmp_path: Path) -> None:
    [row] = read(tmp_path, 'currency,price_per_hour,instance_type\nUSD,"0.125",dgx\n')
    assert (row.instance_type, row.purchase_option, row.price_per_hour) == ("dgx", None, Decimal("0.125"))


def test_final_is_true_or_false(tmp_path: Path) -> None:
    rows = read(tmp_path, "currency,price_per_hour,region,final\nUSD,1,a,True\nUSD,1,b,false\nUSD,1,c,\n")
    assert [row.final for row in rows] == [True, False, False]
    with pytest.raises(PriceError, match=r"prices.csv:2: final: is 'yes', not one of false, true"):
        read(tmp_path, "currency,price_per_hour,final\nUSD,1,yes\n")


def test_date_without_time_is_local_midnight(tmp_path: Path) -> None:
    summer, winter = read(tmp_path, f"{HEADER}\n,,,a,,1,USD,2026-10-25\n,,,a,,2,USD,2026-10-26\n")
    assert summer.effective_start == (datetime(2026, 10, 24, 22, tzinfo=UTC), date(2026, 10, 25))
    assert winter.effective_start == (datetime(2026, 10, 25, 23, tzinfo=UTC), date(2026, 10, 26))


def test_decimals_are_exact(tmp_path: Path) -> None:
    rows = read(tmp_path, f"{HEADER}\n,,,a,,0.000000000001,USD,\n,,,b,,123456789.123456789012,USD,\n")
    assert [str(row.price_per_hour) for row in rows] == ["1E-12", "123456789.123456789012"]


BAD = """
,,,a,spot,0,USD, | price_per_hour | above zero
,,,a,spot,0.00,USD, | price_per_hour | above zero
,,,a,spot,-1,USD, | price_per_hour | '-1'
,,,a,spot,NaN,USD, | price_per_hour | 'NaN'
,,,a,spot,inf,USD, | price_per_hour | 'inf'
,,,a,spot,1e3,USD, | price_per_hour | '1e3'
,,,a,spot,1_000,USD, | price_per_hour | '1_000'
,,,a,spot,"1,5",USD, | price_per_hour | '1,5'
,,,a,spot,$3.06,USD, | price_per_hour | '$3.06'
,,,a,spot,,USD, | price_per_hour | empty
,,,a,spot,0.1234567890123,USD, | price_per_hour | 12 decimals
,,,a,spot,1234567890,USD, | price_per_hour | 9 digits
,,,a,spot,1,EUR, | currency | 'EUR'
,,,a,spot,1,, | currency | empty
,,,a,preemptible,1,USD, | purchase_option | 'preemptible'
,,,a,spot,1,USD,01/10/2026 | effective_start | '01/10/2026'
,,,a,spot,1,USD,2026-13-01 | effective_start | '2026-13-01'
,,,a,spot,1,USD,2026-10-01T12:00:00 | effective_start | no time zone
,,,a,spot,1,USD | effective_start | 7 fields
,,,a,spot,1,USD,, | column 9 | 9 fields
"""


@pytest.mark.parametrize(("line", "column", "reason"), text_rows(BAD))
def test_invalid_field_is_reported_with_file_line_and_column(
    tmp_path: Path, line: str, column: str, reason: str
) -> None:
    with pytest.raises(PriceError) as caught:
        read(tmp_path, f"{HEADER}\n,,,ok,spot,1,USD,\n{line}\n")
    assert caught.value.message.startswith(f"{tmp_path / 'prices.csv'}:3: {column}: ")
    assert reason in caught.value.message
    assert caught.value.fix


@pytest.mark.parametrize("selector", ["pool", "=a", "pool=", "pool=a;pool=b"])
def test_invalid_selector_is_refused(tmp_path: Path, selector: str) -> None:
    with pytest.raises(PriceError, match=r"prices.csv:2: node_selector: "):
        read(tmp_path, f"price_per_hour,currency,node_selector\n1,USD,{selector}\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("# nothing\n\n", "is empty"),
        (
            HEADER.replace("price_per_hour", "price_hour") + "\n",
            r":1: price_hour: not a column .* did you mean price_per_hour\?",
        ),
        ("instance_type,price_per_hour\na,1\n", ":1: currency: is missing in the header"),
        (HEADER + ",zone\n", ":1: zone: appears twice"),
        (HEADER.replace(",", ";") + "\n", ":1: provider;region"),
        (HEADER + '\n,,,"a,spot,1,USD,\n', ":2: is not a line of CSV"),
        (HEADER.encode("utf-16"), "not UTF-8"),
        (HEADER.encode() + b"\n,,,\xe4,spot,1,USD,\n", "not UTF-8"),
    ],
)
def test_invalid_price_book_is_refused(tmp_path: Path, text: str | bytes, problem: str) -> None:
    with pytest.raises(PriceError, match=problem):
        read(tmp_path, text)


def test_conflicting_prices_name_both_lines(tmp_path: Path) -> None:
    with pytest.raises(PriceError, match="lines 2 and 4"):
        read(tmp_path, f"{HEADER}\n,,,a,on_demand,1,USD,\n,,,a,spot,1,USD,\n,,,A,cud,2,USD,\n")
    same_instant = ",,,a,spot,1,USD,2026-10-01T00:00:00Z\n,,,a,spot,2,USD,2026-10-01T02:00:00+02:00\n"
    with pytest.raises(PriceError, match="lines 2 and 3"):
        read(tmp_path, f"{HEADER}\n{same_instant}")


def test_missing_price_book_names_its_setting(tmp_path: Path) -> None:
    config = Config(prices=Prices(book=tmp_path / "nowhere.csv"))
    with pytest.raises(PriceError, match=r"nowhere\.csv: No such file") as caught:
        read_book(tmp_path / "nowhere.csv", "USD", config.tz)
    assert "[prices] book" in (caught.value.fix or "")
    with pytest.raises(PriceError, match=r"nowhere\.csv"):
        book_digest(config)


def test_digest_changes_with_the_text(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("a")
    config = Config(prices=Prices(book=path))
    before = book_digest(config)
    path.write_text("b")
    assert before and book_digest(config) != before
    assert book_digest(Config()) == ""
