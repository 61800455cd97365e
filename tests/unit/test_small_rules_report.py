"""Rules of single functions that calculate and report figures, with plain values."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gpucost.periods import Period, TimeBucket
from gpucost.publish.chargeback import _exchange, state_of
from gpucost.questions.budget.projection import CostSeries, Days, forecast
from gpucost.questions.report import api_cost
from gpucost.questions.report.coverage import _price_sources
from gpucost.questions.report.rows import PricedNodes
from gpucost.questions.report.sections import _label
from gpucost.questions.report.series import _moment
from gpucost.questions.units import reading as units
from gpucost.render.formatting import missing_text
from gpucost.render.view import Gap
from gpucost.whatif.answer import Position, today_of
from gpucost.whatif.fleet import fleet_of
from tests.text_tables import text_rows, words
from tests.unit.whatif_costs import figures, listed

NOON = datetime(2026, 10, 1, 12, tzinfo=UTC)


def _fake(**fields: object) -> Any:
    """An object with only these fields."""
    return SimpleNamespace(**fields)


def test_month_is_final_with_its_bill() -> None:
    coverage = _fake(gaps=[], estimated_cost=0, unpriced_gpu_hours=0, warnings=[])
    accounts = [_fake(is_final=is_final, problems=()) for is_final in (True, False)]
    states = [state_of(True, coverage, account, []) for account in accounts]
    assert [(state.name, *state.reasons) for state in states] == [
        ("final",),
        ("estimate", "the bill is not final yet"),
    ]
    coverage.unpriced_gpu_hours = 12.5
    assert state_of(True, coverage, accounts[0], []).reasons == ("12.5 GPU-hours have no price",)


def test_two_folders_are_exchanged(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "text").write_text(name)
    assert _exchange(tmp_path / "a", tmp_path / "b")
    assert [(tmp_path / name / "text").read_text() for name in "ab"] == ["b", "a"]


@pytest.mark.parametrize(("count", "more"), [(3, ""), (4, "; and 1 more such gaps")])
def test_gaps_after_the_third_are_counted(count: int, more: str) -> None:
    starts = [NOON + timedelta(days=day) for day in range(count)]
    until = timedelta(hours=1)
    gaps = [Gap("c", "not_collected", at, at + until, 1, (), "silent", None, None) for at in starts]
    text = str(missing_text(gaps))
    assert text.count("1.0 h of c") == 3
    assert text.endswith(f"2026-10-03 13:00: silent{more}")


def test_period_that_ends_with_a_month_loads_tokens_until_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    requested = []
    for name in ("load_fx_rates", "_load_teams", "_refuse_unconverted"):
        monkeypatch.setattr(api_cost, name, lambda *_: None)
    monkeypatch.setattr(api_cost, "run_stage", lambda *arguments: requested.extend(arguments[3:]))
    months = [datetime(2026, month, 1, tzinfo=UTC) for month in (9, 10, 11)]
    api_cost.prepare(_fake(), _fake(), Period(months[0] + timedelta(days=2), months[2]))
    assert requested == [{"from_ms": 1000 * months[0].timestamp(), "to_ms": 1000 * months[2].timestamp()}]


def test_weekdays_without_data_are_forecast() -> None:
    month = [date(2026, 10, 1) + timedelta(days=count) for count in range(31)]
    # Thursday, Friday, Monday to Wednesday
    known = tuple(day for day in month[:7] if day.weekday() < 5)
    days = Days(tuple(month), known, {CostSeries("fleet"): dict.fromkeys(known, Decimal(10))})
    foretold = forecast(days, CostSeries("fleet"), month)
    assert figures(foretold, "to_date expected open_days") == "50 310 26"


PLACES = """
allocated | team | unknown
allocated | node | unknown
unallocated | node | unknown
unallocated | team | None
shared | node | None
api | node | None
"""


@pytest.mark.parametrize(("kind", "name", "label"), text_rows(PLACES))
def test_unknown_label_only_for_rows_that_have_the_key(kind: str, name: str, label: str) -> None:
    assert str(_label(_fake(kind=kind, keys={name: None}), name)) == label
    assert _label(_fake(kind=kind, keys={name: "x"}), name) == "x"


@pytest.mark.parametrize(("days", "name"), [(1, "2026-10-01"), (2, "2026-10-01 to 2026-10-02")])
def test_week_of_one_day_is_named_by_that_day(days: int, name: str) -> None:
    start = round(datetime(2026, 10, 1, tzinfo=UTC).timestamp() * 1000)
    part = TimeBucket(start, start + 1, "2026-10", "2026-10-01", None)
    assert _moment(part, start + days * 86_400_000, "week", ZoneInfo("UTC")).name == name


def test_units_without_work_have_no_section(monkeypatch: pytest.MonkeyPatch) -> None:
    con = _fake(execute=lambda _: _fake(fetchall=lambda: [("epoch",), ("request",), ("prompt_token",)]))
    done: dict[str, Any] = {
        "epochs": {"runs": [], "without_cost": [1]},
        "requests": {"models": [1]},
        "tokens": {"models": []},
    }
    for name, sections in done.items():
        monkeypatch.setattr(units, name, lambda *_, given=sections, **__: _fake(sections=given))
    monkeypatch.setattr(units, "prepare", lambda *_: None)
    assert [view.sections for view in units.unit_views(con, _fake())] == [done["requests"]]


@pytest.mark.parametrize(
    ("costs", "shares"), [((6, 2), [0.75, 0.25]), ((0, 0), [0.25, 0.75])], ids=["cost", "time"]
)
def test_price_sources_share_cost_or_time_if_cost_is_zero(
    costs: tuple[int, int], shares: list[float]
) -> None:
    bill, catalog = map(Decimal, costs)
    nodes = [PricedNodes("bill", 10, 0, bill, None), PricedNodes("catalog", 30, 0, catalog, None)]
    found = {one.name: one.share for one in _price_sources(nodes, NOON)}
    assert [found[name] for name in ("bill", "catalog")] == shares


def test_pod_that_starts_as_a_node_interval_ends_is_not_in_it() -> None:
    of_node: dict[str, Any] = words("node=n cluster=c capacity_type=spot") | {
        "node_id": 1,
        "gpu_count": 8.0,
        "has_users": True,
    }
    of_node |= dict.fromkeys(("provider", "region", "instance_type", "gpu_model"))
    nodes = [of_node | {"from_ms": first, "to_ms": last} for first, last in ((0, 50), (50, 60), (70, 100))]
    pod = words("cluster=c uid=u namespace=ns workload=w team=t workload_type=")
    held = {"node_id": 1, "gpus": 1.0, "resumes": False, "held_from_ms": 50, "held_to_ms": 70}
    fleet = fleet_of(nodes, [], [pod | held])
    assert listed(fleet.pods, "node from_ms to_ms") == "n#2 50 60"


def test_positions_add_up() -> None:
    one = Position(Decimal(3), "USD", 4.0, 0.5)
    assert one + Position(Decimal(6), "USD", 8.0, 1.0) == Position(Decimal(9), "USD", 12.0, 1.5)


def test_filtered_fleet_counts_its_part_of_the_nodes() -> None:
    costs = _fake(node_cost=10, cost=4, gpu_hours=16.0, allocated_gpu_hours=6.0, node_hours=2.0)
    pods = [_fake(place="n", gpu_ms=4 * 3_600_000), _fake(place="m", gpu_ms=2 * 3_600_000)]
    fleet = _fake(by_name={"n": _fake(gpus=8), "m": _fake(gpus=4)}, pods=pods)
    for times, is_held, position in ((1, False, "10 16 2"), (1, True, "4 6 1"), (3, True, "12 18 3")):
        usage = _fake(fleet=fleet, currency="USD", times=times, reported=None)
        assert figures(today_of(usage, costs, is_held=is_held), "cost gpu_hours node_hours") == position
