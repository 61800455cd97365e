"""Findings of the sample: savings match the commands, none counts twice, and advice followed in the next month saves it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from fnmatch import fnmatch
from itertools import cycle
from typing import Any

import pytest
import yaml

from gpucost import pipeline
from gpucost.config.model import Config
from gpucost.periods import MS_PER_HOUR, Period
from gpucost.questions import findings as of_findings
from gpucost.questions.findings import savings
from gpucost.questions.findings.kinds import Findings, WhatIfQuery
from gpucost.questions.report.query import Query
from gpucost.questions.report.reading import report
from gpucost.questions.waste import waste_report
from gpucost.questions.waste.anatomy import BUCKETS
from gpucost.questions.whatif.commitments import StoredCommitments
from gpucost.store.connection import Store
from gpucost.whatif.curve import counted
from gpucost.whatif.fleet import Fleet, Scope, read_stored
from gpucost.whatif.spot.advice import SAFE, advise
from tests.asked_once import ask_findings_once
from tests.sample.build import build
from tests.unit.command import answer, check_end, run
from tests.unit.whatif_costs import ask

MONTH = Period(datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC))


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Config:
    return build(tmp_path_factory.mktemp("demo"), MONTH, lambda _: None)


@pytest.fixture(scope="module", autouse=True)
def _asked_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        ask_findings_once(patch)
        yield


@pytest.fixture(scope="module")
def findings(sample: Config) -> Findings:
    return of_findings.read_findings(sample, Store(sample.store), MONTH)


@pytest.fixture(scope="module")
def where(sample: Config) -> str:
    return f"--month 2026-02 --config {sample.path}"


def test_demo_has_every_kind_of_waste_and_finding(findings: Findings, sample: Config) -> None:
    # serving is oversized only on reserved capacity, so a smaller size saves no cash
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
    _, waste = waste_report(sample, Store(sample.store), query, query)
    named = {row.bucket for row in waste.buckets if row.gpu_hours}
    assert named == {bucket.name for bucket in BUCKETS} - {"cpu_memory"}
    assert waste.totals.cost == sum((row.cost for row in waste.buckets), Decimal(0))


@pytest.mark.slow
def test_each_kind_of_command_shows_the_saving(findings: Findings, sample: Config) -> None:
    kinds = {one.kind: one for one in findings.findings if one.command}
    assert len(kinds) >= 6
    for one in kinds.values():
        assert one.command
        found = answer(f"{one.command.removeprefix('gpucost ')} --config {sample.path}")
        saved = found["saving_by_suitability"]["needs_work"] if one.is_bound else found["saving"]
        assert saved == pytest.approx(float(one.saving), abs=1e-5), one.command
        assert found["today"]["cost"] == pytest.approx(float(one.cost), abs=1e-5), one.command


@pytest.fixture(scope="module")
def fleet(sample: Config) -> Fleet:
    return pipeline.read_attributed(
        sample, Store(sample.store), lambda con: read_stored(con, MONTH, Scope()).fleet
    )


def test_commitments_exclude_nodes_freed_by_other_findings(sample: Config, where: str) -> None:
    with Store(sample.store).write() as con:
        con.execute(
            "INSERT INTO list_prices SELECT 'aws', 'us-east-1', '', 'g4dn.12xlarge', 'reserved', 1, 'no_upfront', 'standard',"
            " 1.1, 'USD', NULL, DATE '2026-11-20', 'test'"
        )
    result = savings._Scenarios(sample, Store(sample.store), MONTH).answer(WhatIfQuery("reserve"))
    # another finding moves training to spot; the remaining g4dn.12xlarge are in use for 81 % of the hours
    found = answer(f"whatif reserve {where}")
    kinds = [[row["family"].split()[-1] for row in best] for best in (result.figures["best"], found["best"])]
    assert kinds == [["p4d.24xlarge", "g4dn.12xlarge"], ["g4dn.12xlarge"]]
    assert [row["instances"] for row in found["best"]] == [1]
    used = found["best"][0]["utilization_percent"] / 100
    assert found["saving"] == pytest.approx(672 * (used * 3.519 - 0.99), abs=1e-3)
    assert 0 < found["saving"] < result.saving
    assert found["today"]["cost"] == pytest.approx(float(result.today.cost))


def test_command_lists_top_findings_and_fails_without_data(where: str, findings: Findings) -> None:
    whole = answer(f"findings --team research --top 2 {where}")
    research = [one.command for one in findings.findings if one.team == "research"]
    assert [one["command"] for one in (*whole["savings"], *whole["upper_bounds"])] == research[:2]
    check_end(f"findings {where} --month 2020-01", "1", "no GPU was allocated in January 2020")


def test_runs_of_one_name_are_one_pattern(findings: Findings) -> None:
    for one in findings.findings:
        names = {name.rstrip("0123456789") for _, _, name in one.owners}
        assert one.subject.count(",") < max(1, len(names)) or not one.owners, one.subject
    assert sum("-*" in one.subject and one.command is None for one in findings.findings) > 3


def test_patches_are_valid_kubernetes_objects(findings: Findings) -> None:
    patched = [one for one in findings.findings if one.patch]
    assert {one.kind for one in patched} >= {
        "over_requested",
        "empty_nodes",
        "on_demand_training",
        "off_peak",
    }
    for one in patched:
        for document in yaml.safe_load_all(one.patch or ""):
            if document.get("kind") == "CronJob":
                (container,) = document["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
                assert container["command"][:2] == ["kubectl", "scale"]
                # a service keeps at least one replica
                assert container["command"][3] != "--replicas=0"
                scaled = container["command"][2].partition("/")[2]
                assert scaled in {name.partition("/")[2] for name in one.subject.split(", ")}
                assert document["metadata"]["namespace"] == one.namespace


def test_only_notebooks_are_released_by_default(sample: Config) -> None:
    week = f"whatif schedule --from 2026-02-09 --to 2026-02-16 --config {sample.path}"
    default, short = (answer(f"{week} {more}") for more in ("", "--idle-minutes 30"))
    touched = default["tables"]["Whom it touches"]
    released = {row["workload"] for row in touched if row["released_gpu_hours"] > 0}
    assert {f"StatefulSet/jupyter-{name}" for name in ("alice", "bob", "chen")} <= released
    assert all(name.startswith("StatefulSet/jupyter-") for name in released)
    assert short["today"] == default["today"] and 0 < default["saving"] < short["saving"]


def test_findings_of_a_workload_and_unknown_names(where: str, fleet: Fleet) -> None:
    text = run(f"findings --workload jupyter-alice {where}").stdout
    assert text.count("Idle notebook: ") == 1 and "On-demand training" not in text
    name = next(pod.workload for pod in fleet.pods if pod.workload.startswith("Job/eval-suite-"))
    family = run(f"findings --workload {name} {where}").stdout
    assert "Job/eval-suite-*" in family and "jupyter" not in family
    for option, name in (("workload", "nope"), ("team", "reserch"), ("cluster", "demos"), ("namespace", "x")):
        check_end(f"findings --{option} {name} {where}", "1", f"'{name}' held GPUs")


OCTOBER = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))

SEPTEMBER_HOURS = 30 * 24
PLAYS = 200


def promised(demo: Config, words: str) -> dict[str, Any]:
    return ask(words, f"--month 2026-09 --config {demo.path}")


def october(demo: Config) -> Fleet:
    return pipeline.read_attributed(
        demo, Store(demo.store), lambda con: read_stored(con, OCTOBER, Scope()).fleet
    )


def _fits(workload: str, globs: list[str]) -> bool:
    return any(fnmatch(workload, glob) for glob in globs)


@pytest.mark.ci
def test_september_commitment_advice_saves_money_in_october(demo: Config) -> None:
    """Commitments advised for September save as much in October if its other findings are followed, too."""
    promise, fleet = promised(demo, "reserve"), october(demo)
    savings = answer(f"findings --month 2026-09 --config {demo.path}")["savings"]
    globs = [
        (one["namespace"], one["subject"].split(", "))
        for one in savings
        if one["saving"] and one["kind"] != "steady_on_demand"
    ]
    freed = [
        pod
        for pod in fleet.pods
        if any(pod.namespace == place and _fits(pod.workload, names) for place, names in globs)
    ]
    covered = StoredCommitments(demo, Store(demo.store), OCTOBER).read[0].covered
    assert any(one.curve.node_hours for one in covered.values()), "the bill has commitments"
    prices = {one["name"]: one["value"] for one in promise["assumptions"]}
    saved = 0.0
    for best in promise["best"]:
        provider, region, kind = best["family"].split()
        own = {
            node.key: node
            for node in fleet.nodes
            if (node.capacity_type, node.instance_type) == ("on_demand", kind)
        }
        up = [(node.from_ms, node.to_ms, 1.0) for node in own.values()]
        gone = [
            (pod.from_ms, pod.to_ms, -pod.gpus / own[pod.place].gpus) for pod in freed if pod.place in own
        ]
        levels = counted([*up, *gone], OCTOBER.start_ms, OCTOBER.end_ms).levels
        had = covered.get((provider, region, kind))
        left = [
            max(0.0, level - less)
            for level, less in zip(levels, had.curve.levels if had else cycle([0.0]), strict=False)
        ]
        used = sum(min(level, best["instances"]) for level in left) / len(left)
        # October is longer, so savings are per hour
        saved += used * prices[f"{kind}: on demand"] - best["committed_per_hour"]
    assert sum(best["instances"] for best in promise["best"]) > 0
    by_usage, _ = promise["ranges"]
    least, most = by_usage["low"] / SEPTEMBER_HOURS, by_usage["high"] / SEPTEMBER_HOURS
    assert least - 1e-9 <= saved <= most + 1e-9, (promise["saving"], saved)


@pytest.mark.ci
def test_september_spot_advice_saves_money_in_october(demo: Config) -> None:
    """Runs rated safe in September move to spot in October; each is simulated with random interruptions."""
    answer = promised(demo, "spot")
    least, most = (answer["today"]["cost"] - answer["ranges"][0][end] for end in ("high", "low"))
    given = {one["name"]: one["value"] for one in answer["assumptions"]}
    rates = {name.removeprefix("interruptions of "): value for name, value in given.items()}
    spot = {name.split()[3]: value for name, value in given.items() if name.startswith("spot price of")}
    restart = given["restart (provision, pull, load)"] / 60
    fleet = october(demo)
    draw = random.Random(20261001)
    before = after = 0.0
    moved = 0
    for pod in fleet.pods:
        node = fleet.by_name[pod.place]
        kind = node.instance_type or ""
        is_safe = advise(pod.workload, pod.namespace, pod.workload_type).suits == SAFE
        if node.capacity_type != "on_demand" or kind not in spot or not is_safe:
            continue
        hours, share, rate = pod.length_ms / MS_PER_HOUR, pod.gpus / node.gpus, rates[kind]
        expected = math.exp(rate * restart) * math.expm1(rate * hours) / rate
        if expected * spot[kind] >= hours * node.mean_price:
            continue  # reruns would cost more than spot saves, so it stays
        moved += 1
        before += hours * share * node.mean_price
        for _ in range(PLAYS):
            paid, needed = 0.0, hours
            while (lived := draw.expovariate(rate)) < needed:
                paid, needed = paid + lived, restart + hours
            after += (paid + needed) * share * spot[kind] / PLAYS
    assert moved > 5
    # about as many node-hours move as in September
    moving = answer["tables"]["Workloads on nodes that could move"]
    scale = before / sum(row["today"] for row in moving if row["suits spot"] == "safe")
    assert least * scale <= before - after <= most * scale
    assert before - after == pytest.approx(answer["saving"] * scale, rel=0.4)


def test_findings_are_narrowed_to_workloads_with_a_label(findings: Findings, sample: Config) -> None:
    query = Query(period=MONTH, period_name="", labels=("karpenter.sh/capacity-type=spot",))
    found = of_findings.findings_of(sample, Store(sample.store), query).findings
    on_spot = """SELECT DISTINCT a.cluster, a.namespace, a.workload FROM allocations AS a JOIN nodes AS n USING (node_id)
        WHERE n.capacity_type = 'spot' AND a.held_from_ms < $2 AND $1 < a.held_to_ms AND a.gpus > 0"""
    with Store(sample.store).read() as con:
        owners = {*con.execute(on_spot, [MONTH.start_ms, MONTH.end_ms]).fetchall()}
    expected = [one for one in findings.findings if one.owners & owners]
    assert list(found) == expected
    assert 0 < len(expected) < len(findings.findings)


@pytest.mark.parametrize("name", ["karpenter.sh/capacity-type", "topology.kubernetes.io/zone"])
def test_costs_by_label_add_up_to_the_node_cost(sample: Config, name: str) -> None:
    query = Query(period=MONTH, period_name="", by=(f"label:{name}", "team", "day"), with_sections=False)
    view = report(sample, Store(sample.store), query)
    allocated = [row.measures.cost for row in view.rows if row.kind == "allocated"]
    assert sum(allocated) == view.totals.cost
    assert view.node_totals is not None
    assert sum(row.own_cost for row in view.rows if row.kind != "api") == view.node_totals.node_cost
