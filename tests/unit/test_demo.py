"""The sample fleet: what it holds, that a month always gives the same, and where it will not be put."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpucost import pipeline
from gpucost.cli.app import app
from gpucost.demo.build import build, last_month
from gpucost.demo.fleet import plan
from gpucost.demo.model import TEAMS
from gpucost.errors import UsageError
from gpucost.model import Period
from gpucost.report import Query
from gpucost.store import Store
from tests.replay.result import unpaid

MONTH = Period(datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC))


def _silent(words: str) -> None:
    """Progress that nobody reads."""


@pytest.mark.parametrize(
    ("now", "first_day"),
    [(datetime(2026, 1, 1, tzinfo=UTC), (2025, 12, 1)), (datetime(2026, 3, 31, 23, tzinfo=UTC), (2026, 2, 1))],
)
def test_it_shows_the_last_complete_month(now: datetime, first_day: tuple[int, int, int]) -> None:
    month = last_month(now)
    assert month.start == datetime(*first_day, tzinfo=UTC)
    assert month.end <= now


def test_a_month_always_gives_the_same_fleet() -> None:
    assert plan(MONTH) == plan(MONTH)


def test_the_fleet_has_what_a_finops_engineer_looks_for() -> None:
    fleet = plan(MONTH)
    pools = {node.pool for node in fleet.nodes}
    assert len({pool.gpu_model for pool in pools}) >= 4
    assert {pool.capacity_type for pool in pools} == {"on_demand", "spot"}
    assert any(pool.mig for pool in pools)
    assert any(pool.replicas > 1 for pool in pools)
    assert {pod.profile for pod in fleet.pods} >= {"notebook", "forgotten", "serving", "sparse", "training", "narrow", "hung"}
    assert {pod.phase for pod in fleet.pods} == {"Running", "Succeeded", "Failed"}


def test_its_report_is_worth_reading(tmp_path: Path) -> None:
    config = build(tmp_path, MONTH, _silent)
    store = Store(config.store)
    view = pipeline.report(config, store, Query(period=MONTH, period_name="February 2026", by=("team",)))
    assert {row.keys["team"] for row in view.rows if row.kind == "allocated"} == {*TEAMS, "unassigned"}
    assert view.totals.efficiency is not None
    assert 0.55 < view.totals.efficiency < 0.8
    assert view.totals.spot_ratio is not None
    assert 0.5 < view.totals.spot_ratio < 0.8
    assert view.node_totals is not None
    assert view.totals.cost + view.node_totals.unallocated_cost == view.node_totals.node_cost
    assert not view.coverage.of_kind("not_collected")
    assert not unpaid(store)


def test_an_earlier_demo_makes_way_but_nothing_else_does(tmp_path: Path) -> None:
    build(tmp_path, MONTH, _silent)
    build(tmp_path, MONTH, _silent)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match=r"thesis\.txt"):
        build(other, MONTH, _silent)
    assert (other / "thesis.txt").exists()


def test_kept_in_a_relative_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["demo", "-q", "--keep", "./a/demo"])
    assert result.exit_code == 0, result.output
    assert {path.name for path in (tmp_path / "a" / "demo").iterdir()} == {"gpucost.duckdb", "gpucost.toml", "prices.csv"}
