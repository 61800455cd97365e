"""Findings and what-ifs of the demo: each saving is what its command says, and nothing is counted twice."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

import pytest
import yaml

from gpucost import pipeline
from gpucost.config.model import Config
from gpucost.periods import Period
from gpucost.questions import findings as of_findings
from gpucost.questions.findings.kinds import Findings, WhatIfQuery
from gpucost.questions.report.query import Query
from gpucost.questions.waste import waste_report
from gpucost.questions.waste.anatomy import BUCKETS
from gpucost.questions.whatif.commitments import StoredCommitments
from gpucost.store.connection import Store
from gpucost.whatif.curve import counted
from gpucost.whatif.fleet import Fleet, Scope, Usage, read_stored
from tests.asked_once import ask_findings_once
from tests.sample.build import build
from tests.unit.command import answer, check_end, run

MONTH = Period(datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Config:
    return build(tmp_path_factory.mktemp("demo"), MONTH, lambda _: None)


@pytest.fixture(scope="module", autouse=True)
def _asked_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        ask_findings_once(patch)
        yield


@pytest.fixture(scope="module")
def findings(demo: Config) -> Findings:
    return of_findings.read_findings(demo, Store(demo.store), MONTH)


@pytest.fixture(scope="module")
def where(demo: Config) -> str:
    return f"--month 2026-02 --config {demo.path}"


def test_the_demo_has_every_kind_of_waste_and_of_finding(findings: Findings, demo: Config) -> None:
    # what serves has more than it needs on reserved capacity alone: nothing is saved there
    kinds = "idle_notebook idle_workload over_requested off_peak on_demand_training empty_nodes data_stall lost_work"
    assert {one.kind for one in findings.findings} >= {*kinds.split()}
    assert [one.rank for one in findings.findings] == list(range(1, len(findings.findings) + 1))
    assert (*findings.savings, *findings.upper_bounds) == findings.findings
    for several, total in (
        (findings.savings, findings.saving_per_month),
        (findings.upper_bounds, findings.at_most_per_month),
    ):
        amounts = [one.saving_per_month for one in several]
        assert amounts == sorted(amounts, reverse=True) and sum(amounts) == total
        assert min(one.saving_per_month + one.freed_capacity_per_month for one in several) >= 50
    assert all(one.command and "whatif" in one.command for one in findings.savings)
    (busy,) = (one for one in findings.findings if one.kind == "idle_notebook")
    # the four notebooks of one node are one finding: part cash, part capacity on a node that stays
    assert busy.subject.count("jupyter-") == 4
    assert 0 < busy.saving < busy.freed_capacity_cost + busy.saving < busy.cost
    assert {one.kind for one in findings.upper_bounds} >= {"between_jobs"}
    assert busy.measured == "DCGM_FI_DEV_GPU_UTIL, idle under 5 %; 100 % of the GPU-hours measured"
    query = Query(period=MONTH, period_name="February 2026", with_sections=False)
    _, waste = waste_report(demo, Store(demo.store), query, query)
    named = {row.bucket for row in waste.buckets if row.gpu_hours}
    assert named == {bucket.name for bucket in BUCKETS} - {"cpu_memory"}
    assert waste.totals.cost == sum((row.cost for row in waste.buckets), Decimal(0))


@pytest.mark.slow
def test_each_kind_of_command_shows_the_saving(findings: Findings, demo: Config) -> None:
    kinds = {one.kind: one for one in findings.findings if one.command}
    assert len(kinds) >= 6
    for one in kinds.values():
        assert one.command
        found = answer(f"{one.command.removeprefix('gpucost ')} --config {demo.path}")
        saved = found["saving_by_suitability"]["needs_work"] if one.is_bound else found["saving"]
        assert saved == pytest.approx(float(one.saving), abs=1e-5), one.command
        assert found["today"]["cost"] == pytest.approx(float(one.cost), abs=1e-5), one.command


@pytest.fixture(scope="module")
def fleet(demo: Config) -> Fleet:
    return pipeline.read_attributed(
        demo, Store(demo.store), lambda con: read_stored(con, MONTH, Scope()).fleet
    )


def test_commitments_are_asked_as_the_command_asks(demo: Config, fleet: Fleet, where: str) -> None:
    with Store(demo.store).write() as con:
        con.execute(
            "INSERT INTO list_prices SELECT 'aws', 'us-east-1', '', 'g4dn.12xlarge', 'reserved', 1, 'no_upfront', 'standard',"
            " 1.1, 'USD', NULL, DATE '2026-11-20', 'test'"
        )
    known = StoredCommitments(demo, Store(demo.store), MONTH)
    usage = Usage(fleet, "USD", "", "", is_narrowed=False)
    result = of_findings._commit(known, usage)
    assert result.saving > 0
    found = answer(f"{WhatIfQuery('reserve').words(()).removeprefix('gpucost ')} {where}")
    assert found["saving"] == pytest.approx(float(result.saving), abs=1e-5)
    best = {row["instance_types"]: row["instances"] for row in found["best"]}
    assert best == {"p4d.24xlarge": 2, "g4dn.12xlarge": 1}
    # a finding that frees the node leaves nothing of it to commit to
    nights = counted([(MONTH.start_ms, MONTH.end_ms, 0.5)], MONTH.start_ms, MONTH.end_ms)
    freed = of_findings._commit(known, usage, {("aws", "us-east-1", "g4dn.12xlarge"): nights})
    assert [row["instance_types"] for row in freed.figures["best"]] == ["p4d.24xlarge"]
    assert freed.saving < result.saving


def test_the_command_lists_the_dearest_and_a_period_without_data_is_no_good_news(
    where: str, findings: Findings
) -> None:
    whole = answer(f"findings --team research --top 2 {where}")
    research = [one.command for one in findings.findings if one.team == "research"]
    assert [one["command"] for one in (*whole["savings"], *whole["upper_bounds"])] == research[:2]
    text = run(f"waste --top 0 --findings 2 {where}").stdout
    assert f"${findings.findings[0].saving_per_month:,.2f}" in text
    check_end(f"findings {where} --month 2020-01", "1", "nothing held GPUs in 2020-01-01")
    check_end(f"findings {where} --compare previous", "1", "there is nothing to compare with")


def test_patches_are_objects_that_kubernetes_knows(findings: Findings) -> None:
    patched = [one for one in findings.findings if one.patch]
    assert {one.kind for one in patched} >= {"idle_notebook", "empty_nodes", "on_demand_training", "off_peak"}
    for one in patched:
        for document in yaml.safe_load_all(one.patch or ""):
            if document.get("kind") == "CronJob":
                (container,) = document["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
                assert container["command"][:2] == ["kubectl", "scale"]
                # a service keeps a replica
                assert one.kind != "off_peak" or container["command"][3] != "--replicas=0"
                scaled = container["command"][2].partition("/")[2]
                assert scaled in {name.partition("/")[2] for name in one.subject.split(", ")}
                assert document["metadata"]["namespace"] == one.namespace


def test_notebooks_alone_are_released_by_default(demo: Config) -> None:
    week = f"whatif schedule --from 2026-02-09 --to 2026-02-16 --config {demo.path}"
    default, short = (answer(f"{week} {more}") for more in ("", "--idle-minutes 30"))
    touched = default["tables"]["Whom it touches"]
    released = {row["workload"] for row in touched if row["released_gpu_hours"] > 0}
    assert {f"StatefulSet/jupyter-{name}" for name in ("alice", "bob", "chen")} <= released
    assert all(name.startswith("StatefulSet/jupyter-") for name in released)
    assert short["today"] == default["today"] and 0 < default["saving"] < short["saving"]


def test_findings_of_a_workload_and_names_that_held_nothing(where: str, fleet: Fleet) -> None:
    text = run(f"findings --workload jupyter-alice {where}").stdout
    assert text.count("Idle notebook: ") == 1 and "Training on demand" not in text
    name = next(pod.workload for pod in fleet.pods if pod.workload.startswith("Job/eval-suite-"))
    family = run(f"findings --workload {name} {where}").stdout
    assert "Job/eval-suite-*" in family and "jupyter" not in family
    for option, name in (("workload", "nope"), ("team", "reserch"), ("cluster", "demos"), ("namespace", "x")):
        check_end(f"findings --{option} {name} {where}", "1", f"'{name}' held GPUs")
