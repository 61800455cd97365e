"""The sample fleet: what it and its bill hold, that a period always gives the same, and where it will not be put."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import cast

import duckdb
import pytest
from typer.testing import CliRunner

from gpucost import pipeline
from gpucost.cli.app import app
from gpucost.config.model import Config
from gpucost.errors import UsageError
from gpucost.periods import MS_PER_HOUR, Period
from gpucost.publish.chargeback import LEDGER_BY
from gpucost.questions.queue.waits import slurm
from gpucost.questions.reconcile import reconciliation
from gpucost.questions.report import reading
from gpucost.questions.report.query import Query
from gpucost.render.view import ReportView
from gpucost.store.connection import Store
from gpucost.whatif.reserve import read_commitments
from tests.replay.result import unpaid
from tests.sample import bill
from tests.sample.build import build, last_months
from tests.sample.fleet import TEAMS, months, plan

BOTH = last_months(datetime(2026, 11, 21, tzinfo=UTC))
BILLED, ESTIMATED = months(BOTH)


@pytest.mark.parametrize(
    ("now", "first_day"),
    [
        (datetime(2026, 1, 1, tzinfo=UTC), (2025, 11, 1)),
        (datetime(2026, 3, 31, 23, tzinfo=UTC), (2026, 1, 1)),
    ],
)
def test_it_shows_the_last_two_complete_months(now: datetime, first_day: tuple[int, int, int]) -> None:
    period = last_months(now)
    assert period.start == datetime(*first_day, tzinfo=UTC)
    assert period.end <= now
    assert len(months(period)) == 2


def test_a_period_always_gives_the_same_fleet_and_bill_with_what_a_finops_engineer_looks_for(
    tmp_path: Path,
) -> None:
    assert plan(BOTH) == plan(BOTH)
    with duckdb.connect() as con:
        first, second = (
            con.read_parquet(str(bill.write(plan(BOTH), BILLED, _folder(tmp_path, name)))) for name in "ab"
        )
        assert first.fetchall() == second.fetchall()
    fleet = plan(BOTH)
    pools = {node.pool for node in fleet.nodes}
    assert len({pool.gpu_model for pool in pools}) >= 4
    assert {pool.capacity_type for pool in pools} == {"on_demand", "reserved", "spot"}
    assert any(pool.mig for pool in pools)
    assert any(pool.replicas > 1 for pool in pools)
    assert {pod.profile for pod in fleet.pods} >= {
        "notebook",
        "forgotten",
        "serving",
        "sparse",
        "training",
        "narrow",
        "hung",
    }
    assert {pod.phase for pod in fleet.pods} == {"Running", "Succeeded", "Failed"}


def _folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


# own nodes are on no bill
@pytest.mark.parametrize(
    ("month", "sources"), [(BILLED, {"bill", "price_book"}), (ESTIMATED, {"price_book"})]
)
def test_its_report_is_worth_reading(demo: Config, month: Period, sources: set[str]) -> None:
    store = Store(demo.store)
    view = reading.report(demo, store, Query(period=month, period_name="a month", by=("team",)))
    assert {row.keys["team"] for row in view.rows if row.kind == "allocated"} == {*TEAMS, "unassigned"}
    assert 0.55 < view.totals.efficiency < 0.8
    assert 0.5 < view.totals.spot_ratio < 0.8
    assert view.totals.cost + view.node_totals.unallocated_cost == view.node_totals.node_cost
    assert not view.coverage.of_kind("not_collected")
    assert {told.name for told in view.coverage.price_sources} == sources
    assert not unpaid(store)


def test_its_bill_has_what_a_bill_has_and_every_cent_is_accounted_for(demo: Config) -> None:
    store = Store(demo.store)
    _, kinds = store.query("SELECT DISTINCT kind FROM charges")
    assert {kind for (kind,) in kinds} >= {
        "instance",
        "storage",
        "network",
        "support",
        "tax",
        "credit",
        "refund",
        "other",
    }
    assert {kind for (kind,) in kinds} >= {"commitment_fee", "commitment_unused", "reserved_unused"}
    _, commitments = store.query(
        "SELECT DISTINCT commitment_discount_type FROM charges WHERE kind = 'instance' ORDER BY ALL"
    )
    assert commitments == [("Reserved Instance",), ("Savings Plan",), (None,)]
    _, ((spot, partial, discounts),) = store.query(
        "SELECT count(*) FILTER (pricing_category = 'Dynamic'), count(*) FILTER (instance_hours < 1), "
        "count(*) FILTER (charge_description = 'enterprise discount' AND billed_cost < 0) FROM charges"
    )
    assert min(cast("int", spot), cast("int", partial), cast("int", discounts)) > 0
    account = reconciliation(demo, Store(demo.store), "2026-09")
    assert account.problems == ()
    assert (account.is_final, account.not_collected) == (True, ())
    assert [machine.name for machine in account.unbilled] == ["gpu01", "gpu02", "gpu03"]
    # a machine that never joined its cluster, and somebody's own
    assert {machine.instance_type for machine in account.unseen} == {"p5.48xlarge", "g5.4xlarge"}


@pytest.mark.parametrize(("month", "told_by"), [(BILLED, None), (ESTIMATED, "2026-09")])
def test_commitments_hold_in_both_months(demo: Config, month: Period, told_by: str | None) -> None:
    with Store(demo.store).read() as con:
        found = read_commitments(con, month.start_ms, month.end_ms)
    assert found.month == told_by
    assert {one.type for one in found.commitments} == {"Savings Plan", "Reserved Instance"}
    # the plan pays for one and a half of the machines on demand
    assert found.covered["aws", "us-east-1", "p4d.24xlarge"].mean == pytest.approx(24 / 15.84, abs=1e-3)


def test_one_ledger_over_kubernetes_and_slurm_adds_up(demo: Config) -> None:
    """What each cluster's teams are charged is what they are charged of both, and with what nobody held all that nodes cost."""
    store, paid = Store(demo.store), Decimal(0)

    def view(*clusters: str, by: tuple[str, ...] = ("team",)) -> ReportView:
        query = Query(period=BILLED, period_name="", by=by, clusters=clusters, with_sections=False)
        return reading.report(demo, store, query)

    charged, parts = defaultdict[str | None, Decimal](Decimal), defaultdict[str | None, Decimal](Decimal)
    ledger = [row for row in view(by=LEDGER_BY).rows if row.kind == "allocated"]
    for row in ledger:
        charged[row.keys["team"]] += row.measures.cost
    for cluster in ("demo", "hpc"):
        part = view(cluster)
        assert part.node_totals is not None
        assert part.totals.cost + part.node_totals.unallocated_cost == part.node_totals.node_cost
        paid += part.node_totals.node_cost
        for row in part.rows:
            if row.kind == "allocated":
                parts[row.keys["team"]] += row.measures.cost
    assert charged == parts
    assert {row.keys["cluster"] for row in ledger} == {"demo", "hpc"}
    both = view(by=("account", "partition", "user"))
    assert both.node_totals is not None and both.node_totals.node_cost == paid
    told = {tuple(row.keys.values()) for row in both.rows if row.kind == "allocated" and row.keys["account"]}
    assert told >= {("ai", "gpu", "mira"), ("life-science", "scavenge", "priya")}


def test_its_slurm_cluster_has_what_slurm_has(demo: Config) -> None:
    """Every ending, arrays, a job on two nodes, closed and reserved time, waits of both partitions, and preemption."""
    store = Store(demo.store)
    states = {state for (state,) in store.query("SELECT DISTINCT state FROM slurm_runs")[1]}
    assert states >= {
        "COMPLETED",
        "FAILED",
        "CANCELLED",
        "TIMEOUT",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "NODE_FAIL",
        "RUNNING",
    }
    _, ((arrays, wide, requeued),) = store.query(
        "SELECT count(DISTINCT array_job_id), count(*) FILTER (len(nodes) = 2), count(*) - count(DISTINCT job_id) FROM slurm_runs"
    )
    assert min(cast("int", arrays), cast("int", wide), cast("int", requeued)) > 0
    queues = pipeline.read_attributed(
        demo, store, lambda con: slurm(con, ESTIMATED, 7 * 24 * MS_PER_HOUR, ())[0]
    )
    waits = {(one.by, one.name): one for one in queues}
    assert {name for by, name in waits if by == "partition"} == {"gpu", "scavenge"}
    assert waits["partition", "scavenge"].preempted_cost > 0
    view = reading.report(demo, store, Query(period=ESTIMATED, period_name="", clusters=("hpc",)))
    assert view.node_totals is not None and view.node_totals.unavailable_gpu_hours > 0
    assert view.node_totals.over_allocated_gpu_hours == 0


@pytest.mark.slow
def test_an_earlier_demo_makes_way_but_nothing_else_does(tmp_path: Path) -> None:
    build(tmp_path, ESTIMATED, lambda _: None)
    (tmp_path / "cur-2025-12.parquet").touch()
    build(tmp_path, ESTIMATED, lambda _: None)
    assert not list(tmp_path.glob("cur-*"))
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match=r"thesis\.txt"):
        build(other, ESTIMATED, lambda _: None)
    assert (other / "thesis.txt").exists()


@pytest.mark.slow
def test_every_line_that_it_ends_with_works_as_it_is_printed(tmp_path: Path) -> None:
    """In a shell that does not find gpucost, at an empty home: its lines, and those of the demo that one keeps."""
    program = Path(sys.executable).with_name("gpucost")
    environment = {"HOME": str(tmp_path), "PATH": os.defpath}
    shell = subprocess.Popen(
        ["bash"],
        cwd=tmp_path,
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )

    def run(line: str) -> tuple[int, str]:
        assert shell.stdin and shell.stdout
        shell.stdin.write(f"{line} >out 2>&1 </dev/null; echo $?; cat out | base64 -w 0; echo\n")
        shell.stdin.flush()
        code, printed = shell.stdout.readline(), shell.stdout.readline()
        return int(code), base64.b64decode(printed).decode()

    def lines(printed: str) -> list[str]:
        return re.findall("^  (.+)$", printed.partition("\nto look around in it:\n")[2], re.M)

    with shell:
        code, printed = run(f"{program} demo")
        first, keep, begin = lines(printed)
        assert code == 0 and first == f'export PATH={program.parent}:"$PATH"'
        assert run(first)[0] == 0
        code, printed = run(keep)
        assert code == 0 and run(begin)[0] == 0
        assert (tmp_path / "gpucost.toml").exists()
        after = lines(printed)
        assert after[0] == "cd gpucost-demo" and len(after) > 10
        failed = {line: printed for line in after for code, printed in [run(line)] if code != 0}
        # the fleet is over its budget, which is no failure
        assert set(failed) <= {"gpucost budget check"}, failed


@pytest.mark.slow
def test_kept_in_a_relative_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["demo", "-q", "--keep", "./a/demo"])
    assert result.exit_code == 0, result.output
    assert {path.name for path in (tmp_path / "a" / "demo").iterdir()} == {
        "gpucost.duckdb", "gpucost.toml", "prices.csv", "slurm-jobs.psv", "slurm-nodes.txt", "slurm-reservations.txt",
        "slurm-events.psv", "slurm-accounts.psv", "slurm-shares.psv", f"cur-{last_months(datetime.now(UTC)).start:%Y-%m}.parquet",
    }  # fmt: skip
