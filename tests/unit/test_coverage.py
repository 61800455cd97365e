"""Missing time in every answer.

Most of a month, a hole, a dead source; accepted, declared and bridged gaps.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner, Result

from gpucost import price
from gpucost.cli.app import app
from gpucost.config.model import Config
from gpucost.periods import Period
from gpucost.questions.budget.projection import CostSeries, days_of
from gpucost.questions.report.build import build
from gpucost.questions.report.query import Query
from gpucost.render.formatting import coverage_lines
from gpucost.render.html import render as html
from gpucost.render.markdown import render as markdown
from gpucost.render.schema import to_dict
from gpucost.render.view import ReportView
from gpucost.store.connection import Store
from tests.golden.report_fleet import FAMILIES, HOUR, NOW, OCTOBER, UTC_ZONE, Fleet, sample
from tests.text_tables import cells, columns, text_rows, titled, words

D = Decimal
pytestmark = pytest.mark.usefixtures("in_an_empty_folder")
HOLE = (
    "10.0 h of prod were not collected, 2026-10-03 02:00 to 2026-10-03 12:00: kube-state-metrics was silent"
)
MONTH = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))


def hour(text: str) -> int:
    return 2**63 - 1 if text == "ever" else OCTOBER + round(float(text) * HOUR)


def fleet(collected: str, gaps: str = "", hours: int = 24) -> Fleet:
    """The sample fleet with the collected hours of October by cluster, and gaps with their kinds.

    A gap may be accepted.
    """
    case = sample(hours=hours)
    case.rows["collected"] = []
    for line in collected.strip().splitlines():
        cluster, start, end = line.split()
        case.rows["collected"].append((cluster, hour(start), hour(end)))
    for line in gaps.strip().splitlines():
        cluster, kind, start, end, *by = line.split(maxsplit=4)
        case.gap(hour(start), hour(end), kind, cluster=cluster, by=by[0] if by else None)
    return case


WHOLE, PARTED = "prod 0 744", "prod 0 50\nprod 60 744"
SIGNED = (PARTED, "prod not_collected 50 60 Dana, platform team")


def view_of(case: Fleet | None, folder: Path, *by: str, **more: Any) -> ReportView:
    path = folder / "store.duckdb"
    if case is not None and not path.exists():
        case.write(path)
    query = {"period": MONTH, "period_name": "October 2026", "now": NOW} | more
    with Store(path).read() as con:
        price.load_fx_rates(con, Config())
        return build(con, Config(), Query(by=by, **query))


def lines_of(view: ReportView) -> dict[str, list[str]]:
    return dict(coverage_lines(view.coverage, "USD"))


def ask(path: Path, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--store", str(path)], env={"COLUMNS": "400"})


@pytest.fixture(scope="module")
def holed(module_path: Path) -> Path:
    path = module_path / "store.duckdb"
    fleet(PARTED, "prod not_collected 50 60").write(path)
    return path


#: Stores of October: collected hours, gaps and hours of the fleet; the missing hours, whether all is
#: complete, the "Collected" line, the clusters of gaps in JSON, and the beginnings of warnings.
VIEWS = titled("""
= one day
collected prod 240 264
fleet 264
missing 720
shows all but 720.0 h of prod
gaps not_collected=prod,prod
warns 240.0 h of prod were not collected, 2026-10-01 00:00 to 2026-10-11 00:00: before its first sample \
(nodes, pods, requests, phases) | 480.0 h of prod were not collected, 2026-10-12 00:00 to 2026-11-01 00:00: after its last sample
= accepted
collected prod 0 50; prod 60 744
gaps_of prod not_collected 50 60 Dana, platform team
missing 10
complete True
shows all but 10.0 h of prod
gaps not_collected=prod
= bridged
collected prod 0 744
gaps_of prod bridged 70 70.8
missing 0
complete True
shows the whole period | 0.8 h bridged
gaps bridged=prod
# a cluster is off since the 13th, and another since September
= declared
collected prod 0 744; night 0 300; old -216 -192
gaps_of night off 300 ever; old off -192 ever
missing 0
complete True
shows the whole period | 444.0 h of night off
gaps off=night
= never
collected prod 0 744
gaps_of edge not_collected -400000 ever
missing 744
shows all but 744.0 h of edge
gaps not_collected=edge
warns 744.0 h of edge were not collected, 2026-10-01 00:00 to 2026-11-01 00:00
= several
collected c 0 50; c 60 744; a 0 50; a 60 744; b 0 50; b 60 744; d 0 50; d 60 744; e 0 50; e 60 744; f 0 50; f 60 744; \
g 0 50; g 60 744
gaps_of c not_collected 50 60; a not_collected 50 60; b not_collected 50 60; d not_collected 50 60; e not_collected 50 60; \
f not_collected 50 60; g not_collected 50 60
missing 10
shows all but 10.0 h in the cluster with the largest gaps, of 7
gaps not_collected=a,b,c,d,e,f,g
warns 10.0 h of a, b, c, d, e and 2 more clusters were not collected
= partial
collected prod 0 744
gaps_of prod partial 80 82; prod partial 90 91
missing 0
complete True
shows the whole period
gaps partial=prod,prod
warns 3.0 h of prod are incomplete, between 2026-10-04 08:00 and 2026-10-04 19:00""")


@pytest.mark.parametrize("name", VIEWS)
def test_coverage_of_a_month(name: str, tmp_path: Path) -> None:
    case = {"gaps_of": "", "fleet": "24", "complete": "False"} | columns(VIEWS[name])
    collected, gap_lines = (case[of].replace("; ", "\n") for of in ("collected", "gaps_of"))
    view = view_of(fleet(collected, gap_lines, int(case["fleet"])), tmp_path)
    assert view.coverage.not_collected_hours == int(case["missing"])
    assert str(view.coverage.is_complete) == case["complete"]
    assert lines_of(view)["Collected"] == case["shows"].split(" | ")
    payload = to_dict(view)["coverage"]
    kinds = ("not_collected", "bridged", "off", "partial")
    gaps = words(case["gaps"])
    assert {
        kind: ",".join(gap["cluster"] for gap in payload[kind]) for kind in kinds if payload[kind]
    } == gaps
    found = [one for one in view.coverage.warnings if one.code in ("not_collected", "partial")]
    assert {one.code for one in found} <= gaps.keys()
    warnings = text_rows(case.get("warns", ""))
    assert all(one.message.startswith(start) for one, start in zip(found, sum(warnings, ()), strict=True))


def test_missing_time_has_the_command_to_collect_it_and_is_in_json(tmp_path: Path) -> None:
    view = view_of(fleet("prod 240 264", hours=264), tmp_path)
    _, after = (notice for notice in view.coverage.warnings if notice.code == "not_collected")
    assert after.fix == "gpucost collect prometheus --from 2026-10-12T00:00 --to 2026-11-01T00:00"
    payload = json.loads(view.json())["coverage"]
    gap = payload["not_collected"][0]
    assert cells([gap], "cluster from to hours reason accepted_by accepted_why") == text_rows(
        "prod | 2026-10-01T00:00:00Z | 2026-10-11T00:00:00Z | 240.0 | before its first sample | None | None"
    )
    assert gap["families"] == FAMILIES and len(gap) == 8


def test_coverage_is_of_selected_clusters_and_a_running_period_of_running_clusters(tmp_path: Path) -> None:
    gaps = "night off 300 ever\nold off -192 ever\nedge not_collected -400000 ever"
    case = fleet(f"{WHOLE}\nnight 0 300\nold -216 -192", gaps)
    running = view_of(case, tmp_path, period=Period(MONTH.start, MONTH.end + timedelta(days=30)))
    assert running.coverage.collected_to == MONTH.end  # of prod, not of a cluster that has ended
    assert view_of(None, tmp_path, clusters=("prod",)).coverage.is_complete


def test_hole_is_named_in_every_format_and_by_the_exit_codes(holed: Path) -> None:
    view = view_of(None, holed.parent, with_series=True)
    for text in (markdown(view), html(view), view.json()):
        assert HOLE in text and "nodes, pods, requests, phases" in text and "the whole period" not in text
    assert "not fully collected" in html(view)
    terminal = ask(holed, "report", "--month", "2026-10")
    assert (terminal.exit_code, HOLE in terminal.stdout) == (0, True)
    strict = ask(holed, "report", "--month", "2026-10", "--strict")
    assert strict.exit_code == 4 and f"October 2026 is incomplete: {HOLE}" in strict.stderr


def test_accepted_gap_exits_with_0_and_names_the_person(tmp_path: Path) -> None:
    view = view_of(fleet(*SIGNED), tmp_path, with_series=True)
    (sentence,) = lines_of(view)["Accepted"]
    assert sentence.endswith("(nodes, pods, requests, phases); accepted by Dana, platform team: it was moved")
    payload = to_dict(view)["coverage"]["not_collected"][0]
    assert (payload["accepted_by"], payload["accepted_why"]) == ("Dana, platform team", "it was moved")
    for text in (markdown(view), html(view)):
        assert "accepted by Dana, platform team: it was moved" in text
    strict = ask(tmp_path / "store.duckdb", "report", "--month", "2026-10", "--strict", "--format", "csv")
    assert (strict.exit_code, strict.stderr) == (0, "")


@pytest.mark.slow
def test_coverage_is_on_every_page_of_a_chargeback(holed: Path, tmp_path: Path) -> None:
    bundle = ask(holed, "chargeback", "--month", "2026-10", "--out", str(tmp_path))
    assert bundle.exit_code == 4 and f"2026-10 is incomplete: {HOLE}" in bundle.stderr
    pages = [file for file in (tmp_path / "2026-10").rglob("*") if file.suffix in (".md", ".html")]
    assert [HOLE in file.read_text() for file in pages] == [True] * 10


@pytest.mark.parametrize("words", ["report --format csv", "waste --format csv -q", "explain team research"])
def test_missing_time_is_noted_with_every_answer(words: str, holed: Path) -> None:
    line = f"note: {HOLE}"
    payload = ask(holed, *words.split(), "--month", "2026-10")
    assert (payload.exit_code, payload.stderr.count(line)) == (0, "-q" not in words), payload.output
    assert line not in payload.stdout and ("-q" not in words or not payload.stderr)


def test_at_most_five_gaps_are_noted(tmp_path: Path) -> None:
    fleet("\n".join(f"prod {at} {at + 50}" for at in range(0, 700, 60))).write(tmp_path / "store.duckdb")
    payload = ask(tmp_path / "store.duckdb", "report", "--format", "csv", "--month", "2026-10")
    assert payload.stderr.count("were not collected") == 5
    assert payload.stderr.endswith("note: and 7 more such gaps\n")


STRICT = """
2026-10 --format csv --strict | 4 | October 2026 is incomplete: 10.0 h of prod were not collected
2026-09 | 1 | no data for September 2026
2026-09 --strict | 4 | September 2026 is incomplete: 720.0 h of prod were not collected
2099-01 --strict | 1 | no data for January 2099"""


@pytest.mark.parametrize(("words", "code", "message"), text_rows(STRICT))
def test_strict_applies_to_every_format_and_to_months_without_data(
    words: str, code: str, message: str, holed: Path
) -> None:
    payload = ask(holed, "report", "--month", *words.split())
    assert (f"{payload.exit_code}", message in payload.stderr) == (code, True), payload.output


def test_running_period_may_end_ten_minutes_ago_and_finished_one_a_scrape_late(tmp_path: Path) -> None:
    """A finished period lacks the minutes after the last collect."""
    case, last = fleet("prod 0 48"), MONTH.start + timedelta(hours=48)
    for minutes, missing in ((10, 0.0), (12, 0.2)):
        now = last + timedelta(minutes=minutes)
        coverage = view_of(case, tmp_path, now=now).coverage
        assert (coverage.not_collected_hours, coverage.collected_to) == (missing, last)
        assert not coverage.is_complete
        lines = dict(coverage_lines(coverage, "USD"))
        assert lines["Collected"] == ["until 2026-10-03 00:00; the period is not over yet"]
        over = view_of(case, tmp_path, now=now, period=Period(MONTH.start, now)).coverage
        assert (over.is_complete, over.not_collected_hours) == (False, round(minutes / 60, 9))
    for seconds, is_complete in ((60, True), (61, False)):
        end = last + timedelta(seconds=seconds)
        over = view_of(case, tmp_path, now=end, period=Period(MONTH.start, end)).coverage
        assert over.is_complete is is_complete


def test_hour_repeated_by_the_clock_change_has_its_offset(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    fleet("prod 0 576.5\nprod 579 744").write(path, ZoneInfo("Europe/Berlin"))
    with Store(path).read() as con:
        view = build(con, Config(timezone="Europe/Berlin"), Query(MONTH, "October", now=NOW))
    (notice,) = [notice for notice in view.coverage.warnings if notice.code == "not_collected"]
    assert "2026-10-25 02:30+02:00 to 2026-10-25 04:00" in notice.message
    assert notice.fix == "gpucost collect prometheus --from 2026-10-25T02:30+02:00 --to 2026-10-25T04:00"


def test_partly_collected_day_is_not_a_day_at_cost_0(tmp_path: Path) -> None:
    gaps = "prod not_collected 100 110 Dana\nprod partial 170 171\nprod bridged 195 196"
    case = fleet("prod 0 100\nprod 110 744", gaps, hours=240)
    case.unseen(OCTOBER + 250 * HOUR, 1)
    outcome = days_of(view_of(case, tmp_path, "team", "day"), UTC_ZONE, NOW)
    assert [day.day for day in outcome.all if day not in outcome.complete] == [5, 8]
    assert outcome.costs[CostSeries("fleet")][outcome.all[10]] == D("24.48")
    assert outcome.all[10] not in outcome.costs[CostSeries("unallocated")]


def test_forecasts_name_the_days_they_leave_out(holed: Path, tmp_path: Path) -> None:
    (tmp_path / "gpucost.toml").write_text('[[budgets]]\nname = "Fleet"\namount = 1000000\n')
    result = ask(holed, "forecast", "--month", "2026-10", "--format", "json")
    assert result.exit_code == 0, result.output
    warnings = json.loads(result.stdout)["coverage"]["warnings"]
    (left_out,) = [one["message"] for one in warnings if one["code"] == "days_left_out"]
    assert left_out == "1 of 31 days since 2026-10-01 are left out: not collected in full"
    assert any(one["code"] == "not_collected" for one in warnings)
