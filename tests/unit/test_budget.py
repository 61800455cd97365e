"""Forecasts, budgets and unusual days: on series made by hand, and as commands on a store filled by hand."""

from __future__ import annotations

import json
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gpucost.budget import Days, Series, anomalies, check, days_of, forecast
from gpucost.cli.app import app
from gpucost.config import Config
from gpucost.errors import PriceError
from gpucost.model import Period
from gpucost.report import Query, ReportView, build
from gpucost.store import Store
from tests.golden.report_fleet import OCTOBER, UTC_ZONE, sample

FLEET = Series("fleet")
SEPTEMBER = date(2026, 9, 1)
D = Decimal


def month_of(first: date, count: int) -> list[date]:
    return [first + timedelta(days=index) for index in range(count)]


OCTOBER_DAYS = month_of(date(2026, 10, 1), 31)


def days(costs: dict[date, Decimal], every: list[date], series: Series = FLEET) -> Days:
    return Days(tuple(every), tuple(sorted(costs)), {series: costs})


def weekly(day: date) -> Decimal:
    return D(40) if day.weekday() >= 5 else D(100)


def test_missing_days_cost_what_their_weekday_costs() -> None:
    known = {day: weekly(day) for day in month_of(SEPTEMBER, 40)}  # up to October 10
    told = forecast(days(known, month_of(SEPTEMBER, 61)), FLEET, OCTOBER_DAYS)
    assert told.to_date == sum(weekly(day) for day in OCTOBER_DAYS[:10])
    assert told.expected == sum(weekly(day) for day in OCTOBER_DAYS)
    assert told.low == told.expected == told.high  # no day ever strayed
    assert (told.open_days, told.history_days) == (21, 28)


def test_one_odd_day_moves_nothing() -> None:
    known = {day: weekly(day) for day in month_of(SEPTEMBER, 40)} | {date(2026, 9, 22): D(90_000)}
    assert forecast(days(known, month_of(SEPTEMBER, 61)), FLEET, OCTOBER_DAYS).expected == sum(map(weekly, OCTOBER_DAYS))


def test_a_day_partly_known_costs_at_least_what_is_known_of_it() -> None:
    known = {day: weekly(day) for day in month_of(SEPTEMBER, 60)}
    today = date(2026, 10, 31)
    for so_far, whole in ((30, 40), (70, 70)):  # a Saturday
        every = Days(tuple(month_of(SEPTEMBER, 61)), tuple(known), {FLEET: known | {today: D(so_far)}})
        told = forecast(every, FLEET, OCTOBER_DAYS)
        assert told.expected == sum(map(weekly, OCTOBER_DAYS[:-1])) + whole
        assert told.low == told.expected


def test_a_month_that_is_known_is_no_forecast_and_two_days_tell_nothing() -> None:
    known = {day: weekly(day) for day in OCTOBER_DAYS}
    told = forecast(days(known, OCTOBER_DAYS), FLEET, OCTOBER_DAYS)
    assert told.to_date == told.expected == told.low == told.high
    begun = {day: weekly(day) for day in OCTOBER_DAYS[:2]}
    few = forecast(days(begun, OCTOBER_DAYS), FLEET, OCTOBER_DAYS)
    assert (few.to_date, few.expected, few.low, few.high) == (200, None, None, None)


@pytest.mark.parametrize("likeness", [0, 0.5, 0.8])
def test_four_in_five_months_end_within_the_range(likeness: float) -> None:
    rng = random.Random(7)
    every = month_of(SEPTEMBER, 61)
    hits = 0
    for _ in range(200):
        costs, stray = {}, 0.0
        for day in every:
            stray = likeness * stray + rng.gauss(0, 80)
            costs[day] = max(D(0), weekly(day) * 10 + round(D(stray), 2))
        told = forecast(days({day: costs[day] for day in every[:45]}, every), FLEET, OCTOBER_DAYS)
        assert told.low is not None
        assert told.high is not None
        hits += told.low <= sum(costs[day] for day in OCTOBER_DAYS) <= told.high
    assert 150 <= hits <= 190


def test_a_day_beyond_its_pattern_is_told_with_the_money() -> None:
    known = {day: weekly(day) + day.day % 3 for day in month_of(SEPTEMBER, 61)} | {date(2026, 10, 24): D(100)}
    (found,) = anomalies(days(known, month_of(SEPTEMBER, 61)), OCTOBER_DAYS, D(10))
    assert (found.day, found.cost, found.same_weekday) == (date(2026, 10, 24), 100, True)
    assert found.expected in (40, 41, 42)
    assert found.cost == found.expected + found.excess
    assert found.score > 3.5
    assert anomalies(days(known, month_of(SEPTEMBER, 61)), OCTOBER_DAYS, D(61)) == []


def test_a_few_percent_above_what_never_changed_are_no_news_and_the_first_days_have_no_pattern() -> None:
    known = {day: D(1000) for day in month_of(SEPTEMBER, 61)} | {date(2026, 10, 24): D(1100)}
    assert anomalies(days(known, month_of(SEPTEMBER, 61)), OCTOBER_DAYS, D(1)) == []
    new = dict.fromkeys(OCTOBER_DAYS[:3], D(10)) | {OCTOBER_DAYS[3]: D(10_000)}
    assert anomalies(days(new, OCTOBER_DAYS), OCTOBER_DAYS, D(1)) == []


def test_a_job_that_runs_now_and_then_has_no_pattern() -> None:
    every = month_of(SEPTEMBER, 61)
    job = Series("workload", "research", ("research", "prod", "ml", "Job/eval"))
    costs = {day: D(500) for day in (every[0], every[20], every[50])}
    assert anomalies(Days(tuple(every), tuple(every), {job: costs}), OCTOBER_DAYS, D(1)) == []


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """October 2026, of which 20 days and 6 hours were collected."""
    path = tmp_path_factory.mktemp("budget") / "store.duckdb"
    sample(hours=486).write(path)
    return path


MID_OCTOBER = datetime(2026, 10, 21, 6, 30, tzinfo=UTC)


def october(store: Path, *by: str) -> ReportView:
    period = Period(*(datetime(2026, month, 1, tzinfo=UTC) for month in (10, 11)))
    with Store(store).read() as con:
        return build(con, Config(), Query(period=period, period_name="October", by=by, now=MID_OCTOBER, with_sections=False))


def test_costs_by_day_add_up_to_the_report_and_today_is_not_complete(store: Path) -> None:
    view = october(store, "team", "day")
    found = days_of(view, UTC_ZONE, MID_OCTOBER)
    assert view.node_totals is not None
    assert sum(found.costs[FLEET].values()) == view.node_totals.node_cost
    assert sum(found.costs[Series("unallocated")].values()) == view.node_totals.unallocated_cost
    assert found.complete == tuple(OCTOBER_DAYS[:20])
    assert found.first(Series("team", "vision")) == date(2026, 10, 1)


def test_a_day_with_a_gap_is_not_complete(tmp_path: Path) -> None:
    fleet = sample(hours=240)
    fleet.rows["collected"] = [
        ("prod", OCTOBER, OCTOBER + 50 * 3_600_000),
        ("prod", OCTOBER + 51 * 3_600_000, OCTOBER + 240 * 3_600_000),
    ]
    fleet.write(tmp_path / "store.duckdb")
    found = days_of(october(tmp_path / "store.duckdb", "team", "day"), UTC_ZONE, datetime(2026, 10, 11, tzinfo=UTC))
    assert found.complete == tuple(day for day in OCTOBER_DAYS[:10] if day.day != 3)


def budgets(*rows: dict[str, object], **more: object) -> Config:
    return Config.model_validate({"budgets": [{"name": f"b{index}", **row} for index, row in enumerate(rows)], **more})


def test_states_of_budgets(store: Path) -> None:
    by_day = days_of(october(store, "team", "day"), UTC_ZONE, MID_OCTOBER)
    spent = sum(by_day.costs[Series("team", "research")].values())
    config = budgets(
        {"team": "research", "amount": spent},
        {"team": "research", "amount": spent - D("0.01")},
        {"team": "research", "amount": spent * 3},
        {"team": "research", "amount": spent * 3, "warn_at_percent": 30},
        {"amount": D(10_000_000)},
        {"team": "nobody", "amount": 5, "efficiency": 0.8},
    )
    states = check(config, october(store, "team"), by_day, OCTOBER_DAYS)
    assert [state.status for state in states] == ["warn", "over", "ok", "warn", "ok", "ok"]
    assert states[0].forecast.expected is not None
    assert states[0].forecast.expected > spent
    assert states[0].reasons == ("the forecast is beyond it",)
    assert states[3].reasons == ("33 % is spent",)
    assert not states[5].is_seen
    assert [target.status for target in states[5].targets] == ["unknown"]


def test_targets_are_missed_met_or_unknown(store: Path) -> None:
    view = october(store, "team")
    by_team = {row.keys["team"]: row.measures for row in view.rows if row.kind == "allocated"}
    research = by_team["research"]
    assert research.efficiency is not None
    just = D(repr(research.efficiency))
    config = budgets(
        {"team": "research", "efficiency": just, "spot_ratio": 0, "idle_cost_share": 1},
        {"team": "research", "efficiency": just + D("0.000001"), "idle_cost_share": 0},
        {"team": "vision", "efficiency": 0.8, "spot_ratio": 0.7, "idle_cost_share": 0.1},  # nothing measured, type unknown
    )
    states = check(config, view, days_of(october(store, "team", "day"), UTC_ZONE, MID_OCTOBER), OCTOBER_DAYS)
    assert [[target.status for target in state.targets] for state in states] == [
        ["met", "met", "met"],
        ["missed", "missed"],
        ["unknown", "unknown", "unknown"],
    ]
    assert [state.status for state in states] == ["ok", "over", "ok"]
    assert states[2].targets[0].note == "0% measured, 80% needed"


def test_budgets_in_other_currencies(store: Path) -> None:
    view, by_day = october(store, "team"), days_of(october(store, "team", "day"), UTC_ZONE, MID_OCTOBER)
    row: dict[str, object] = {"amount": 100, "currency": "EUR"}
    (state,) = check(budgets(row, prices={"fx": {"EUR": "1.08"}}), view, by_day, OCTOBER_DAYS)
    assert state.amount == 108
    with pytest.raises(PriceError, match="the budget 'b0' in EUR: there is no rate"):
        check(budgets(row), view, by_day, OCTOBER_DAYS)


@pytest.fixture
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("gpucost.pipeline.attribute", lambda *_: None)
    monkeypatch.setattr("gpucost.pipeline.state.is_current", lambda *_: True)
    return tmp_path


def run(store: Path, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--store", str(store)])


def test_exit_codes_of_budget_check(store: Path, in_a_folder: Path) -> None:
    config = in_a_folder / "gpucost.toml"
    assert run(store, "budget", "check").exit_code == 1
    config.write_text('[[budgets]]\nname = "Fleet"\namount = 1000000\n')
    assert run(store, "budget", "check", "--month", "2026-10").exit_code == 0
    config.write_text('[[budgets]]\nname = "Fleet"\namount = 20000\n')
    assert run(store, "budget", "check", "--month", "2026-10").exit_code == 0
    warned = run(store, "budget", "check", "--month", "2026-10", "--fail-on", "warn")
    assert warned.exit_code == 3
    assert "budget Fleet: " in warned.stderr
    config.write_text('[[budgets]]\nname = "Fleet"\namount = 10\n[[budgets]]\nname = "Eyes"\nteam = "vision"\nefficiency = 0.8\n')
    over = run(store, "budget", "check", "--month", "2026-10", "--format", "json")
    assert over.exit_code == 3
    told = json.loads(over.stdout)
    assert (told["schema"], told["status"]) == ("gpucost.budget/1", "over")
    assert [budget["status"] for budget in told["budgets"]] == ["over", "ok"]
    assert told["budgets"][1]["targets"][0]["status"] == "unknown"
    assert run(store, "budget", "check", "--month", "2026-10", "--fail-on", "never").exit_code == 0
    config.write_text('[[budgets]]\nname = "Nothing"\n')
    assert "needs one of amount, efficiency" in run(store, "budget", "check").stderr


@pytest.mark.usefixtures("in_a_folder")
def test_forecast_and_anomalies_as_commands(store: Path) -> None:
    told = json.loads(run(store, "forecast", "--month", "2026-10", "--format", "json").stdout)
    assert told["schema"] == "gpucost.forecast/1"
    fleet = told["rows"][-1]
    assert fleet["level"] == "fleet"
    assert fleet["cost_to_date"] < fleet["forecast_low"] <= fleet["forecast"] <= fleet["forecast_high"]
    assert fleet["forecast"] == pytest.approx((24.48 + 9.36 + 1.4 + 0.805) * 744, rel=0.001)
    assert "All GPU nodes" in run(store, "forecast", "--month", "2026-10").stdout
    nobody = run(store, "forecast", "--month", "2026-10", "--team", "visoin")
    assert nobody.exit_code == 1
    assert "--team takes one of: vision" in nobody.stderr
    assert run(store, "forecast", "--month", "2999-01").exit_code == 2
    unusual = run(store, "anomalies", "--month", "2026-10", "--format", "json")
    assert json.loads(unusual.stdout)["schema"] == "gpucost.anomalies/1"
    assert "Unusual days" in run(store, "anomalies", "--month", "2026-10").stdout
