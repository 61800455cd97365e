"""`gpucost prices history`: time-weighted means, prices carried across period edges, and notes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpucost.questions import schema
from gpucost.store.connection import Store
from tests.text_tables import cells, text_rows
from tests.unit.command import call
from tests.unit.spot import FEED_HEAD, change, feed_line, write


@pytest.fixture
def folder(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "80")
    return nowhere


def history(*words: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(call("prices", "history", *words, "--format", "json")[0])
    return answer


def refused(*words: str) -> str:
    return call("prices", "history", *words, code=1)[1]


SEPTEMBER = ("--from", "2024-09-01", "--to", "2024-10-01")


def collect(folder: Path, text: str, name: str = "a.json") -> None:
    """Collect price changes: a day, a price, and optionally a zone and a product."""
    rows = []
    for line in text.splitlines():
        row = dict(zip(("when", "price", "zone", "product"), line.split(), strict=False))
        rows.append(change(**{name: value.replace("_", " ") for name, value in row.items()}))
    call("collect", "spot", str(write(folder / name, *rows)))


def test_mean_is_weighted_by_time_and_prices_cross_period_edges(folder: Path) -> None:
    # a repeated price is not a change
    collect(folder, "2024-08-20 1.0\n2024-09-11 2.0\n2024-09-15 2.0\n2024-09-21 4.0\n2024-10-05 9.0")
    answer = history("p3.2xlarge", "--zone", "us-east-1a", *SEPTEMBER)
    columns = (
        "schema mean_price_per_hour min_price_per_hour max_price_per_hour changes "
        "covered_hours not_covered_hours from to currency"
    )
    assert cells([answer], columns) == text_rows(
        "gpucost.prices.history/1 | 2.333333 | 1.0 | 4.0 | 2 | 720.0 | 0.0 | 2024-09-01T00:00:00Z | 2024-10-01T00:00:00Z | USD"
    )
    assert cells(answer["steps"], "from to price_per_hour") == text_rows("""
        2024-09-01T00:00:00Z | 2024-09-11T00:00:00Z | 1.0
        2024-09-11T00:00:00Z | 2024-09-21T00:00:00Z | 2.0
        2024-09-21T00:00:00Z | 2024-10-01T00:00:00Z | 4.0
    """)
    assert [zone["zone"] for zone in answer["zones"]] == ["us-east-1a"]


def test_time_before_the_first_price_is_not_covered(folder: Path) -> None:
    collect(folder, "2024-09-16 3.0")
    answer = history("p3.2xlarge", *SEPTEMBER)
    found = cells([answer], "covered_hours not_covered_hours mean_price_per_hour")
    assert found == [("360.0", "360.0", "3.0")]
    assert any("no price for 360.0 h" in note for note in answer["notes"])
    before = history("p3.2xlarge", "--from", "2024-01-01", "--to", "2024-02-01")
    assert (before["mean_price_per_hour"], before["steps"]) == (None, [])
    assert before["notes"] == ["no price in this period"]


def test_price_expires_after_the_collected_time(folder: Path) -> None:
    (folder / "gpucost.toml").write_text("[prices]\nstale_after_days = 10\n")
    collect(folder, "2024-01-01 1.0")
    collect(folder, "2024-03-01 2.0", "b.json")
    answer = history("p3.2xlarge", "--from", "2024-01-01", "--to", "2024-05-01")
    assert cells(answer["steps"], "from to") == text_rows("""
        2024-01-01T00:00:00Z | 2024-01-11T00:00:00.001Z
        2024-03-01T00:00:00Z | 2024-03-11T00:00:00.001Z
    """)
    assert answer["mean_price_per_hour"] == 1.5
    everything = cells([history("p3.2xlarge")], "from to")
    assert everything == [("2024-01-01T00:00:00Z", "2024-03-01T00:00:00.001Z")]


def test_spot_at_the_on_demand_price_has_zero_discount(folder: Path) -> None:
    collect(folder, "2024-08-20 3.06\n2024-08-20 0.918 us-east-1b\n2024-09-16 3.06 us-east-1b")
    same = history("p3.2xlarge", "--zone", "us-east-1a", *SEPTEMBER)
    found = cells([same], "mean_price_per_hour on_demand_price_per_hour discount")
    assert found == [("3.06", "3.06", "0.0")]
    note = "spot costs at least as much as on-demand here: no discount"
    assert same["notes"] == [note] and same["on_demand_price_as_of"]
    shown, _ = call("prices", "history", "p3.2xlarge", "--zone", "us-east-1a", *SEPTEMBER)
    assert f"us-east-1a: {note}" in " ".join(shown.split())
    half = history("p3.2xlarge", "--zone", "us-east-1b", *SEPTEMBER)
    assert half["discount"] == 0.35
    assert half["notes"] == ["at times spot cost at least as much as on-demand here: no discount then"]


def test_every_zone_has_its_mean(folder: Path) -> None:
    collect(
        folder,
        """2024-08-20 1.0
        2024-09-16 2.0
        2024-08-20 1.2 us-east-1b
        2024-08-20 0.9 eu-west-1a
        2024-08-20 7.0 eu-west-1a Windows
        2024-08-20 0.8 eu-west-1b Linux/UNIX_(Amazon_VPC)
        2024-08-20 7.0 eu-west-1c Windows""",
    )
    answer = history("P3.2xlarge", *SEPTEMBER)
    for document in (answer, history("p3.2xlarge", "--zone", "us-east-1a", *SEPTEMBER)):
        jsonschema.validate(document, json.loads(schema("prices.history")))
    assert "mean_price_per_hour" not in answer
    means = [("eu-west-1a", "0.9"), ("eu-west-1b", "0.8"), ("us-east-1a", "1.5"), ("us-east-1b", "1.2")]
    assert cells(answer["zones"], "zone mean_price_per_hour") == means
    for words, zones in (
        ("--region us-east-1", "us-east-1a us-east-1b"),
        ("--product windows", "eu-west-1a eu-west-1c"),
    ):
        found = history("p3.2xlarge", *words.split(), *SEPTEMBER)["zones"]
        assert [zone["zone"] for zone in found] == zones.split()
    with Store(folder / "gpucost.duckdb").write() as con:
        con.execute("UPDATE spot_prices SET currency = 'CNY' WHERE zone = 'eu-west-1a'")
    table, _ = call("prices", "history", "p3.2xlarge", *SEPTEMBER)
    assert "CNY 0.900000" in table and "  $1.500000" in table


def test_unknown_type_or_zone_names_the_known_ones(folder: Path) -> None:
    assert "store not found" in refused("p3.2xlarge")
    # the charged price of an instance is not a market price
    (folder / "feed").write_text(FEED_HEAD + feed_line("2024-09-01 07:00:00"))
    call("collect", "spot", "feed")
    assert "holds no spot prices" in refused("p3.2xlarge")
    collect(folder, "2024-08-20 1.0")
    message = refused("p3.2xlage")
    assert "no spot prices of p3.2xlage" in message and "did you mean p3.2xlarge" in message
    message = refused("p3.2xlarge", "--zone", "us-east-1x")
    assert "of p3.2xlarge in zone us-east-1x" in message and "known: us-east-1a" in message
