"""Every command that prints rows prints them in every format, and every JSON answer is as its schema says."""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import jsonschema
import pytest
from typer.testing import CliRunner

from gpucost import pipeline
from gpucost.cli.app import app
from gpucost.config.load import load_config
from gpucost.demo.build import build
from gpucost.periods import Period
from gpucost.render.rows import RowFormat
from gpucost.render.schema import ANSWERS as SCHEMAS
from gpucost.render.schema import schema as schema_of
from gpucost.report import Query
from gpucost.resources import pricing_dir
from gpucost.store.connection import Store
from tests.asked_once import ask_findings_once
from tests.replay import bill_files
from tests.replay.billing import charges
from tests.same_figures import check_same_figures
from tests.unit.test_price_bill_fleets import Billed, machines, rate

pytestmark = pytest.mark.slow

MONTH = Period(datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC))
BUDGETS = """
[[budgets]]
name = "fleet"
amount = 90000
efficiency = 0.8
spot_ratio = 0.7
[[budgets]]
name = "research"
team = "research"
idle_cost_share = 0.3
"""
# By schema, or by a name of their own where there is none.
ANSWERS = {
    "report": "report --by team,gpu_model",
    "waste": "waste --by team",
    "findings": "findings",
    "queue": "queue",
    "diff": "diff 2026-02-02 2026-02-09",
    "budget": "budget check --fail-on never",
    "forecast": "forecast --month 2026-02",
    "anomalies": "anomalies --min-cost 1",
    "unit.epoch": "unit epoch",
    "unit.experiment": "unit experiment",
    "unit.requests": "unit requests",
    "unit.tokens": "unit tokens",
    "store": "store info",
    "prices": "prices A100",
    "tco": f"prices tco {pricing_dir() / 'onprem.toml'}",
}
WITHOUT_SCHEMA = {
    "sql": "sql 'SELECT node, up_from_ms, gpu_count, capacity_type FROM nodes'",
    "prices of all": "prices",
    "config": "config show",
}
# Answers with lists of several kinds, in JSON and for people alone.
NESTED = {
    "explain.team": "explain team research",
    "explain.namespace": "explain namespace serving",
    "explain.workload": "explain workload Deployment/chat-api",
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    build(folder, MONTH, lambda _: None)
    with (folder / "gpucost.toml").open("a") as config:
        config.write(BUDGETS)
    return folder


@pytest.fixture(scope="module", autouse=True)
def _asked_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        ask_findings_once(patch)
        yield


@pytest.fixture
def _on_demo(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(demo)
    monkeypatch.setenv("HOME", str(demo))


def run(command: str, *options: str) -> str:
    result = CliRunner().invoke(app, [*shlex.split(command), *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def problems(name: str, answer: Any) -> list[str]:
    schema = json.loads(schema_of(name))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    return [f"{list(error.absolute_path)}: {error.message}" for error in validator.iter_errors(answer)]


@pytest.mark.usefixtures("_on_demo")
@pytest.mark.parametrize("name", [*ANSWERS, *WITHOUT_SCHEMA])
def test_rows_come_in_every_format_and_are_the_same(name: str, tmp_path: Path) -> None:
    command = (ANSWERS | WITHOUT_SCHEMA)[name]
    written = {}
    for how in RowFormat:
        file = tmp_path / f"answer.{how.value}"
        run(command, "--format", how.value, "-o", str(file))
        written[how] = file
    columns, *lines = csv.reader(written[RowFormat.csv].open(encoding="utf-8", newline=""))
    table = duckdb.read_parquet(str(written[RowFormat.parquet]))
    assert table.columns == columns
    rows = table.fetchall()
    assert len(rows) == len(lines) > 0
    for line, row in zip(lines, rows, strict=True):
        for column, text, value in zip(columns, line, row, strict=True):
            assert is_same(text, value), f"{column}: {text!r} in CSV, {value!r} in Parquet"
    assert json.loads(written[RowFormat.json].read_text(encoding="utf-8"))
    assert "| :-" in written[RowFormat.markdown].read_text(encoding="utf-8")
    assert "|" not in written[RowFormat.table].read_text(encoding="utf-8").splitlines()[0]


def is_same(text: str, value: object) -> bool:
    if value is None or text == "":
        return text == "" and value in (None, "")
    if isinstance(value, bool):
        return text == str(value).lower()
    if isinstance(value, int | float | Decimal):
        return float(text) == pytest.approx(float(value), abs=1e-9)
    if isinstance(value, datetime):
        return datetime.fromisoformat(text) == value
    return text.removeprefix("'") == str(value)


def test_the_month_is_the_same_in_every_format(demo: Path, tmp_path: Path) -> None:
    config = load_config(demo / "gpucost.toml")
    query = Query(period=MONTH, period_name="February 2026", by=("team",), now=MONTH.end, with_series=True)
    view = pipeline.report(config, Store(config.store), query)
    with Store(config.store).read() as con:
        check_same_figures(con, view, "2026-02", tmp_path)


@pytest.mark.usefixtures("_on_demo")
@pytest.mark.parametrize("name", [*ANSWERS, *NESTED])
def test_answers_are_as_their_schemas_say(name: str) -> None:
    answer = json.loads(run((ANSWERS | NESTED)[name], "--format", "json"))
    assert answer["schema"] == f"gpucost.{name}/1"
    assert problems(name, answer) == []
    assert problems(name, answer | {"surprise": 1}) or name == "report"  # whose minor versions may add to it
    assert problems(name, {key: value for key, value in answer.items() if key != "schema"})


@pytest.mark.usefixtures("_on_demo")
def test_prices_of_all_are_as_their_schema_says() -> None:
    assert problems("prices", json.loads(run("prices", "--format", "json"))) == []


@pytest.mark.usefixtures("_on_demo")
def test_a_node_is_as_its_schema_says() -> None:
    node = run("sql 'SELECT node FROM nodes LIMIT 1'", "--format", "csv").split()[1]
    assert problems("explain.node", json.loads(run(f"explain node {node}", "--format", "json"))) == []


@pytest.mark.usefixtures("_on_demo")
def test_waste_with_findings_is_as_its_schema_says() -> None:
    answer = json.loads(run("waste --findings 2", "--format", "json"))
    assert len(answer["findings"]) == 2 and problems("waste", answer) == []
    result = CliRunner().invoke(app, ["waste", "--findings", "2", "--format", "csv"])
    assert result.exit_code == 2 and "gpucost findings --format csv" in result.stderr


def test_bills_are_as_their_schemas_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Billed(tmp_path, machines("p4de.24xlarge"))
    (tmp_path / "gpucost.toml").write_text(f'[prices]\nbook = "{tmp_path / "prices.csv"}"\n')
    fleet.bill(bill_files.aws_cur(charges(fleet.fleet, rate)), "cur.csv", "aws")
    monkeypatch.chdir(tmp_path)
    store = ("--store", str(fleet.store.path))
    for by in ((), ("--by", "day,team")):
        # two days of the month were collected
        found = CliRunner().invoke(app, ["reconcile", "--month", "2026-03", "--format", "json", *by, *store])
        assert (found.exit_code, problems("reconcile", json.loads(found.stdout))) == (4, [])
    out = tmp_path / "out"
    for _ in range(2):
        assert CliRunner().invoke(app, ["chargeback", "--month", "2026-03", "--out", str(out), *store]).exit_code == 4
    index = json.loads((out / "2026-03" / "index.json").read_text(encoding="utf-8"))
    assert index["reconciliation"] and problems("chargeback", index) == []
    for report in (out / "2026-03").glob("**/*.json"):
        if report.name != "index.json":
            assert problems("report", json.loads(report.read_text(encoding="utf-8"))) == []


def test_the_command_lists_and_prints_schemas() -> None:
    listed = run("schema").split()
    assert listed == [*SCHEMAS]
    assert {*ANSWERS, *NESTED, "explain.node", "reconcile", "chargeback", "prices.history"} == set(listed)
    for name in listed:
        assert json.loads(run(f"schema {name}"))["title"] == f"gpucost.{name}/1"
    result = CliRunner().invoke(app, ["schema", "nothing"])
    assert result.exit_code == 2 and "takes one of: report," in result.stderr


def test_parquet_needs_a_file() -> None:
    result = CliRunner().invoke(app, ["config", "show", "--format", "parquet"])
    assert result.exit_code == 2 and "it needs a file" in result.stderr
