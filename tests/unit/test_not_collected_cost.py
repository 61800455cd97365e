"""Billed time without metrics is a separate kind of cost in every answer."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from gpucost.publish.openmetrics import PeriodViews, openmetrics
from gpucost.questions import schema as schema_of
from gpucost.render.data import to_csv
from gpucost.render.html import render as html
from gpucost.render.markdown import render as markdown
from gpucost.render.schema import to_dict
from tests.golden.report_fleet import HOUR, OCTOBER, Fleet
from tests.unit.test_coverage import MONTH, ask, fleet, view_of

D = Decimal
pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


def dead_since_the_10th(gaps: str = "") -> Fleet:
    """A fleet without metrics since the 10th; two of its nodes are still billed."""
    case = fleet("prod 0 216", f"prod not_collected 216 ever\n{gaps}", hours=216)
    for hour in range(216, 744):
        case.unseen(OCTOBER + hour * HOUR, 1)
        case.unseen(OCTOBER + hour * HOUR, 2)
    return case


@pytest.fixture(scope="module")
def dead(module_path: Path) -> Path:
    """The folder with the store of `dead_since_the_10th`, for tests that only read it."""
    dead_since_the_10th().write(module_path / "store.duckdb")
    return module_path


@pytest.mark.parametrize("by", [("gpu_model",), ("node", "day"), ("namespace", "hour"), ()])
def test_billed_time_without_metrics_is_its_own_kind(dead: Path, by: tuple[str, ...]) -> None:
    view = view_of(None, dead, *by)
    nodes = view.node_totals
    assert nodes.not_collected_cost == D("33.84") * 528
    assert nodes.not_collected_gpu_hours == 16 * 528
    assert view.totals.cost + nodes.unallocated_cost + nodes.not_collected_cost == nodes.node_cost
    rows = [row for row in view.rows if row.kind == "not_collected"]
    assert sum(row.own_cost for row in rows) == nodes.not_collected_cost
    assert sum(row.not_collected.not_collected_gpu_hours for row in rows if row.not_collected) == 16 * 528
    assert len(rows) == {"gpu_model": 1, "node": 44, "namespace": 528}.get(view.by[0], 1)
    kinds = [row.kind for row in view.rows]
    assert kinds == sorted(kinds, key=("allocated", "unallocated", "not_collected").index)
    if "node" in by:
        assert {row.keys["node"] for row in rows} == {"a100-1", "a100-spot"}
    payload = to_dict(view)
    schema = json.loads(schema_of("report"))
    assert not list(Draft202012Validator(schema).iter_errors(json.loads(view.json())))
    assert payload["totals"]["not_collected_cost"] == nodes.not_collected_cost
    lines = list(csv.DictReader(io.StringIO(to_csv(view))))
    assert sum(D(line["cost"]) for line in lines) == nodes.node_cost


def test_not_collected_cost_is_shown_without_a_team_and_never_shared(dead: Path) -> None:
    view = view_of(None, dead, with_series=True)
    assert "**Not collected** | **8,448.0** | **$17,867.52**" in markdown(view)
    page = html(view)
    assert page.count("$17,867.52") > 1
    assert 'class="not_collected"' in page
    for stack in view.series.stacks:
        assert stack.total == view.node_totals.node_cost
    assert [layer.kind for layer in view.series.stacks[0].layers][-2:] == ["unallocated", "not_collected"]
    view = view_of(None, dead, teams=("research",))
    assert {row.kind for row in view.rows} == {"allocated"}
    assert to_dict(view)["totals"]["not_collected_cost"] is None
    assert not view.coverage.is_complete
    assert any(notice.code == "not_collected" for notice in view.coverage.warnings)
    alone = view_of(None, dead)
    shared = view_of(None, dead, share_unallocated="proportional")
    spread = shared.totals_shared.unallocated_cost or D(0)
    stays = shared.totals_shared.remaining_unallocated_cost or D(0)
    assert spread > 0
    assert spread + stays == alone.node_totals.unallocated_cost
    (row,) = [row for row in shared.rows if row.kind == "not_collected"]
    assert row.own_cost == alone.node_totals.not_collected_cost


def test_parts_of_a_change_add_up_with_not_collected_cost(dead: Path) -> None:
    words = ("diff", "2026-10-01..2026-10-09", "2026-10-09..2026-10-17")
    answer = ask(dead / "store.duckdb", *words, "--format", "json")
    assert answer.exit_code == 0, answer.output
    payload = json.loads(answer.stdout)
    assert payload["parts"]["not_collected"] == pytest.approx(7 * 24 * 33.84)
    assert sum(payload["parts"].values()) == pytest.approx(payload["cost_change"])
    assert payload["after"]["coverage"]["not_collected_hours"] == 168
    assert "billed time without metrics of the GPUs' holders" in ask(dead / "store.duckdb", *words).stdout


def test_openmetrics_report_not_collected_time_and_cost(tmp_path: Path) -> None:
    case = dead_since_the_10th("prod bridged 70 71")
    views = [view_of(case, tmp_path, *by) for by in (("team",), ("gpu_model", "capacity_type"))]
    text = openmetrics([PeriodViews("month_to_date", MONTH, *views, end=MONTH.end)])
    assert f'gpucost_not_collected_seconds{{period="month_to_date"}} {528 * 3600.0}' in text
    assert 'gpucost_bridged_seconds{period="month_to_date"} 3600.0' in text
    assert 'gpucost_fleet_not_collected_cost{period="month_to_date",currency="USD"} 17867.52' in text
