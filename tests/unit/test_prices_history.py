"""`gpucost prices history`: means weighted by time, prices carried across edges, and what a reader is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.questions import schema
from gpucost.store.connection import Store
from tests.unit.spot import change, write


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


def history(*words: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(run("prices", "history", *words, "--format", "json"))
    return answer


SEPTEMBER = ("--from", "2024-09-01", "--to", "2024-10-01")


def test_the_mean_is_weighted_by_time_and_carried_over_the_edges(folder: Path) -> None:
    changes = [
        change("2024-08-20", "1.0"),
        change("2024-09-11", "2.0"),
        change("2024-09-21", "4.0"),
        change("2024-10-05", "9.0"),
    ]
    run("collect", "spot", str(write(folder / "a.json", *changes)))
    answer = history("p3.2xlarge", "--zone", "us-east-1a", *SEPTEMBER)
    assert answer["schema"] == "gpucost.prices.history/1"
    assert answer["mean_price_per_hour"] == 2.333333
    assert (answer["min_price_per_hour"], answer["max_price_per_hour"], answer["changes"]) == (1.0, 4.0, 2)
    assert (answer["covered_hours"], answer["not_covered_hours"]) == (720.0, 0.0)
    assert answer["steps"] == [
        {"from": "2024-09-01T00:00:00Z", "to": "2024-09-11T00:00:00Z", "price_per_hour": 1.0},
        {"from": "2024-09-11T00:00:00Z", "to": "2024-09-21T00:00:00Z", "price_per_hour": 2.0},
        {"from": "2024-09-21T00:00:00Z", "to": "2024-10-01T00:00:00Z", "price_per_hour": 4.0},
    ]
    assert (answer["from"], answer["to"], answer["currency"]) == (
        "2024-09-01T00:00:00Z",
        "2024-10-01T00:00:00Z",
        "USD",
    )
    assert [zone["zone"] for zone in answer["zones"]] == ["us-east-1a"]


def test_a_price_told_again_is_no_change(folder: Path) -> None:
    changes = [change("2024-08-20", "1.0"), change("2024-09-11", "1.0"), change("2024-09-21", "1.0")]
    run("collect", "spot", str(write(folder / "a.json", *changes)))
    answer = history("p3.2xlarge", *SEPTEMBER)
    assert (answer["changes"], len(answer["steps"]), answer["mean_price_per_hour"]) == (0, 1, 1.0)


def test_time_before_the_first_price_is_not_covered(folder: Path) -> None:
    run("collect", "spot", str(write(folder / "a.json", change("2024-09-16", "3.0"))))
    answer = history("p3.2xlarge", *SEPTEMBER)
    assert (answer["covered_hours"], answer["not_covered_hours"], answer["mean_price_per_hour"]) == (
        360.0,
        360.0,
        3.0,
    )
    assert any("no price is known for 360.0 h" in note for note in answer["notes"])
    before = history("p3.2xlarge", "--from", "2024-01-01", "--to", "2024-02-01")
    assert before["mean_price_per_hour"] is None
    assert before["steps"] == []
    assert before["notes"] == ["no price is known in this period"]


def test_a_price_ends_some_time_after_what_was_collected(folder: Path) -> None:
    (folder / "gpucost.toml").write_text("[prices]\nstale_after_days = 10\n")
    run("collect", "spot", str(write(folder / "a.json", change("2024-01-01", "1.0"))))
    run("collect", "spot", str(write(folder / "b.json", change("2024-03-01", "2.0"))))
    answer = history("p3.2xlarge", "--from", "2024-01-01", "--to", "2024-05-01")
    assert [(step["from"], step["to"]) for step in answer["steps"]] == [
        ("2024-01-01T00:00:00Z", "2024-01-11T00:00:00.001Z"),
        ("2024-03-01T00:00:00Z", "2024-03-11T00:00:00.001Z"),
    ]
    assert answer["mean_price_per_hour"] == 1.5
    everything = history("p3.2xlarge")
    assert everything["from"] == "2024-01-01T00:00:00Z"
    assert everything["to"] == "2024-03-01T00:00:00.001Z"


def test_spot_at_the_price_of_on_demand_is_a_price_and_no_discount(folder: Path) -> None:
    changes = [
        change("2024-08-20", "3.06"),
        change("2024-08-20", "0.918", "us-east-1b"),
        change("2024-09-16", "3.06", "us-east-1b"),
    ]
    run("collect", "spot", str(write(folder / "a.json", *changes)))
    same = history("p3.2xlarge", "--zone", "us-east-1a", *SEPTEMBER)
    assert (same["mean_price_per_hour"], same["on_demand_price_per_hour"], same["discount"]) == (
        3.06,
        3.06,
        0.0,
    )
    assert same["notes"] == ["spot costs as much as on demand here: there is no discount"]
    assert same["on_demand_price_as_of"]
    result = CliRunner().invoke(app, ["prices", "history", "p3.2xlarge", "--zone", "us-east-1a", *SEPTEMBER])
    assert "us-east-1a: spot costs as much as on demand here: there is no discount" in " ".join(
        result.stdout.split()
    )
    half = history("p3.2xlarge", "--zone", "us-east-1b", *SEPTEMBER)
    assert half["discount"] == 0.35
    assert half["notes"] == ["at times spot cost as much as on demand here, and there was no discount"]


def test_every_zone_has_its_mean(folder: Path) -> None:
    changes = [
        change("2024-08-20", "1.0"),
        change("2024-09-16", "2.0"),
        change("2024-08-20", "1.2", "us-east-1b"),
        change("2024-08-20", "0.9", "eu-west-1a"),
        change("2024-08-20", "7.0", "eu-west-1a", product="Windows"),
        change("2024-08-20", "0.8", "eu-west-1b", product="Linux/UNIX (Amazon VPC)"),
        change("2024-08-20", "7.0", "eu-west-1c", product="Windows"),
    ]
    run("collect", "spot", str(write(folder / "a.json", *changes)))
    answer = history("P3.2xlarge", *SEPTEMBER)
    for document in (answer, history("p3.2xlarge", "--zone", "us-east-1a", *SEPTEMBER)):
        jsonschema.validate(document, json.loads(schema("prices.history")))
    assert "mean_price_per_hour" not in answer
    assert [(zone["zone"], zone["mean_price_per_hour"]) for zone in answer["zones"]] == [
        ("eu-west-1a", 0.9),
        ("eu-west-1b", 0.8),
        ("us-east-1a", 1.5),
        ("us-east-1b", 1.2),
    ]
    assert [zone["zone"] for zone in history("p3.2xlarge", "--region", "us-east-1", *SEPTEMBER)["zones"]] == [
        "us-east-1a",
        "us-east-1b",
    ]
    assert [zone["zone"] for zone in history("p3.2xlarge", "--product", "windows", *SEPTEMBER)["zones"]] == [
        "eu-west-1a",
        "eu-west-1c",
    ]
    with Store(folder / "gpucost.duckdb").write() as con:
        con.execute("UPDATE spot_prices SET currency = 'CNY' WHERE zone = 'eu-west-1a'")
    table = run("prices", "history", "p3.2xlarge", *SEPTEMBER)
    assert "CNY 0.900000" in table and "  $1.500000" in table


def test_instances_own_prices_are_no_market(folder: Path) -> None:
    from tests.unit.spot import FEED_HEAD, feed_line

    (folder / "feed").write_text(FEED_HEAD + feed_line("2024-09-01 07:00:00"))
    run("collect", "spot", "feed")
    assert "holds no spot prices" in run("prices", "history", "p3.2xlarge", code=1)


def test_what_is_not_known_is_said_with_what_is(folder: Path) -> None:
    assert "there is no store" in run("prices", "history", "p3.2xlarge", code=1)
    run("collect", "spot", str(write(folder / "a.json", change("2024-08-20", "1.0"))))
    message = run("prices", "history", "p3.2xlage", code=1)
    assert "no spot prices of p3.2xlage" in message
    assert "the store knows p3.2xlarge" in message
    message = run("prices", "history", "p3.2xlarge", "--zone", "us-east-1x", code=1)
    assert "of p3.2xlarge in zone us-east-1x" in message
    assert "known are us-east-1a" in message
