"""Series are the report's own figures cut by time: whatever the cut, they add up to its totals."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pytest
from duckdb import DuckDBPyConnection as Connection

from gpucost.config.model import Config
from gpucost.periods import Period, month_period, to_ms
from gpucost.questions.report.build import build
from gpucost.questions.report.query import Query
from gpucost.questions.report.series import local_hours, moments_of, step_of
from gpucost.render.schema import to_dict
from gpucost.render.view import ReportView, Series, Table
from tests.golden.report_fleet import NOW, OCTOBER, Fleet, stored
from tests.text_tables import text_rows

MONTH = month_period(date(2026, 10, 1), ZoneInfo("UTC"))
DAY = Period(datetime(2026, 10, 2, tzinfo=UTC), datetime(2026, 10, 3, tzinfo=UTC))
PARTS = {
    "a month": {},
    "a team": {"teams": ("research",)},
    "a namespace": {"namespaces": ("ml-research",)},
    "a cluster": {"clusters": ("prod",)},
    "a day": {"period": DAY},
    "part of a day": {"period": Period(DAY.start, DAY.start + timedelta(hours=7))},
}


store = stored(hours=240)


@pytest.fixture(scope="module")
def con(store: Path) -> Iterator[Connection]:
    with duckdb.connect(str(store), read_only=True) as connection:
        yield connection


def view(con: Connection, **options: Any) -> ReportView:
    query: dict[str, Any] = {"period": MONTH, "period_name": "then", "now": NOW, "with_series": True}
    return build(con, Config(), Query(**query | options))


def series_of(report: ReportView) -> Series:
    assert report.series is not None
    return report.series


@pytest.mark.parametrize("options", PARTS.values(), ids=list(PARTS))
def test_every_cut_adds_up_to_the_report(con: Connection, options: dict[str, Any]) -> None:
    report = view(con, **options)
    series, totals = series_of(report), to_dict(report)["totals"]
    whole = totals["cost"] if totals["node_cost"] is None else totals["node_cost"]
    for stack in series.stacks:
        assert stack.total == sum(stack.totals) == sum(layer.total for layer in stack.layers) == whole
        assert all(len(layer.values) == len(series.moments) for layer in stack.layers)
    hours = {layer.kind: float(layer.total) for layer in series.hours.layers}
    for kind in ("active", "idle", "unmeasured", "unallocated"):
        assert hours.get(kind, 0) == pytest.approx(totals[f"{kind}_gpu_hours"] or 0)
    assert sum(map(sum, series.heat[0].part_gpu_hours)) == pytest.approx(totals["idle_gpu_hours"])
    assert len(series.heat) == (1 if totals["node_cost"] is None else 2)


def test_teams_are_layers_the_dearest_first_and_what_nobody_held_last(con: Connection) -> None:
    report = view(con)
    layers = series_of(report).stacks[0].layers
    costs = {row.keys["team"]: row.measures.cost for row in report.rows if row.kind == "allocated"}
    assert {layer.name: layer.total for layer in layers if layer.kind == "named"} == costs
    assert [layer.kind for layer in layers] == ["named", "named", "named", "unallocated"]
    assert [layer.total for layer in layers[:3]] == sorted(costs.values(), reverse=True)


@pytest.mark.parametrize(
    ("name", "value", "title"),
    [
        ("teams", "research", "namespace"), ("namespaces", "ml-research", "workload"), ("by", "day cluster", "cluster"),
        ("by", "gpu_model", "team"),
    ],
)  # fmt: skip
def test_who_is_told_apart(con: Connection, name: str, value: str, title: str) -> None:
    stack = series_of(view(con, **{name: tuple(value.split())})).stacks[0]
    assert stack.title == f"Cost by {title}"


def test_trends_are_the_cost_of_their_line(con: Connection) -> None:
    tables = [part for part in view(con).sections if isinstance(part, Table)]
    (top,) = (table for table in tables if table.title == "Top consumers")
    cost = [column.title for column in top.columns].index("Cost")
    assert top.lines
    for line in top.lines:
        assert (len(line.trend), sum(line.trend, Decimal(0))) == (31, line.cells[cost])


@pytest.mark.parametrize(("count", "folded"), [(8, []), (9, ["2 others"])])
def test_many_names_are_folded_but_never_one(tmp_path: Path, count: int, folded: list[str]) -> None:
    fleet = Fleet()
    fleet.node(1, "n", "A100", count, "spot", "9")
    for number in range(1, count + 1):
        fleet.pod(number, 1, f"ns-{number}", "p", "Pod/p")
    fleet.cell(OCTOBER, 1, [(number, f"team-{number}", 1, 1.0, 1.0) for number in range(1, count + 1)])
    fleet.write(tmp_path / "s")
    with duckdb.connect(str(tmp_path / "s"), read_only=True) as con:
        layers = series_of(view(con)).stacks[0].layers
    assert [layer.name for layer in layers if layer.kind == "others"] == folded
    assert sum(layer.total for layer in layers) == Decimal(9)


def test_the_hours_of_the_week_are_local(con: Connection) -> None:
    # the sample's T4 pods hold GPUs from 0 to 12 UTC: in Kolkata from 5:30 on, which counts for the hour it begins in
    utc = series_of(view(con, namespaces=("nlp-eval",))).heat[0].gpu_hours
    assert [bool(value) for value in utc[2]] == [hour < 12 for hour in range(24)]
    tz = ZoneInfo("Asia/Kolkata")
    period = month_period(date(2026, 10, 1), tz)
    parts = local_hours(period, tz, moments_of(period, tz, "day"))
    assert (parts[1].hour, parts[1].from_ms - to_ms(period.start)) == (0, 1_800_000)
    assert parts[0].weekday == date(2026, 10, 1).weekday()


STEPS = """
    1   | hour 24
    3   | hour 72
    4   | day 4
    31  | day 31
    101 | week 15
    800 | month 27
"""


@pytest.mark.parametrize(("days", "steps"), text_rows(STEPS))
def test_steps_are_as_fine_as_a_chart_can_show(days: str, steps: str) -> None:
    start = datetime(2026, 10, 1, tzinfo=UTC)  # a Thursday
    period = Period(start, start + timedelta(days=int(days)))
    moments = moments_of(period, ZoneInfo("UTC"), step_of(period))
    assert f"{step_of(period)} {len(moments)}" == steps
    ends = [one.to_ms for one in moments]
    assert [one.from_ms for one in moments] == [period.start_ms, *ends[:-1]] and ends[-1] == period.end_ms


def test_an_hour_that_clocks_show_twice_is_named_with_its_offset() -> None:
    tz = ZoneInfo("Europe/Berlin")
    start = datetime(2026, 10, 25, tzinfo=tz)
    names = [one.name for one in moments_of(Period(start, start + timedelta(days=1)), tz, "hour")]
    assert [name.removeprefix("2026-10-25 ") for name in names[1:5]] == [
        "01:00",
        "02:00 +0200",
        "02:00 +0100",
        "03:00",
    ]
    assert len(set(names)) == 25
