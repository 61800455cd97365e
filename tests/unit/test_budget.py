"""Forecasts, budgets and unusual days: on handmade series, and as commands on a handmade store."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from shutil import copyfile
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gpucost.config.model import Config
from gpucost.errors import PriceError
from gpucost.periods import month_period
from gpucost.questions.budget.patterns import anomalies
from gpucost.questions.budget.projection import CostSeries, Days, Forecast, days_of, forecast
from gpucost.questions.budget.states import check
from gpucost.questions.report.build import build
from gpucost.questions.report.query import Query
from gpucost.render.view import ReportView
from gpucost.store.connection import Store
from tests.golden.report_fleet import HOUR, OCTOBER, UTC_ZONE, sample, stored
from tests.unit.command import answer, check_end
from tests.unit.whatif_costs import figures, listed

FLEET = CostSeries("fleet")
SEPTEMBER = date(2026, 9, 1)
D = Decimal


BOTH = [SEPTEMBER + timedelta(days=index) for index in range(61)]
OCTOBER_DAYS = BOTH[30:]


def weekly(day: date) -> Decimal:
    return D(40) if day.weekday() >= 5 else D(100)


WEEKLY = {day: weekly(day) for day in BOTH}
MONTH = sum(map(weekly, OCTOBER_DAYS))


def october_forecast(
    costs: dict[date, Decimal], every: list[date] = BOTH, partly: dict[date, Decimal] | None = None
) -> Forecast:
    """The forecast of October from these days, all of them complete except one."""
    days = Days(tuple(every), tuple(sorted(costs)), {FLEET: costs | (partly or {})})
    return forecast(days, FLEET, OCTOBER_DAYS)


def until(count: int) -> dict[date, Decimal]:
    """The costs of this many days, from September on."""
    return {day: WEEKLY[day] for day in BOTH[:count]}


# days of known cost, the known part of the last day, and the month: cost so far, low, expected and high end,
# and remaining days
KNOWN: dict[str, tuple[dict[date, Decimal], dict[date, Decimal], str]] = {
    "no day deviates": (until(40), {}, "820 2560 2560 2560 21"),
    "two days missed": ({day: cost for day, cost in WEEKLY.items() if day.day not in (13, 14)}, {}, "2360 2560 2560 2560 2"),
    "part of a Saturday": (until(60), {OCTOBER_DAYS[-1]: D(30)}, "2550 2560 2560 2560 1"),
    "more than a Saturday": (until(60), {OCTOBER_DAYS[-1]: D(70)}, "2590 2590 2590 2590 1"),
    "the whole month": (WEEKLY, {}, "2560 2560 2560 2560 0"),
    # collected except for the 3rd; the team started on the 15th and cost 0 on the 4th to the 14th
    "a new team": ({day: D(100 * (day.day >= 15)) for day in OCTOBER_DAYS if day.day != 3}, {}, "1700 1700 1700 1700 1"),
    "two days": ({day: weekly(day) for day in OCTOBER_DAYS[:2]}, {}, "200 None None None 29"),
}  # fmt: skip


@pytest.mark.parametrize("case", KNOWN)
def test_forecast_of_known_days(case: str) -> None:
    costs, partly, expected = KNOWN[case]
    found = october_forecast(costs, [day for day in BOTH if day >= min(costs)], partly)
    assert figures(found, "to_date low expected high open_days") == expected


def test_unusual_day_does_not_change_the_pattern_of_its_weekday() -> None:
    assert october_forecast(until(40) | {BOTH[21]: D(90_000)}).expected == pytest.approx(MONTH)


def test_stopped_fleet_stays_off_and_growing_fleet_is_expected_to_grow() -> None:
    stopped = october_forecast(
        {day: D(0) if day >= OCTOBER_DAYS[9] else cost for day, cost in until(50).items()}
    )
    assert stopped.to_date == sum(map(weekly, OCTOBER_DAYS[:9])) > stopped.expected - 20
    grown = {day: D(100 + 2 * index) for index, day in enumerate(BOTH)}
    true = sum(grown[day] for day in OCTOBER_DAYS)
    assert october_forecast(dict(list(grown.items())[:40])).expected == pytest.approx(true, rel=D("0.03"))


def unusual(least: int, costs: dict[CostSeries, dict[date, Decimal]], every: list[date] = BOTH) -> list[Any]:
    return anomalies(Days(tuple(every), tuple(every), costs), OCTOBER_DAYS, D(least), "USD")


def test_unusual_day_and_new_level_are_reported_with_their_cost() -> None:
    odd, step = OCTOBER_DAYS[23], OCTOBER_DAYS[4]
    known = {day: cost + day.day % 3 for day, cost in WEEKLY.items()} | {odd: D(100)}
    (found,) = unusual(10, {FLEET: known})
    assert (found.cost, found.day) == (100, odd)
    assert found.expected_cost == pytest.approx(D(41), abs=D(2)) == found.cost - found.excess_cost
    assert found.score > 3.5 and unusual(65, {FLEET: known}) == []
    known = {day: D(100 + day.day % 5) * (1 if day < step else 2) for day in BOTH}
    days = {one.day for one in unusual(10, {FLEET: known})}
    assert min(days) == step and max(days) <= OCTOBER_DAYS[11]


def work(name: str, team: str = "research") -> CostSeries:
    return CostSeries("workload", team, "prod", "ml", name)


def test_lower_cost_is_reported_for_teams_and_continuous_work() -> None:
    gone = OCTOBER_DAYS[19]
    steady = dict.fromkeys(BOTH, D(300))
    collapsed = {day: cost for day, cost in steady.items() if day != gone}
    costs = {
        CostSeries("team", "research"): dict.fromkeys(BOTH, D(900)) | {gone: D(300)},
        work("Deployment/serve"): collapsed, work("Job/train"): collapsed, work("Deployment/other"): steady,
        CostSeries("unallocated"): collapsed, CostSeries("team", "vision"): steady,
    }  # fmt: skip
    found = unusual(50, costs)
    assert [one.series for one in found] == [CostSeries("team", "research"), work("Deployment/serve")]
    assert listed(found, "excess_cost main_workload") == "-600 Deployment/serve; -300 None"
    assert all(one.day == gone and one.score < -3.5 for one in found)


def test_irregular_costs_and_small_deviations_are_not_reported() -> None:
    strays = dict.fromkeys(BOTH, D(1000)) | {OCTOBER_DAYS[23]: D(1100)}
    new = dict.fromkeys(OCTOBER_DAYS[:3], D(10)) | {OCTOBER_DAYS[3]: D(10_000)}
    rare = dict.fromkeys(BOTH[::25], D(500))
    assert unusual(1, {FLEET: strays}) == unusual(1, {work("Job/eval"): rare}) == []
    assert anomalies(Days(tuple(OCTOBER_DAYS), tuple(new), {FLEET: new}), OCTOBER_DAYS, D(1), "USD") == []


# October 2026, with 20 days and 6 hours collected.
store = stored(hours=486)


MID_OCTOBER = datetime(2026, 10, 21, 6, 30, tzinfo=UTC)


def october(store: Path, *by: str) -> ReportView:
    period = month_period(OCTOBER_DAYS[0], UTC_ZONE)
    query = Query(period=period, period_name="October", by=by, now=MID_OCTOBER, with_sections=False)
    with Store(store).read() as con:
        return build(con, Config(), query)


def by_days(store: Path, now: datetime = MID_OCTOBER) -> Days:
    return days_of(october(store, "team", "day"), UTC_ZONE, now)


def test_costs_by_day_add_up_to_the_report_and_today_is_incomplete(store: Path) -> None:
    totals, found = october(store, "team", "day").node_totals, by_days(store)
    assert sum(found.costs[FLEET].values()) == totals.node_cost
    assert sum(found.costs[CostSeries("unallocated")].values()) == totals.unallocated_cost
    assert found.complete == tuple(OCTOBER_DAYS[:20])
    assert found.first(CostSeries("team", "vision")) == OCTOBER_DAYS[0]


def test_days_before_the_first_collect_are_unknown_and_days_without_nodes_cost_0(tmp_path: Path) -> None:
    for begun, known in ((0, OCTOBER_DAYS[:6]), (29, OCTOBER_DAYS[2:6])):
        fleet = sample(hours=48)
        fleet.rows["collected"] = [("prod", OCTOBER + begun * HOUR, OCTOBER + 144 * HOUR)]
        fleet.write(tmp_path / f"{begun}.duckdb")
        found = by_days(tmp_path / f"{begun}.duckdb", datetime(2026, 10, 7, tzinfo=UTC))
        assert found.complete == tuple(known)


def checked(store: Path, *rows: dict[str, object], now: datetime = MID_OCTOBER, **more: object) -> list[Any]:
    """States of budgets."""
    named = [{"name": f"b{index}", **row} for index, row in enumerate(rows)]
    config = Config.model_validate({"budgets": named, **more})
    return list(check(config, october(store, "team"), by_days(store, now), OCTOBER_DAYS))


def test_states_of_budgets_also_in_other_currencies(store: Path) -> None:
    spent = sum(by_days(store).costs[CostSeries("team", "research")].values())
    research = {"team": "research", "amount": spent}
    states = checked(
        store,
        research, research | {"amount": spent - D("0.01")}, research | {"amount": spent * 3},
        research | {"amount": spent * 3, "warn_at_percent": 30}, {"amount": D(10_000_000)},
        {"team": "nobody", "amount": 5, "efficiency": 0.8},
    )  # fmt: skip
    assert listed(states, "status is_seen") == "warn True; over True; ok True; warn True; ok True; ok False"
    assert states[0].forecast.expected > spent
    assert states[0].reasons + states[3].reasons == ("the forecast exceeds the budget", "33 % is spent")
    assert [target.status for target in states[5].targets] == ["unknown"]
    row: dict[str, object] = {"amount": 100, "currency": "EUR"}
    (state,) = checked(store, row, prices={"fx": {"EUR": "1.08"}})
    assert state.amount == 108
    with pytest.raises(PriceError, match="the budget 'b0' in EUR: there is no rate"):
        checked(store, row)


LATER = """
UPDATE collected SET to_ms = to_ms + 20 * 86400000::BIGINT;
UPDATE coverage_gaps SET from_ms = from_ms + 20 * 86400000::BIGINT WHERE reason LIKE 'after %'"""


@pytest.fixture(scope="module")
def idle(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store twenty days later: October is over, and November has no nodes yet."""
    path = Path(copyfile(store, tmp_path_factory.mktemp("idle") / "idle.duckdb"))
    with Store(path).write() as con:
        con.execute(LATER)
    return path


def test_finished_month_is_never_near_its_limit(idle: Path) -> None:
    now = datetime(2026, 11, 3, tzinfo=UTC)
    by_day = by_days(idle, now)
    spent = sum(by_day.costs[FLEET].values())
    states = checked(idle, {"amount": spent}, {"amount": spent - 1}, now=now)
    assert (by_day.complete, [state.status for state in states]) == (tuple(OCTOBER_DAYS), ["ok", "over"])


def test_targets_are_missed_met_or_unknown(store: Path) -> None:
    rows = {row.keys["team"]: row for row in october(store, "team").rows if row.kind == "allocated"}
    just = D(repr(rows["research"].measures.efficiency))
    # the vision team has no measurements, and no type is known
    states = checked(
        store,
        {"team": "research", "efficiency": just, "spot_ratio": 0, "idle_cost_share": 1},
        {"team": "research", "efficiency": just + D("0.000001"), "idle_cost_share": 0},
        {"team": "vision", "efficiency": 0.8, "spot_ratio": 0.7, "idle_cost_share": 0.1},
    )
    found = [[state.status, *(target.status for target in state.targets)] for state in states]
    shown = "; ".join(map(" ".join, found))
    assert shown == "ok met met met; over missed missed; ok unknown unknown unknown"
    assert states[2].targets[0].note == "0% measured, 80% needed"


def test_budget_check_has_exit_codes_and_refuses_an_unknown_team(
    store: Path, in_an_empty_folder: Path
) -> None:
    (in_an_empty_folder / "gpucost.toml").write_text(
        '[[budgets]]\nname = "Fleet"\namount = 20000\n[[budgets]]\nname = "Eyes"\nteam = "visoin"\namount = 10\n'
    )
    message = "budget Eyes: no team 'visoin' held GPUs or bought tokens in October 2026"
    check = f"budget check --store {store} --month"
    check_end(f"{check} 2026-10", "0", message)
    check_end(f"{check} 2026-10 --fail-on warn", "3", message)
    # the next month is still empty
    check_end(f"{check} 2026-11", "1", "")


HOURLY = 24.48 + 9.36 + 1.4 + 0.805


def test_months_and_days_follow_the_time_zone(tmp_path: Path, in_an_empty_folder: Path) -> None:
    """October 2026 in Berlin: from 22:00 UTC on September 30 to 23:00 on the 31st; the 25th has 25 hours."""
    (in_an_empty_folder / "gpucost.toml").write_text('timezone = "Europe/Berlin"\n')
    berlin = ZoneInfo("Europe/Berlin")
    sample(hours=744).write(tmp_path / "berlin.duckdb", berlin)
    payload = answer(f"forecast --month 2026-10 --store {tmp_path}/berlin.duckdb")
    assert figures(payload, "from to") == "2026-09-30T22:00:00Z 2026-10-31T23:00:00Z"
    fleet = payload["rows"][-1]
    # the first day lacks the two hours before the store begins
    assert fleet["open_days"] == 1
    assert fleet["cost_to_date"] == pytest.approx(HOURLY * 743, rel=0.0001)
    assert fleet["forecast"] == pytest.approx(HOURLY * 745, rel=0.001)
