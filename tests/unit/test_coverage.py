"""What was not seen is said wherever figures are shown: most of a month, a hole, a dead source, signed, declared, bridged."""

from __future__ import annotations

import json
from collections.abc import Callable
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
from gpucost.render.data import to_json
from gpucost.render.formatting import coverage_lines
from gpucost.render.html import render as html
from gpucost.render.markdown import render as markdown
from gpucost.render.schema import to_dict
from gpucost.render.view import ReportView
from gpucost.store.connection import Store
from tests.golden.report_fleet import EVER, FAMILIES, HOUR, NOW, OCTOBER, OCTOBER_END, UTC_ZONE, Fleet, sample

DAY = 24 * HOUR
D = Decimal
pytestmark = pytest.mark.usefixtures("in_an_empty_folder")
HOLE = (
    "10.0 h of prod were not collected, 2026-10-03 02:00 to 2026-10-03 12:00: kube-state-metrics was silent"
)
MONTH = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))


def fleet(*collected: tuple[float, float], hours: int = 24) -> Fleet:
    """The sample fleet, collected from one hour of October to another."""
    case = sample(hours=hours)
    case.rows["collected"] = [
        ("prod", OCTOBER + int(start * HOUR), OCTOBER + int(end * HOUR)) for start, end in collected
    ]
    return case


def one_day() -> Fleet:
    return fleet((240, 264), hours=264)


def a_hole(**gap: Any) -> Fleet:
    case = fleet((0, 50), (60, 744))
    case.gap(OCTOBER + 50 * HOUR, OCTOBER + 60 * HOUR, **gap)
    return case


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


def run(case: Fleet, folder: Path, *words: str) -> Result:
    path = folder / "store.duckdb"
    if not path.exists():
        case.write(path)
    return ask(path, *words)


def ask(path: Path, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--store", str(path)], env={"COLUMNS": "400"})


@pytest.fixture(scope="module")
def holed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("holed") / "store.duckdb"
    a_hole().write(path)
    return path


def bridged() -> Fleet:
    case = fleet((0, 744))
    case.gap(OCTOBER + 70 * HOUR, OCTOBER + 70 * HOUR + 48 * 60_000, "bridged")
    return case


def declared() -> Fleet:
    """A cluster is off since the 13th, and another since September."""
    case = fleet((0, 744))
    case.rows["collected"] += [
        ("night", OCTOBER, OCTOBER + 300 * HOUR),
        ("old", OCTOBER - 9 * DAY, OCTOBER - 8 * DAY),
    ]
    case.gap(OCTOBER + 300 * HOUR, EVER[1], "off", cluster="night")
    case.gap(OCTOBER - 8 * DAY, EVER[1], "off", cluster="old")
    return case


def never() -> Fleet:
    case = fleet((0, 744))
    case.gap(*EVER, cluster="edge")
    return case


def several() -> Fleet:
    case = a_hole()
    for name in ("dev", "edge", "gpu", "lab", "west", "zoo"):
        case.rows["collected"] += [(name, *row[1:]) for row in case.rows["collected"] if row[0] == "prod"]
        case.gap(OCTOBER + 50 * HOUR, OCTOBER + 60 * HOUR, cluster=name)
    return case


def partial() -> Fleet:
    case = fleet((0, 744))
    case.gap(OCTOBER + 80 * HOUR, OCTOBER + 82 * HOUR, "partial")
    case.gap(OCTOBER + 90 * HOUR, OCTOBER + 91 * HOUR, "partial")
    return case


def signed() -> Fleet:
    return a_hole(by="Dana, platform team")


#: Of each store: hours missing, whether that is complete, what stands behind "Collected", gaps in JSON, and warnings.
VIEWS: list[tuple[Callable[[], Fleet], float, bool, list[str], dict[str, list[str]], list[tuple[str, str]]]] = [
    (one_day, 720, False, ["all but 720.0 h of prod"], {"not_collected": ["prod", "prod"]}, [
        ("not_collected", "240.0 h of prod were not collected, 2026-10-01 00:00 to 2026-10-11 00:00: before its first sample "
            "(nodes, pods, requests, phases)"),
        ("not_collected", "480.0 h of prod were not collected, 2026-10-12 00:00 to 2026-11-01 00:00: after its last sample"),
    ]),
    (signed, 10, True, ["all but 10.0 h of prod"], {"not_collected": ["prod"]}, []),
    (bridged, 0, True, ["the whole period", "0.8 h bridged"], {"bridged": ["prod"]}, []),
    (declared, 0, True, ["the whole period", "444.0 h of night off"], {"off": ["night"]}, []),
    (never, 744, False, ["all but 744.0 h of edge"], {"not_collected": ["edge"]}, [
        ("not_collected", "744.0 h of edge were not collected, 2026-10-01 00:00 to 2026-11-01 00:00")]),
    (several, 10, False, ["all but 10.0 h in the cluster that misses most, of 7"],
        {"not_collected": ["dev", "edge", "gpu", "lab", "prod", "west", "zoo"]},
        [("not_collected", "10.0 h of dev, edge, gpu, lab, prod and 2 more clusters were not collected")]),
    (partial, 0, True, ["the whole period"], {"partial": ["prod", "prod"]},
        [("partial", "3.0 h of prod are incomplete, between 2026-10-04 08:00 and 2026-10-04 19:00")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "hours", "is_complete", "lines", "gaps", "warnings"),
    VIEWS,
    ids=[row[0].__name__ for row in VIEWS],
)
def test_coverage_of_a_month(
    case: Callable[[], Fleet], hours: float, is_complete: bool, lines: list[str], gaps: dict[str, list[str]],
    warnings: list[tuple[str, str]], tmp_path: Path,
) -> None:  # fmt: skip
    view = view_of(case(), tmp_path)
    assert (view.coverage.not_collected_hours, view.coverage.is_complete) == (hours, is_complete)
    assert lines_of(view)["Collected"] == lines
    payload = to_dict(view)["coverage"]
    kinds = ("not_collected", "bridged", "off", "partial")
    assert {kind: [gap["cluster"] for gap in payload[kind]] for kind in kinds if payload[kind]} == gaps
    found = [
        (one.code, one.message) for one in view.coverage.warnings if one.code in ("not_collected", "partial")
    ]
    assert [
        (code, message[: len(words)]) for (code, message), (_, words) in zip(found, warnings, strict=True)
    ] == warnings


def test_what_is_not_collected_says_how_to_collect_it_and_stands_in_json(tmp_path: Path) -> None:
    view = view_of(one_day(), tmp_path)
    _, after = (notice for notice in view.coverage.warnings if notice.code == "not_collected")
    assert after.fix == "gpucost collect prometheus --from 2026-10-12T00:00 --to 2026-11-01T00:00"
    payload = json.loads(to_json(view))["coverage"]
    assert payload["not_collected"][0] == {
        "cluster": "prod", "from": "2026-10-01T00:00:00Z", "to": "2026-10-11T00:00:00Z", "hours": 240.0,
        "families": FAMILIES, "reason": "before its first sample", "accepted_by": None, "accepted_why": None,
    }  # fmt: skip


def test_coverage_is_of_the_clusters_asked_for_and_a_running_period_of_those_that_run(tmp_path: Path) -> None:
    case = declared()
    case.gap(*EVER, cluster="edge")
    running = view_of(case, tmp_path, period=Period(MONTH.start, MONTH.end + timedelta(days=30)))
    assert running.coverage.collected_to == NOW - timedelta(
        days=2, hours=12
    )  # the end of prod, not of a cluster that is gone
    assert view_of(None, tmp_path, clusters=("prod",)).coverage.is_complete


def test_a_hole_is_named_in_every_format_and_by_the_exit_codes(holed: Path) -> None:
    view = view_of(None, holed.parent, with_series=True)
    for text in (markdown(view), html(view), to_json(view)):
        assert HOLE in text
        assert "nodes, pods, requests, phases" in text
        assert "the whole period" not in text
    assert "not collected in full" in html(view)
    terminal = ask(holed, "report", "--month", "2026-10")
    assert (terminal.exit_code, HOLE in terminal.stdout) == (0, True)
    strict = ask(holed, "report", "--month", "2026-10", "--strict")
    assert strict.exit_code == 4 and f"October 2026 is incomplete: {HOLE}" in strict.stderr


def test_what_is_signed_ends_the_exit_code_and_names_who(tmp_path: Path) -> None:
    view = view_of(signed(), tmp_path, with_series=True)
    (sentence,) = lines_of(view)["Accepted"]
    assert sentence.endswith("(nodes, pods, requests, phases); accepted by Dana, platform team: it was moved")
    payload = to_dict(view)["coverage"]["not_collected"][0]
    assert (payload["accepted_by"], payload["accepted_why"]) == ("Dana, platform team", "it was moved")
    for text in (markdown(view), html(view)):
        assert "accepted by Dana, platform team: it was moved" in text
    strict = ask(tmp_path / "store.duckdb", "report", "--month", "2026-10", "--strict", "--format", "csv")
    assert (strict.exit_code, strict.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "code", "words"),
    [(a_hole, 4, HOLE), (signed, 0, "accepted by Dana, platform team: it was moved")],
)
def test_coverage_stands_on_every_page_of_a_chargeback(
    case: Callable[[], Fleet], code: int, words: str, tmp_path: Path
) -> None:
    bundle = run(case(), tmp_path, "chargeback", "--month", "2026-10", "--out", str(tmp_path))
    assert (bundle.exit_code, f"2026-10 is incomplete: {words}" in bundle.stderr) == (code, code == 4)
    pages = [file for file in (tmp_path / "2026-10").rglob("*") if file.suffix in (".md", ".html")]
    assert len(pages) == 10
    assert [file for file in pages if words not in file.read_text()] == []
    index = json.loads((tmp_path / "2026-10" / "index.json").read_text())
    assert (index["state"], len(index["missing"])) == ("estimate", int(code == 4))


def slow(words: str) -> Any:
    return pytest.param(words, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "words",
    [
        "report --format csv", "waste --format csv -q", "explain team research", slow("report --format parquet -o r.parquet"),
        slow("report --format focus"), slow("waste --format csv"), slow("findings"), slow("unit tokens"),
        slow("whatif schedule --empty-minutes 10 --format json"), slow("report --format csv -q"),
    ],
)  # fmt: skip
def test_what_was_not_collected_is_noted_beside_every_answer(words: str, holed: Path) -> None:
    line = f"note: {HOLE}"
    payload = ask(holed, *words.split(), "--month", "2026-10")
    assert (payload.exit_code, payload.stderr.count(line)) == (0, "-q" not in words), payload.output
    assert line not in payload.stdout and ("-q" not in words or not payload.stderr)


def test_at_most_five_gaps_are_noted(tmp_path: Path) -> None:
    case = fleet(*((at, at + 50) for at in range(0, 700, 60)))
    payload = run(case, tmp_path, "report", "--format", "csv", "--month", "2026-10")
    assert payload.stderr.count("were not collected") == 5
    assert payload.stderr.endswith("note: and 7 more such times\n")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("2026-10 --format csv --strict", 4, "October 2026 is incomplete: 10.0 h of prod were not collected"),
        pytest.param(
            "2026-10 --format focus --strict", 4, "October 2026 is incomplete: 10.0 h", marks=pytest.mark.slow
        ),
        ("2026-09", 1, "there is no data for September 2026"),
        ("2026-09 --strict", 4, "September 2026 is incomplete: 720.0 h of prod were not collected"),
        pytest.param(
            "2026-09 --strict --format focus",
            4,
            "September 2026 is incomplete: 720.0 h of prod were not",
            marks=pytest.mark.slow,
        ),
        ("2099-01 --strict", 1, "there is no data for January 2099"),
    ],
)
def test_strict_is_of_every_format_and_of_months_without_any_data(
    words: str, code: int, message: str, holed: Path
) -> None:
    payload = ask(holed, "report", "--month", *words.split())
    assert (payload.exit_code, message in payload.stderr) == (code, True), payload.output


def test_the_end_of_what_runs_may_be_ten_minutes_old_and_of_what_is_over_a_scrape_late(
    tmp_path: Path,
) -> None:
    """A collect that stopped minutes before the end of a period left them out of it."""
    case, last = fleet((0, 48)), MONTH.start + timedelta(hours=48)
    for minutes, missing in ((10, 0.0), (12, 0.2)):
        now = last + timedelta(minutes=minutes)
        view = view_of(case, tmp_path, now=now)
        assert (view.coverage.not_collected_hours, view.coverage.collected_to) == (missing, last)
        assert not view.coverage.is_complete
        assert lines_of(view)["Collected"] == ["until 2026-10-03 00:00; the period is not over yet"]
        over = view_of(case, tmp_path, now=now, period=Period(MONTH.start, now))
        assert (over.coverage.is_complete, over.coverage.not_collected_hours) == (
            False,
            round(minutes / 60, 9),
        )
    for seconds, is_complete in ((60, True), (61, False)):
        end = last + timedelta(seconds=seconds)
        assert (
            view_of(case, tmp_path, now=end, period=Period(MONTH.start, end)).coverage.is_complete
            is is_complete
        )


def test_an_hour_that_clocks_show_twice_has_its_offset(tmp_path: Path) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    case = fleet((0, 576.5), (579, 744))
    case.write(tmp_path / "store.duckdb", berlin)
    with Store(tmp_path / "store.duckdb").read() as con:
        query = Query(period=MONTH, period_name="October", now=NOW)
        view = build(con, Config(timezone="Europe/Berlin"), query)
    (notice,) = [notice for notice in view.coverage.warnings if notice.code == "not_collected"]
    assert "2026-10-25 02:30+02:00 to 2026-10-25 04:00" in notice.message
    assert notice.fix == "gpucost collect prometheus --from 2026-10-25T02:30+02:00 --to 2026-10-25T04:00"


def test_a_day_that_was_not_seen_in_full_is_no_zero_day(tmp_path: Path) -> None:
    case = sample(hours=240)
    case.rows["collected"] = [
        ("prod", OCTOBER, OCTOBER + 100 * HOUR),
        ("prod", OCTOBER + 110 * HOUR, OCTOBER_END),
    ]
    case.gap(OCTOBER + 100 * HOUR, OCTOBER + 110 * HOUR, by="Dana")
    case.gap(OCTOBER + 170 * HOUR, OCTOBER + 171 * HOUR, "partial")
    case.gap(OCTOBER + 195 * HOUR, OCTOBER + 196 * HOUR, "bridged")
    case.unseen(OCTOBER + 250 * HOUR, 1)
    outcome = days_of(view_of(case, tmp_path, "team", "day"), UTC_ZONE, NOW)
    assert [day.day for day in outcome.all if day not in outcome.complete] == [5, 8]
    assert outcome.costs[CostSeries("fleet")][outcome.all[10]] == D("24.48")
    assert outcome.all[10] not in outcome.costs[CostSeries("unallocated")]


@pytest.mark.parametrize("words", ["forecast", slow("budget check"), slow("anomalies")])
def test_forecasts_say_which_days_they_leave_out(words: str, holed: Path, tmp_path: Path) -> None:
    (tmp_path / "gpucost.toml").write_text('[[budgets]]\nname = "Fleet"\namount = 1000000\n')
    result = ask(holed, *words.split(), "--month", "2026-10", "--format", "json")
    assert result.exit_code == 0, result.output
    warnings = json.loads(result.stdout)["coverage"]["warnings"]
    (left_out,) = [one["message"] for one in warnings if one["code"] == "days_left_out"]
    assert left_out == "1 of 31 days since 2026-10-01 are left out: not collected in full (2026-10-03)"
    assert any(one["code"] == "not_collected" for one in warnings)
