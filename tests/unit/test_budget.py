"""Forecasts, budgets and unusual days: on series made by hand, and as commands on a store filled by hand."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from shutil import copyfile
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner, Result

from gpucost.cli.app import app
from gpucost.config.model import Config
from gpucost.errors import PriceError
from gpucost.periods import Period
from gpucost.questions.budget.patterns import anomalies
from gpucost.questions.budget.projection import CostSeries, Days, days_of, forecast
from gpucost.questions.budget.states import check
from gpucost.questions.report.build import build
from gpucost.questions.report.query import Query
from gpucost.render.view import ReportView
from gpucost.store.connection import Store
from tests.golden.report_fleet import HOUR, OCTOBER, UTC_ZONE, sample, stored

FLEET = CostSeries("fleet")
SEPTEMBER = date(2026, 9, 1)
D = Decimal


def month_of(first: date, count: int) -> list[date]:
    return [first + timedelta(days=index) for index in range(count)]


OCTOBER_DAYS = month_of(date(2026, 10, 1), 31)


def days(costs: dict[date, Decimal], every: list[date], series: CostSeries = FLEET) -> Days:
    return Days(tuple(every), tuple(sorted(costs)), {series: costs})


def weekly(day: date) -> Decimal:
    return D(40) if day.weekday() >= 5 else D(100)


def test_neither_an_odd_day_nor_one_that_is_missed_moves_what_others_of_its_weekday_cost() -> None:
    known = {day: weekly(day) for day in month_of(SEPTEMBER, 40)}  # up to October 10
    told = forecast(days(known, month_of(SEPTEMBER, 61)), FLEET, OCTOBER_DAYS)
    assert told.to_date == sum(weekly(day) for day in OCTOBER_DAYS[:10])
    assert told.expected == pytest.approx(sum(weekly(day) for day in OCTOBER_DAYS))
    assert told.low == pytest.approx(told.expected)  # no day ever strayed
    assert told.high == pytest.approx(told.expected)
    assert (told.open_days, told.history_days) == (21, 40)
    known = {day: weekly(day) for day in month_of(SEPTEMBER, 40)} | {date(2026, 9, 22): D(90_000)}
    assert forecast(days(known, month_of(SEPTEMBER, 61)), FLEET, OCTOBER_DAYS).expected == pytest.approx(
        sum(map(weekly, OCTOBER_DAYS))
    )
    known = {day: weekly(day) for day in month_of(SEPTEMBER, 61) if day.day not in (13, 14)}
    told = forecast(days(known, month_of(SEPTEMBER, 61)), FLEET, OCTOBER_DAYS)
    assert told.expected == pytest.approx(sum(map(weekly, OCTOBER_DAYS)))
    assert told.open_days == 2


def test_a_month_known_in_part_costs_at_least_that_and_one_known_is_no_forecast() -> None:
    known = {day: weekly(day) for day in month_of(SEPTEMBER, 60)}
    today = date(2026, 10, 31)
    for so_far, whole in ((30, 40), (70, 70)):  # a Saturday
        every = Days(tuple(month_of(SEPTEMBER, 61)), tuple(known), {FLEET: known | {today: D(so_far)}})
        told = forecast(every, FLEET, OCTOBER_DAYS)
        assert told.expected == pytest.approx(sum(map(weekly, OCTOBER_DAYS[:-1])) + whole)
        assert told.low >= told.to_date
    known = {day: weekly(day) for day in OCTOBER_DAYS}
    told = forecast(days(known, OCTOBER_DAYS), FLEET, OCTOBER_DAYS)
    assert told.to_date == told.expected == told.low == told.high
    begun = {day: weekly(day) for day in OCTOBER_DAYS[:2]}
    few = forecast(days(begun, OCTOBER_DAYS), FLEET, OCTOBER_DAYS)
    assert (few.to_date, few.expected, few.low, few.high) == (200, None, None, None)
    # Collected but for the 3rd; the team came on the 15th, and cost nothing on the 4th to the 14th.
    known = {day: Decimal(100 if day.day >= 15 else 0) for day in OCTOBER_DAYS if day.day != 3}
    told = forecast(days(known, OCTOBER_DAYS), FLEET, OCTOBER_DAYS)
    assert (told.to_date, told.expected, told.high, told.open_days) == (1700, 1700, 1700, 1)


def test_a_fleet_that_stopped_stays_off_and_one_that_grows_is_expected_to_grow() -> None:
    stopped = {
        day: weekly(day) if day.day < 10 or day.month == 9 else D(0) for day in month_of(SEPTEMBER, 50)
    }
    told = forecast(days(stopped, month_of(SEPTEMBER, 61)), FLEET, OCTOBER_DAYS)
    assert told.to_date == sum(weekly(day) for day in OCTOBER_DAYS[:9])
    assert told.expected - told.to_date < 20
    grown = {day: D(100 + 2 * index) for index, day in enumerate(month_of(SEPTEMBER, 61))}
    told = forecast(days(dict(list(grown.items())[:40]), month_of(SEPTEMBER, 61)), FLEET, OCTOBER_DAYS)
    true = sum(grown[day] for day in OCTOBER_DAYS)
    assert told.expected == pytest.approx(true, rel=D("0.03"))


def test_a_day_beyond_its_pattern_and_a_new_level_are_told_with_the_money() -> None:
    every = month_of(SEPTEMBER, 61)
    known = {day: weekly(day) + day.day % 3 for day in every} | {date(2026, 10, 24): D(100)}
    (found,) = anomalies(days(known, every), OCTOBER_DAYS, D(10), "USD")
    assert (found.day, found.cost, found.direction) == (date(2026, 10, 24), 100, "above")
    assert found.expected_cost == pytest.approx(D(41), abs=D(2))
    assert found.cost == found.expected_cost + found.excess_cost
    assert found.score > 3.5
    assert anomalies(days(known, every), OCTOBER_DAYS, D(65), "USD") == []
    every = month_of(SEPTEMBER, 61)
    known = {day: D(100 + day.day % 5) * (1 if day < date(2026, 10, 5) else 2) for day in every}
    told = {one.day for one in anomalies(days(known, every), OCTOBER_DAYS, D(10), "USD")}
    assert min(told) == date(2026, 10, 5)
    assert max(told) <= date(2026, 10, 12)


def work(name: str, team: str = "research") -> CostSeries:
    return CostSeries("workload", team, (team, "prod", "ml", name))


def test_less_is_told_of_teams_and_of_work_that_is_meant_to_go_on() -> None:
    every = month_of(SEPTEMBER, 61)
    gone = date(2026, 10, 20)
    steady = dict.fromkeys(every, D(300))
    collapsed = {day: cost for day, cost in steady.items() if day != gone}
    costs = {
        CostSeries("team", "research"): {day: D(900) if day != gone else D(300) for day in every},
        work("Deployment/serve"): collapsed, work("Job/train"): collapsed, work("Deployment/other"): steady,
        CostSeries("unallocated"): collapsed, CostSeries("team", "vision"): steady,
    }  # fmt: skip
    found = anomalies(Days(tuple(every), tuple(every), costs), OCTOBER_DAYS, D(50), "USD")
    assert [(one.level, one.team, one.workload, one.excess_cost) for one in found] == [
        ("team", "research", None, -600),
        ("workload", "research", "Deployment/serve", -300),
    ]
    assert all((one.day, one.direction, one.score < -3.5) == (gone, "below", True) for one in found)
    assert (found[0].main_workload, found[0].main_workload_change) == ("Deployment/serve", -300)
    assert found[1].main_workload is None


def test_what_has_no_pattern_or_strays_a_little_is_no_news() -> None:
    known = {day: D(1000) for day in month_of(SEPTEMBER, 61)} | {date(2026, 10, 24): D(1100)}
    assert anomalies(days(known, month_of(SEPTEMBER, 61)), OCTOBER_DAYS, D(1), "USD") == []
    new = dict.fromkeys(OCTOBER_DAYS[:3], D(10)) | {OCTOBER_DAYS[3]: D(10_000)}
    assert anomalies(days(new, OCTOBER_DAYS), OCTOBER_DAYS, D(1), "USD") == []
    every = month_of(SEPTEMBER, 61)
    job = CostSeries("workload", "research", ("research", "prod", "ml", "Job/eval"))
    costs = {day: D(500) for day in (every[0], every[20], every[50])}
    assert anomalies(Days(tuple(every), tuple(every), {job: costs}), OCTOBER_DAYS, D(1), "USD") == []


# October 2026, of which 20 days and 6 hours were collected.
store = stored(hours=486)


MID_OCTOBER = datetime(2026, 10, 21, 6, 30, tzinfo=UTC)


def october(store: Path, *by: str) -> ReportView:
    period = Period(*(datetime(2026, month, 1, tzinfo=UTC) for month in (10, 11)))
    with Store(store).read() as con:
        return build(
            con,
            Config(),
            Query(period=period, period_name="October", by=by, now=MID_OCTOBER, with_sections=False),
        )


def test_costs_by_day_add_up_to_the_report_and_today_is_not_complete(store: Path) -> None:
    view = october(store, "team", "day")
    found = days_of(view, UTC_ZONE, MID_OCTOBER)
    assert sum(found.costs[FLEET].values()) == view.node_totals.node_cost
    assert sum(found.costs[CostSeries("unallocated")].values()) == view.node_totals.unallocated_cost
    assert found.complete == tuple(OCTOBER_DAYS[:20])
    assert found.first(CostSeries("team", "vision")) == date(2026, 10, 1)


def test_days_before_anything_was_collected_are_unknown_and_those_without_nodes_cost_nothing(
    tmp_path: Path,
) -> None:
    now = datetime(2026, 10, 7, tzinfo=UTC)
    for begun, known in ((0, OCTOBER_DAYS[:6]), (29, OCTOBER_DAYS[2:6])):
        fleet = sample(hours=48)
        fleet.rows["collected"] = [("prod", OCTOBER + begun * HOUR, OCTOBER + 144 * HOUR)]
        store = tmp_path / f"{begun}.duckdb"
        fleet.write(store)
        assert days_of(october(store, "team", "day"), UTC_ZONE, now).complete == tuple(known)


def budgets(*rows: dict[str, object], **more: object) -> Config:
    return Config.model_validate(
        {"budgets": [{"name": f"b{index}", **row} for index, row in enumerate(rows)], **more}
    )


def test_states_of_budgets_also_in_other_currencies(store: Path) -> None:
    by_day = days_of(october(store, "team", "day"), UTC_ZONE, MID_OCTOBER)
    spent = sum(by_day.costs[CostSeries("team", "research")].values())
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
    assert states[0].forecast.expected > spent
    assert states[0].reasons == ("the forecast is beyond it",)
    assert states[3].reasons == ("33 % is spent",)
    assert not states[5].is_seen
    assert [target.status for target in states[5].targets] == ["unknown"]
    view, by_day = october(store, "team"), days_of(october(store, "team", "day"), UTC_ZONE, MID_OCTOBER)
    row: dict[str, object] = {"amount": 100, "currency": "EUR"}
    (state,) = check(budgets(row, prices={"fx": {"EUR": "1.08"}}), view, by_day, OCTOBER_DAYS)
    assert state.amount == 108
    with pytest.raises(PriceError, match="the budget 'b0' in EUR: there is no rate"):
        check(budgets(row), view, by_day, OCTOBER_DAYS)


@pytest.fixture(scope="module")
def idle(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store twenty days later: October is over, and November has no nodes yet."""
    path = Path(copyfile(store, tmp_path_factory.mktemp("idle") / "idle.duckdb"))
    with Store(path).write() as con:
        con.execute("UPDATE collected SET to_ms = to_ms + 20 * 86400000::BIGINT")
        con.execute(
            "UPDATE coverage_gaps SET from_ms = from_ms + 20 * 86400000::BIGINT WHERE reason LIKE 'after %'"
        )
    return path


def test_of_a_month_that_is_over_nothing_comes_near(idle: Path) -> None:
    by_day = days_of(october(idle, "team", "day"), UTC_ZONE, datetime(2026, 11, 3, tzinfo=UTC))
    assert by_day.complete == tuple(OCTOBER_DAYS)
    spent = sum(by_day.costs[FLEET].values())
    states = check(
        budgets({"amount": spent}, {"amount": spent - 1}), october(idle, "team"), by_day, OCTOBER_DAYS
    )
    assert [state.status for state in states] == ["ok", "over"]


def test_targets_are_missed_met_or_unknown(store: Path) -> None:
    view = october(store, "team")
    by_team = {row.keys["team"]: row.measures for row in view.rows if row.kind == "allocated"}
    research = by_team["research"]
    just = D(repr(research.efficiency))
    config = budgets(
        {"team": "research", "efficiency": just, "spot_ratio": 0, "idle_cost_share": 1},
        {"team": "research", "efficiency": just + D("0.000001"), "idle_cost_share": 0},
        {
            "team": "vision",
            "efficiency": 0.8,
            "spot_ratio": 0.7,
            "idle_cost_share": 0.1,
        },  # nothing measured, type unknown
    )
    states = check(config, view, days_of(october(store, "team", "day"), UTC_ZONE, MID_OCTOBER), OCTOBER_DAYS)
    assert [[target.status for target in state.targets] for state in states] == [
        ["met", "met", "met"],
        ["missed", "missed"],
        ["unknown", "unknown", "unknown"],
    ]
    assert [state.status for state in states] == ["ok", "over", "ok"]
    assert states[2].targets[0].note == "0% measured, 80% needed"


def run(store: Path, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--store", str(store)])


def test_exit_codes_of_budget_check_and_a_team_that_is_not_there(
    store: Path, in_an_empty_folder: Path
) -> None:
    config = in_an_empty_folder / "gpucost.toml"
    assert run(store, "budget", "check").exit_code == 1
    config.write_text(
        '[[budgets]]\nname = "Fleet"\namount = 20000\n[[budgets]]\nname = "Eyes"\nteam = "visoin"\namount = 10\n'
    )
    result = run(store, "budget", "check", "--month", "2026-10")
    assert result.exit_code == 0
    assert (
        "budget Eyes: no team 'visoin' held GPUs or bought tokens in October 2026; there are vision, "
        in result.stderr
    )
    warned = run(store, "budget", "check", "--month", "2026-10", "--fail-on", "warn")
    assert warned.exit_code == 3 and "budget Fleet: " in warned.stderr
    config.write_text(
        '[[budgets]]\nname = "Fleet"\namount = 10\n[[budgets]]\nname = "Eyes"\nteam = "vision"\nefficiency = 0.8\n'
    )
    over = run(store, "budget", "check", "--month", "2026-10", "--format", "json")
    assert over.exit_code == 3
    told = json.loads(over.stdout)
    assert (told["schema"], told["status"]) == ("gpucost.budget/1", "over")
    assert [budget["status"] for budget in told["budgets"]] == ["over", "ok"]
    assert told["budgets"][1]["targets"][0]["status"] == "unknown"
    assert run(store, "budget", "check", "--month", "2026-10", "--fail-on", "never").exit_code == 0
    config.write_text('[[budgets]]\nname = "Nothing"\n')
    assert "needs one of amount, efficiency" in run(store, "budget", "check").stderr


def test_months_and_days_of_the_time_zone(tmp_path: Path, in_an_empty_folder: Path) -> None:
    """October 2026 in Berlin: from 22:00 UTC on September 30 to 23:00 on the 31st; the 25th has 25 hours."""
    (in_an_empty_folder / "gpucost.toml").write_text('timezone = "Europe/Berlin"\n')
    berlin = ZoneInfo("Europe/Berlin")
    sample(hours=744).write(tmp_path / "berlin.duckdb", berlin)
    told = json.loads(
        run(tmp_path / "berlin.duckdb", "forecast", "--month", "2026-10", "--format", "json").stdout
    )
    assert (told["from"], told["to"]) == ("2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z")
    fleet = told["rows"][-1]
    # the first day lacks the two hours before the store begins
    assert fleet["open_days"] == 1
    hourly = 24.48 + 9.36 + 1.4 + 0.805
    assert fleet["cost_to_date"] == pytest.approx(hourly * 743, rel=0.0001)
    assert fleet["forecast"] == pytest.approx(hourly * 745, rel=0.001)


def test_a_month_without_nodes_costs_nothing(store: Path, idle: Path, in_an_empty_folder: Path) -> None:
    (in_an_empty_folder / "gpucost.toml").write_text('[[budgets]]\nname = "Fleet"\namount = 10\n')
    told = json.loads(run(idle, "budget", "check", "--month", "2026-11", "--format", "json").stdout)[
        "budgets"
    ][0]
    assert (told["status"], told["cost_to_date"]) == ("ok", 0)
    assert run(store, "budget", "check", "--month", "2026-11").exit_code == 1


@pytest.mark.usefixtures("in_an_empty_folder")
def test_forecast_and_anomalies_as_commands(store: Path) -> None:
    told = json.loads(run(store, "forecast", "--month", "2026-10", "--format", "json").stdout)
    assert told["schema"] == "gpucost.forecast/1"
    fleet = told["rows"][-1]
    assert fleet["level"] == "fleet"
    assert fleet["cost_to_date"] < fleet["forecast_low"] <= fleet["forecast"] <= fleet["forecast_high"]
    assert fleet["forecast"] == pytest.approx((24.48 + 9.36 + 1.4 + 0.805) * 744, rel=0.001)
    nobody = run(store, "forecast", "--month", "2026-10", "--team", "visoin")
    assert nobody.exit_code == 1 and "--team takes one of: vision" in nobody.stderr
    assert run(store, "forecast", "--month", "2999-01").exit_code == 2
    unusual = run(store, "anomalies", "--month", "2026-10", "--format", "json")
    assert json.loads(unusual.stdout)["schema"] == "gpucost.anomalies/1"
