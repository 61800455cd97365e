"""The shipped sample fleet: its report and bill in any two months, and folders that it must not overwrite."""

from __future__ import annotations

import json
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from gpucost import pipeline
from gpucost.api import Gpucost
from gpucost.collect.slurm.sacct import DELIMITER, FIELDS
from gpucost.config.model import Config
from gpucost.demo import fixture
from gpucost.demo.build import build, last_months, prepare
from gpucost.errors import UsageError
from gpucost.periods import Period
from gpucost.questions import findings as of_findings
from gpucost.questions.queue.waits import slurm
from gpucost.questions.reconcile import reconciliation
from gpucost.questions.report import reading
from gpucost.questions.report.query import Query
from gpucost.render.view import ReportView
from gpucost.store.connection import Store
from gpucost.whatif.covered import read_commitments
from tests.replay.result import unpaid
from tests.sample.fixture import BILLED_FOR, SECONDS
from tests.sample.fleet import TEAMS

TITLES = (of_findings.TITLE, "All workloads")
BILLED, ESTIMATED = last_months(datetime(2026, 11, 21, tzinfo=UTC))


@pytest.mark.parametrize(
    ("now", "first_day"),
    [
        (datetime(2026, 1, 1, tzinfo=UTC), (2025, 11, 1)),
        (datetime(2026, 3, 31, 23, tzinfo=UTC), (2026, 1, 1)),
    ],
)
def test_demo_covers_the_last_two_complete_months(now: datetime, first_day: tuple[int, int, int]) -> None:
    billed, estimated = last_months(now)
    assert billed.start == datetime(*first_day, tzinfo=UTC)
    assert billed.end == estimated.start and estimated.end <= now
    assert billed.start.day == estimated.start.day == estimated.end.day == 1


def test_fixture_covers_any_two_months_from_a_monday() -> None:
    for month in range(1, 12 * 28):
        billed, estimated = last_months(datetime(2026 + month // 12, 1 + month % 12, 5, tzinfo=UTC))
        base = datetime.fromtimestamp(fixture.base_of(billed), UTC)
        assert base.strftime("%a %H:%M") == "Mon 00:00"
        assert timedelta(0) <= billed.start - base < timedelta(days=7)
        assert estimated.end <= base + timedelta(seconds=SECONDS)
        assert billed.end <= base + BILLED_FOR


FEBRUARY, MARCH = last_months(datetime(2027, 4, 1, tzinfo=UTC))


@pytest.fixture(scope="module")
def moved(module_path: Path) -> Path:
    """A folder with the bill and the Slurm files of February and March 2027."""
    base_s = fixture.base_of(FEBRUARY)
    with fixture.opened(module_path) as con:
        fixture.write_bill(con, base_s, FEBRUARY, module_path)
        fixture.write_slurm(con, base_s, Period(FEBRUARY.start, MARCH.end), module_path)
    return module_path


_OF_CUR = """
SELECT min(line_item_usage_start_date)::VARCHAR, max(line_item_usage_end_date)::VARCHAR,
    count(*) - count(DISTINCT identity_line_item_id) AS repeated,
    count(*) FILTER (line_item_usage_end_date - line_item_usage_start_date > INTERVAL 1 DAY) AS of_whole_month,
    sum(line_item_usage_amount) FILTER (line_item_usage_type = 'BoxUsage:m6i.2xlarge' AND kind = 'Usage') AS lasting_hours,
    sum(line_item_usage_amount) FILTER (kind = 'RIFee') AS reserved_hours,
    sum(line_item_usage_amount) FILTER (kind = 'DiscountedUsage')
        + any_value(reservation_unused_recurring_fee) FILTER (kind = 'RIFee') / 1.77 AS used_and_unused_hours
FROM (SELECT *, line_item_line_item_type AS kind FROM cur)"""


def test_moved_bill_is_limited_to_its_month(moved: Path) -> None:
    with duckdb.connect() as con:
        con.read_parquet(str(moved / "cur-2027-02.parquet")).create_view("cur")
        ((start, end, repeated, of_whole_month, lasting, reserved, used),) = con.execute(_OF_CUR).fetchall()
    assert (start, end) == ("2027-02-01 00:00:00", "2027-03-01 00:00:00")
    assert repeated == 0
    # reservation fees and their discounts, support, a credit, a refund, and six taxes
    assert of_whole_month == 13
    assert lasting == reserved == 2 * 24 * 28
    assert used == pytest.approx(2 * 24 * 28, abs=0.01)


def test_moved_jobs_match_sacct_output_at_the_end_of_the_period(moved: Path) -> None:
    head, *lines = (line.split(DELIMITER) for line in (moved / "slurm-jobs.psv").read_text().splitlines())
    rows = [dict(zip(FIELDS, line, strict=True)) for line in lines]
    start, end = FEBRUARY.start_ms // 1000, MARCH.end_ms // 1000
    assert head == list(FIELDS)
    assert {row["State"] for row in rows} >= {"COMPLETED", "FAILED", "PREEMPTED", "RUNNING", "TIMEOUT"}
    for row in rows:
        assert int(row["Submit"]) <= int(row["Eligible"]) < end
        times = (row["Start"], row["End"], row["ElapsedRaw"], row["AllocTRES"])
        if row["State"] == "PENDING":
            assert times == ("Unknown", "Unknown", "0", "") and row["JobID"].replace("_", "").isdigit()
        elif row["State"] == "RUNNING":
            assert times[1] == "Unknown" and int(times[2]) == end - int(times[0]) > 0
        else:
            assert start < int(times[1]) <= end and int(times[2]) == int(times[1]) - int(times[0])


def check_report(config: Config, month: Period, sources: set[str]) -> ReportView:
    store = Store(config.store)
    view = reading.report(config, store, Query(period=month, period_name="a month", by=("team",)))
    assert {row.keys["team"] for row in view.rows if row.kind == "allocated"} == {*TEAMS, "unassigned"}
    assert 0.55 < view.totals.efficiency < 0.8
    assert 0.5 < view.totals.spot_ratio < 0.8
    assert view.node_totals is not None
    assert view.totals.cost + view.node_totals.unallocated_cost == view.node_totals.node_cost
    assert [warning.code for warning in view.coverage.warnings] == ["unassigned_namespace"]
    assert {*view.coverage.price_sources} == sources
    assert not unpaid(store)
    return view


# on-premises nodes are not billed
SOURCES = [(BILLED, {"bill", "price_book"}), (ESTIMATED, {"price_book"})]


@pytest.mark.parametrize(("month", "sources"), SOURCES)
def test_demo_report_has_meaningful_figures(demo: Config, month: Period, sources: set[str]) -> None:
    check_report(demo, month, sources)


KINDS = "instance storage network support tax credit refund other commitment_fee commitment_unused reserved_unused"
COUNTED = """
SELECT count(*) FILTER (pricing_category = 'Dynamic') > 0, count(*) FILTER (instance_hours < 1) > 0,
    count(*) FILTER (charge_description = 'enterprise discount' AND billed_cost < 0) > 0,
    list_sort(list(DISTINCT coalesce(commitment_discount_type, '-')) FILTER (kind = 'instance'))
FROM charges"""


def test_demo_bill_has_every_charge_kind_and_reconciles(demo: Config) -> None:
    store = Store(demo.store)
    assert {kind for (kind,) in store.query("SELECT DISTINCT kind FROM charges")[1]} >= {*KINDS.split()}
    (row,) = store.query(COUNTED)[1]
    assert row == (True, True, True, ["-", "Reserved Instance", "Savings Plan"])
    account = reconciliation(demo, store, "2026-09")
    assert (account.problems, account.is_final, account.not_collected) == ((), True, ())
    assert [machine.name for machine in account.unbilled] == ["gpu01", "gpu02", "gpu03"]
    # a machine that never joined its cluster, and a personal one
    assert {machine.instance_type for machine in account.unseen} == {"p5.48xlarge", "g5.4xlarge"}


@pytest.mark.parametrize(("month", "month_of_bill"), [(BILLED, None), (ESTIMATED, "2026-09")])
def test_commitments_apply_in_both_months(demo: Config, month: Period, month_of_bill: str | None) -> None:
    with Store(demo.store).read() as con:
        found = read_commitments(con, month.start_ms, month.end_ms)
    assert found.month == month_of_bill
    assert {one.type for one in found.commitments} == {"Savings Plan", "Reserved Instance"}
    # the plan pays for one and a half on-demand machines
    assert found.covered["aws", "us-east-1", "p4d.24xlarge"].curve.mean == pytest.approx(24 / 15.84, abs=1e-3)


STATES = "COMPLETED FAILED CANCELLED TIMEOUT OUT_OF_MEMORY PREEMPTED NODE_FAIL RUNNING"
RUNS = """
SELECT count(DISTINCT array_job_id) > 0, count(*) FILTER (len(nodes) = 2) > 0, count(*) > count(DISTINCT job_id)
FROM slurm_runs"""


def test_demo_slurm_cluster_covers_all_slurm_features(demo: Config) -> None:
    """Every final state, arrays, a job on two nodes, down and reserved time, waits in both partitions, preemption."""
    store = Store(demo.store)
    states = {state for (state,) in store.query("SELECT DISTINCT state FROM slurm_runs")[1]}
    assert states >= {*STATES.split()}
    assert store.query(RUNS)[1] == [(True, True, True)]
    queues = pipeline.read_attributed(demo, store, lambda con: slurm(con, ESTIMATED, ())[0])
    waits = {one.name: one for one in queues if one.by == "partition"}
    assert set(waits) == {"gpu", "scavenge"} and waits["scavenge"].preempted_cost > 0
    view = reading.report(demo, store, Query(period=ESTIMATED, period_name="", clusters=("hpc",)))
    assert view.node_totals is not None and view.node_totals.unavailable_gpu_hours > 0
    assert view.node_totals.over_allocated_gpu_hours == 0


def test_cost_without_work_is_of_the_workloads_of_that_kind(demo: Config) -> None:
    client = Gpucost(demo.path, demo.store)
    answers = {
        name: json.loads(client.ask(f"unit {name}").json()) for name in ("epoch", "experiment", "tokens")
    }
    of_any = json.loads(client.ask("unit requests", count="epoch").json())
    unworked = {
        name: {row["workload"] for row in found["cost_without_work"]} for name, found in answers.items()
    }
    examples = (
        "Job/segmenter-26",
        "Job/eval-suite-53",
        "Deployment/guard-api",
        "Pod/try-vllm",
        "StatefulSet/jupyter-bob",
    )
    listed = {name: [name in several for name in examples] for name, several in unworked.items()}
    assert listed["epoch"] == [True, False, False, True, False]
    assert listed["experiment"] == [
        False,
        False,
        False,
        True,
        False,
    ]  # jobs without a tracker are experiments
    assert listed["tokens"] == [False, False, True, True, False]
    assert {*examples} <= {row["workload"] for row in of_any["cost_without_work"]}
    allocated = {found["totals"]["allocated_cost"] for found in (*answers.values(), of_any)}
    assert allocated == {json.loads(client.ask("report", month="2026-10").json())["totals"]["cost"]}
    # runs that are over have no forecast, unless it is requested
    planned = [row for row in answers["epoch"]["runs"] if row["planned_epochs"]]
    assert planned and all(row["forecast_cost"] is None for row in planned)
    requested = json.loads(client.ask("unit epoch", planned_epochs=50).json())["runs"]
    assert any(row["forecast_cost"] for row in requested)


def test_findings_are_before_the_table_of_workloads(demo: Config) -> None:
    answer = Gpucost(demo.path, demo.store).ask(
        "report", month="2026-10", team="platform", findings=2, format="html"
    )
    heads = [title for title in re.findall("<h2><bdi>(.+?)</bdi>", answer.html()) if title in TITLES]
    assert heads == [*TITLES]


def test_only_an_earlier_demo_is_overwritten(demo: Config, tmp_path: Path) -> None:
    earlier, other = tmp_path / "earlier", tmp_path / "other"
    shutil.copytree(demo.store.parent, earlier)
    (earlier / "cur-2025-12.parquet").touch()
    prepare(earlier)
    assert not list(earlier.iterdir())
    other.mkdir()
    (other / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match=r"thesis\.txt"):
        prepare(other)
    assert (other / "thesis.txt").exists()


# months of 28, 29, 30 and 31 days that begin on each day of the week, and a clock change
@pytest.mark.slow
@pytest.mark.parametrize(
    "today",
    [
        pytest.param("2028-04-02", marks=pytest.mark.ci),
        *("2027-04-01", "2026-05-31", "2027-02-01", "2029-09-10", "2026-08-05", "2027-01-15"),
    ],
)
def test_demo_is_valid_in_any_two_months(today: str, tmp_path: Path) -> None:
    months = last_months(datetime.fromisoformat(today).replace(tzinfo=UTC))
    config = build(tmp_path, *months, lambda _: None)
    for month, (_, sources) in zip(months, SOURCES, strict=True):
        check_report(config, month, sources)
    account = reconciliation(config, Store(config.store), f"{months[0].start:%Y-%m}")
    assert (account.problems, account.is_final, account.not_collected) == ((), True, ())
