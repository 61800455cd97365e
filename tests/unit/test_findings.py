"""Findings: each saving is what its command says, nothing is counted twice, small ones are left out."""

from __future__ import annotations

import json
import math
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml
from typer.testing import CliRunner, Result

from gpucost import pipeline, savings
from gpucost.cli import waste
from gpucost.cli.app import app
from gpucost.cli.whatif_commitments import StoredCommitments
from gpucost.config.model import Config
from gpucost.demo.build import build
from gpucost.errors import GpucostError
from gpucost.findings import (
    Candidate,
    Claim,
    Finding,
    Findings,
    Names,
    WhatIfQuery,
    WhatIfResult,
    changes,
    open_hours,
    patches,
    ranked,
)
from gpucost.inventory import load_activity
from gpucost.periods import MS_PER_HOUR, Period, to_ms
from gpucost.render import markdown, terminal
from gpucost.render.schema import columns_of, table
from gpucost.render.templates import fill
from gpucost.render.view import Page
from gpucost.report import Query
from gpucost.report.waste import BUCKETS
from gpucost.store.connection import Store
from gpucost.store.usage import read_idle
from gpucost.whatif.cost import costs_of, evaluate
from gpucost.whatif.fleet import Fleet, Scope, Usage, is_batch, levels, read_fleet
from tests.asked_once import ask_findings_once
from tests.unit.whatif_costs import ask

MONTH = Period(datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC))
WEEK = "--from 2026-02-09 --to 2026-02-16"
MINUTE = 60_000
Run = Callable[..., Result]

pytestmark = pytest.mark.usefixtures("stages_together")


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
    return waste.read_findings(demo, Store(demo.store), MONTH)


@pytest.fixture(scope="module")
def run(demo: Config) -> Run:
    def invoke(*words: str) -> Result:
        return CliRunner().invoke(app, [*words, "--config", str(demo.path)])

    return invoke


def _answer(run: Run, command: str) -> Any:
    result = run(*shlex.split(command)[1:], "--format", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_demo_has_every_kind_of_waste_and_of_finding(findings: Findings, demo: Config) -> None:
    # what serves has more than it needs on reserved capacity alone: nothing is saved there
    assert {one.kind for one in findings.findings} >= {
        "idle_notebook", "idle_workload", "over_requested", "off_peak", "on_demand_training", "empty_nodes",
        "data_stall", "lost_work",
    }  # fmt: skip
    assert [one.rank for one in findings.findings] == list(range(1, len(findings.findings) + 1))
    assert (*findings.savings, *findings.upper_bounds) == findings.findings
    for several, total in ((findings.savings, findings.saving_per_month), (findings.upper_bounds, findings.at_most_per_month)):
        amounts = [one.saving_per_month for one in several]
        assert amounts == sorted(amounts, reverse=True)
        assert min(amounts) >= 50
        assert sum(amounts) == total
    assert all(one.command and "whatif" in one.command for one in findings.savings)
    busy = next(one for one in findings.findings if one.kind == "idle_notebook")
    assert busy.measured == "DCGM_FI_DEV_GPU_UTIL, idle under 5 %; 100 % of the GPU-hours measured"
    query = Query(period=MONTH, period_name="February 2026", with_sections=False)
    _, waste = pipeline.waste_report(demo, Store(demo.store), query)
    assert {row.bucket for row in waste.buckets if row.gpu_hours} == {bucket.name for bucket in BUCKETS} - {"cpu_memory"}
    assert waste.totals.cost == sum((row.cost for row in waste.buckets), Decimal(0))


@pytest.mark.slow
def test_each_kind_of_command_shows_the_saving(findings: Findings, run: Run) -> None:
    kinds = {one.kind: one for one in findings.findings if one.command}
    assert len(kinds) >= 6
    for one in kinds.values():
        assert one.command
        answer = _answer(run, one.command)
        saved = answer["saving_by_suitability"]["needs_work"] if one.is_bound else answer["saving"]
        assert saved == pytest.approx(float(one.saving), abs=1e-5), one.command
        assert answer["today"]["cost"] == pytest.approx(float(one.cost), abs=1e-5), one.command


_SAFE_JOBS = """
SELECT n.instance_type, a.workload, sum(c.cost) AS cost, sum(c.allocated_gpu_ms) / 3600000 / any_value(n.gpu_count) AS node_hours,
    any_value((a.held_to_ms - a.held_from_ms) / 3600000) AS length, count(DISTINCT a.allocation_id) AS pods
FROM cost_daily AS c JOIN allocations AS a USING (allocation_id) JOIN nodes AS n ON n.node_id = a.node_id
WHERE n.cluster = 'demo' AND n.capacity_type = 'on_demand'
    AND regexp_matches(a.workload, '^(Cron)?Job/.*(sweep|ablation|eval|quanti|test|batch|score)')
GROUP BY ALL"""
_SPOT_PRICES = """
SELECT n.instance_type, sum(p.price_per_hour * (p.to_ms - p.from_ms)) / sum(p.to_ms - p.from_ms)
FROM nodes AS n JOIN node_prices AS p USING (node_id) WHERE n.capacity_type = 'spot' GROUP BY ALL"""


def test_the_headline_of_spot_is_what_its_safe_jobs_save(demo: Config, run: Run) -> None:
    answer = _answer(run, "gpucost whatif spot --month 2026-02 --cluster demo")
    with Store(demo.store).read() as con:
        spot = {name: float(price) for name, price in con.execute(_SPOT_PRICES).fetchall()}
        jobs = con.execute(_SAFE_JOBS).fetchall()
    # AWS' T4 traces; of A100 on AWS there are none: all preemptions over all instance-hours
    rates = {"g4dn.12xlarge": 74 / 135.7, "p4d.24xlarge": 1776 / 7299.0}
    saving, could = 0.0, 0.0
    for name, _, cost, hours, length, pods in jobs:
        assert pods == 1
        # no checkpoint is known: an interruption costs all of the run, and 12 minutes until it goes on
        restart, rate = 0.2, rates[name]
        again = math.exp(rate * restart) * math.expm1(rate * length) / (rate * length)
        # else a checkpoint of 2.5 minutes every 30
        goes_on = math.exp(rate * restart) * math.expm1(rate * (0.5 + 2.5 / 60)) / (rate * 0.5)
        if spot[name] * hours * again < float(cost):
            saving += float(cost) - spot[name] * hours * again
        else:
            could += float(cost) - spot[name] * hours * goes_on
    assert saving > 5 < could
    assert answer["saving"] == pytest.approx(saving, rel=1e-4) == pytest.approx(answer["saving_by_suitability"]["safe"], rel=1e-4)
    assert answer["saving_by_suitability"]["needs_work"] == pytest.approx(could, rel=1e-4)


def test_no_workload_is_saved_twice_and_no_more_than_it_cost(demo: Config, findings: Findings) -> None:
    """What findings save of held GPUs is at most what the workloads of their commands cost, each workload in one command."""
    fleet = _used(demo, Scope())
    names = {(pod.namespace, pod.workload) for pod in fleet.pods}
    seen: set[tuple[str, str]] = set()
    for one in findings.findings:
        if one.command and one.namespace:
            words = shlex.split(one.command)
            globs = [words[i + 1] for i, word in enumerate(words) if word == "--workload"]
            meant = {
                (space, name) for space, name in names if space == one.namespace and any(_fits(name, glob) for glob in globs)
            }
            assert meant
            assert not meant & seen
            seen |= meant
            assert one.saving <= one.cost


def _used(demo: Config, scope: Scope) -> Fleet:
    return pipeline.read_attributed(demo, Store(demo.store), lambda con: read_fleet(con, MONTH, scope))


def _fits(name: str, glob: str) -> bool:
    return name == glob or (glob.endswith("*") and name.startswith(glob[:-1]))


@pytest.mark.slow
def test_a_period_that_is_no_month_is_named_by_its_ends(demo: Config, run: Run) -> None:
    week = Period(MONTH.start + timedelta(days=7), MONTH.start + timedelta(days=14))
    findings = savings.findings(demo, Store(demo.store), week)
    one = next(one for one in findings.findings if one.kind == "idle_notebook")
    assert one.command
    assert "--from 2026-02-08T00:00:00Z --to 2026-02-15T00:00:00Z" in one.command
    assert _answer(run, one.command)["saving"] == pytest.approx(float(one.saving), abs=1e-5)
    assert float(one.saving_per_month) == pytest.approx(float(one.saving) * 730 / 168)


def test_commitments_are_asked_as_the_command_asks(demo: Config, run: Run) -> None:
    with Store(demo.store).write() as con:
        con.execute(
            "INSERT INTO list_prices SELECT 'aws', 'us-east-1', '', 'p4d.24xlarge', 'reserved', 1, 'no_upfront', 'standard',"
            " 1.1, 'USD', NULL, DATE '2026-11-20', 'test'"
        )
    question = WhatIfQuery("reserve", namespace="inference", workloads=("Deployment/chat-api",))
    fleet = _used(demo, Scope(namespaces=("inference",), workloads=question.workloads))
    known = StoredCommitments(demo, Store(demo.store), MONTH)
    scenario = waste._commit(known, Usage(fleet, "USD", "", "", is_narrowed=True))
    (result,) = evaluate(partial(costs_of, demo), [scenario])
    assert result.saving > 0
    answer = _answer(run, question.words(("--month", "2026-02")))
    assert answer["saving"] == pytest.approx(float(result.saving), abs=1e-5)


def test_commitments_are_looked_up_once(demo: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def listed(name: str, **_: Any) -> list[Any]:
        asked.append(name)
        return []

    monkeypatch.setattr("gpucost.cli.whatif_commitments.list_prices", lambda _: nullcontext(listed))
    known = StoredCommitments(demo, Store(demo.store), MONTH)
    fleet = _used(demo, Scope())
    places = {(node.provider or "", node.region or "", node.instance_type or "") for node in fleet.nodes}
    for _ in range(3):
        for place in places:
            known.offers_of(*place)
    assert len(asked) == len(places)


def test_names_fit_globs_and_words_are_safe_for_a_shell() -> None:
    names = ["Job/a", "Job/a-1", "Job/a-12", "Job/ab-1", "Job/b-1", "Pod/a-1", "Job/[x]-1"]
    for glob in (*names, "Job/a-*", "Job/*", "*", "*-1", "Job/?-1", "Job/[ab]-1", "Pod/z*"):
        fitting = sorted(name for name in names if fnmatchcase(name, glob) or name == glob)
        assert Names(reversed(names)).fitting(glob) == fitting, glob
    question = WhatIfQuery("schedule", "eu one", "n", ("Job/a-*",), (("--idle-minutes", "60"), ("--same-model", None)))
    assert savings.period_words(Config(), MONTH) == ("--month", "2026-02")
    week = Period(MONTH.start + timedelta(days=7), MONTH.start + timedelta(days=14))
    assert savings.period_words(Config(), week) == ("--from", "2026-02-08T00:00:00Z", "--to", "2026-02-15T00:00:00Z")
    words = question.words(("--month", "2026-02"))
    assert shlex.split(words) == [
        "gpucost", "whatif", "schedule", "--month", "2026-02", "--cluster", "eu one", "--namespace", "n", "--workload", "Job/a-*",
        "--idle-minutes", "60", "--same-model",
    ]  # fmt: skip


def test_the_command_lists_the_dearest_and_a_period_without_data_is_no_good_news(run: Run, findings: Findings) -> None:
    whole = json.loads(run("findings", "--month", "2026-02", "--format", "json", "--team", "research", "--top", "2").stdout)
    assert whole["schema"] == "gpucost.findings/1"
    research = [one for one in findings.findings if one.team == "research"]
    assert [one["command"] for one in (*whole["savings"], *whole["upper_bounds"])] == [one.command for one in research[:2]]
    assert run("findings", "--minimum", "-1").exit_code == 2
    text = run("waste", "--month", "2026-02", "--top", "0", "--findings", "2").stdout
    assert "What to do about it" in text
    assert f"${findings.findings[0].saving_per_month:,.2f}" in text
    listed = json.loads(run("waste", "--month", "2026-02", "--findings", "2", "--format", "json").stdout)
    assert [one["rank"] for one in listed["findings"]] == [1, 2]
    result = run("findings", "--month", "2020-01")
    assert result.exit_code == 1 and "nothing held GPUs in 2020-01-01" in result.stderr


def test_every_format_tells_the_same(findings: Findings) -> None:
    listed = Page(title="Findings", currency="USD", sections=(waste.finding_items(findings.findings[:3]),))
    text, page = terminal.render(listed, 100, color=False), markdown.render(listed)
    for one in findings.findings[:3]:
        assert f"${one.saving_per_month:,.2f}" in text
        assert f"${one.saving_per_month:,.2f}" in page
        assert (one.command or "") in text
    assert table(findings.findings)[0] == columns_of(Finding)
    nothing = replace(findings, findings=())
    assert "Nothing would save $50.00 a month or more" in waste.headline(nothing, "USD")


def _candidate(
    kind: str, *claims: Claim, waste: int = 100, questions: tuple[WhatIfQuery, ...] = (), subject: str = "s"
) -> Candidate:
    finding = Finding(
        rank=0, kind=kind, title="", cluster="c", namespace="n", team="t", subject=subject, evidence="", start=MONTH.start,
        end=MONTH.end, gpu_hours=1.0, waste_gpu_hours=1.0, utilization=None, cost=Decimal(1000), saving=Decimal(waste),
        saving_per_month=Decimal(0), is_bound=True, command=None, advice="", measured="", patch=None,
    )  # fmt: skip
    return Candidate(finding, frozenset(claims), questions)


def _ranked(candidates: list[Candidate], saved: dict[WhatIfQuery, int], minimum: int = 50, months: int = 1) -> Findings:
    answers = {question: WhatIfResult(question, Decimal(1000), Decimal(saving)) for question, saving in saved.items()}
    return ranked(candidates, answers, months=Decimal(months), minimum=Decimal(minimum), period=("--month", "2026-02"))


def test_the_first_kind_in_line_takes_the_workload_and_a_small_one_leaves_it() -> None:
    ask, other = WhatIfQuery("schedule"), WhatIfQuery("spot")
    whole, part = ("c", "n", "w", "*"), ("c", "n", "w", "data_stall")
    notebook = _candidate("idle_notebook", whole, questions=(ask,))
    spot, stall = _candidate("on_demand_training", whole, questions=(other,)), _candidate("data_stall", part)
    first = _ranked([stall, spot, notebook], {ask: 60, other: 900})
    assert [(one.kind, int(one.saving)) for one in first.findings] == [("idle_notebook", 60)]
    small = _ranked([stall, spot, notebook], {ask: 40, other: 900})
    assert [one.kind for one in small.findings] == ["on_demand_training"]
    assert small.passed_over == 1
    unasked = _ranked([stall, spot, notebook], {ask: 40})
    assert [(one.kind, one.is_bound, one.command) for one in unasked.findings] == [("data_stall", True, None)]


def test_two_buckets_of_a_workload_are_two_findings_and_half_a_month_of_saving_counts_twice() -> None:
    share, size = WhatIfQuery("share"), WhatIfQuery("rightsize")
    findings = _ranked(
        [
            _candidate("data_stall", ("c", "n", "a", "data_stall")),
            _candidate("lost_work", ("c", "n", "a", "failed_restarted")),
            _candidate("lost_work", ("c", "n", "a", "failed_restarted"), subject="again", waste=90),
            _candidate("over_provisioned", ("c", "n", "b", "*"), questions=(share, size)),
        ],
        {share: 70, size: 300},
    )
    assert [(one.kind, int(one.saving)) for one in findings.findings] == [
        ("over_provisioned", 300),
        ("data_stall", 100),
        ("lost_work", 100),
    ]
    assert findings.findings[0].command == "gpucost whatif rightsize --month 2026-02"
    assert findings.saving_per_month == 300
    ask = WhatIfQuery("schedule")
    answers = {ask: WhatIfResult(ask, Decimal(1), Decimal(30))}
    one = _candidate("idle_notebook", ("c", "n", "w", "*"), questions=(ask,))
    findings = ranked([one], answers, months=Decimal("0.5"), minimum=Decimal(50), period=())
    assert [(int(f.saving), int(f.saving_per_month)) for f in findings.findings] == [(30, 60)]


def test_what_takes_work_first_is_a_bound_that_its_command_shows() -> None:
    question = WhatIfQuery("spot")
    one = _candidate("on_demand_training", ("c", "n", "w", "*"), questions=(question,))
    for safe, is_bound, saving in ((0, True, 900), (70, False, 70)):
        answers = {question: WhatIfResult(question, Decimal(1000), Decimal(safe), Decimal(900))}
        (found,) = ranked([one], answers, months=Decimal(1), minimum=Decimal(50), period=()).findings
        assert (found.is_bound, found.saving, found.command) == (is_bound, saving, "gpucost whatif spot")


def test_patches_are_objects_that_kubernetes_knows(findings: Findings) -> None:
    patched = [one for one in findings.findings if one.patch]
    assert {one.kind for one in patched} >= {"idle_notebook", "empty_nodes", "on_demand_training", "off_peak"}
    for one in patched:
        for document in yaml.safe_load_all(one.patch or ""):
            if document.get("kind") == "CronJob":
                (container,) = document["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
                assert container["command"][:2] == ["kubectl", "scale"]
                assert container["command"][2].partition("/")[2] == one.subject.partition("/")[2]
                assert document["metadata"]["namespace"] == one.namespace
    # of the size that was used
    smaller = yaml.safe_load(patches.smaller_request("Deployment/chat", "web", 4, 2) or "")
    (container,) = smaller["spec"]["template"]["spec"]["containers"]
    assert (smaller["kind"], smaller["metadata"]["namespace"], container["resources"]) == (
        "Deployment", "web", {"limits": {"nvidia.com/gpu": 2}}
    )  # fmt: skip
    assert yaml.safe_load(patches.smaller_request("Job/sweep-*", "ml", 4, 1) or "")["containers"]
    assert patches.smaller_request("Job/a", "ml", 4, 0) is None
    sharing = yaml.safe_load(fill("patches/shared-gpus.yml"))["data"]["shared"]
    assert yaml.safe_load(sharing)["sharing"]["timeSlicing"]["resources"]


INJECTED = "web\n---\nkind: ClusterRoleBinding\nx: y"


@pytest.mark.parametrize(
    ("name", "namespace"),
    [("chat", INJECTED), (INJECTED, "web"), ("chat", "web # a"), ("chat", "web\n"), ("c: {d", "web"), ("chat", "we\u202eb")],
)
def test_names_that_kubernetes_does_not_allow_add_nothing_to_patches(name: str, namespace: str) -> None:
    assert patches.scaled_down(f"Deployment/{name}", namespace, "UTC", {}) is None
    assert patches.smaller_request(f"Deployment/{name}", namespace, 4, 2) == patches.smaller_request("Job/a", "ml", 4, 2)


def test_names_that_yaml_reads_as_other_values_stay_names() -> None:
    for name, namespace in (("123", "true"), ("null", "1e3")):
        down = yaml.safe_load(patches.scaled_down(f"Deployment/{name}", namespace, "UTC", {}) or "")
        smaller = yaml.safe_load(patches.smaller_request(f"StatefulSet/{name}", namespace, 4, 2) or "")
        assert (down["metadata"], down["spec"]["schedule"]) == ({"name": f"{name}-down", "namespace": namespace}, "0 20 * * *")
        assert (smaller["metadata"], smaller["kind"]) == ({"name": name, "namespace": namespace}, "StatefulSet")


@pytest.mark.parametrize(
    ("hours", "days", "down", "up"),
    [
        ("08:00-18:30", "mon-fri", "30 18 * * 1-5", "0 8 * * 1-5"),
        ("20:00-04:00", "mon-fri", "0 4 * * 2-6", "0 20 * * 1-5"),
        ("06:00-24:00", "mon-sun", "59 23 * * *", "0 6 * * *"),
    ],
)
def test_office_hours_as_cron_has_them(hours: str, days: str, down: str, up: str) -> None:
    text = patches.scaled_down("Deployment/chat", "web", "Europe/Berlin", {"--office-hours": hours, "--weekdays": days})
    jobs = list(yaml.safe_load_all(text or ""))
    assert [(job["metadata"]["name"], job["spec"]["schedule"]) for job in jobs] == [("chat-down", down), ("chat-up", up)]
    assert {job["spec"]["timeZone"] for job in jobs} == {"Europe/Berlin"}


def test_what_became_of_the_findings_before() -> None:
    def found(*worth: tuple[str, int]) -> list[Finding]:
        return [replace(_candidate("data_stall", subject=name).finding, saving_per_month=Decimal(much)) for name, much in worth]

    changed = changes(found(("a", 10), ("b", 20), ("c", 30)), found(("b", 25), ("d", 5)), MONTH)
    told = [(one.status, one.subject, one.before_per_month, one.after_per_month) for one in changed.findings]
    assert told == [("gone", "c", 30, None), ("gone", "a", 10, None), ("new", "d", None, 5), ("still", "b", 20, 25)]


def test_a_period_with_nothing_before_it_is_not_compared(run: Run) -> None:
    result = run("findings", "--month", "2026-02", "--compare", "previous")
    assert result.exit_code == 1 and "there is nothing to compare with" in result.stderr


def _hours(active: Callable[[datetime], bool], tz: ZoneInfo) -> list[dict[str, float]]:
    start = to_ms(MONTH.start) // MS_PER_HOUR
    rows = []
    for hour in range(start, start + 24 * 14):
        local = datetime.fromtimestamp(hour * 3600, tz)
        rows.append({"hour": hour, "active_gpu_ms": float(active(local)), "idle_gpu_ms": float(not active(local))})
    return rows


@pytest.mark.parametrize(
    ("active", "expected"),
    [
        (lambda _: True, None),
        (lambda _: False, None),
        (lambda at: 7 <= at.hour < 22, ("07:00-22:00", "mon-sun")),
        (lambda at: 7 <= at.hour < 22 and at.weekday() < 5, ("07:00-22:00", "mon-fri")),
        (lambda at: at.weekday() < 5, ("00:00-24:00", "mon-fri")),
        (lambda at: at.hour >= 20 or at.hour < 4, ("20:00-04:00", "mon-sun")),
        (lambda at: at.hour != 3, None),
    ],
)
def test_hours_that_a_service_is_needed(active: Callable[[datetime], bool], expected: tuple[str, str] | None) -> None:
    tz = ZoneInfo("America/New_York")
    assert open_hours(_hours(active, tz), tz) == expected


@pytest.fixture(scope="module")
def ask_week(demo: Config) -> Callable[[str], Any]:
    """The answer to a what-if about a week, which no test may change: it is asked once."""

    @cache
    def answer(words: str) -> Any:
        command, _, options = words.partition(" ")
        return ask(command, f"{options} --config {demo.path} {WEEK}")

    return answer


def _plain_idle(samples: list[tuple[int, float]], end: int) -> list[tuple[int, int]]:
    """Stretches in which the samples say idle: each until the next, or for one interval where the next is far."""
    gaps = sorted(b[0] - a[0] for a, b in pairwise(samples))
    interval = gaps[(len(gaps) - 1) // 2]
    spans: list[tuple[int, int]] = []
    for (moment, value), following in zip(samples, [*(at for at, _ in samples[1:]), None], strict=True):
        near = following is not None and following - moment <= 2.5 * interval
        until = min(end, following if near and following is not None else moment + interval)
        if value < 5 and spans and spans[-1][1] == moment:
            spans[-1] = (spans[-1][0], until)
        elif value < 5:
            spans.append((moment, until))
    return spans


def test_idle_stretches_against_a_plain_count(demo: Config) -> None:
    """Of every pod of the demo with one whole GPU: sample by sample, in Python."""
    pipeline.attribute(demo, Store(demo.store))
    with Store(demo.store).read() as con:
        load_activity(con, demo.activity)
        rows = read_idle(con, MONTH, 30 * MINUTE)
        held = con.execute(
            "SELECT uid, namespace, pod, held_from_ms, held_to_ms FROM allocations"
            " WHERE gpus = 1 AND resource = 'nvidia_com_gpu' AND held_to_ms > $1",
            [MONTH.start_ms],
        ).fetchall()
        series: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
        for namespace, name, hour, offset, step, offsets, values in con.execute(
            "SELECT coalesce(s.labels['exported_namespace'], s.labels['namespace']),"
            " coalesce(s.labels['exported_pod'], s.labels['pod']),"
            " b.hour, b.first_offset_ms, b.step_ms, b.offsets_ms, b.vals"
            " FROM blocks AS b JOIN series AS s USING (series_id) WHERE s.metric = 'DCGM_FI_DEV_GPU_UTIL'"
        ).fetchall():
            at = offsets or [offset + index * (step or 0) for index in range(len(values))]
            series[namespace, name] += [(hour * 3_600_000 + moment, value) for moment, value in zip(at, values, strict=True)]
    idle = {(row["uid"], row["from_ms"], row["to_ms"]) for row in rows}
    checked = 0
    for uid, namespace, name, begin, ended in held:
        end = min(ended, MONTH.end_ms)
        samples = sorted(s for s in series[namespace, name] if begin <= s[0] < end)
        if len(samples) >= 3:
            spans = {(uid, *span) for span in _plain_idle(samples, end) if span[1] - span[0] >= 30 * MINUTE}
            assert {row for row in idle if row[0] == uid} == spans
            checked += len(spans)
    assert checked > 100


def test_schedule_on_the_store(demo: Config, ask_week: Callable[[str], Any]) -> None:
    short, long = ask_week("schedule --idle-minutes 30"), ask_week("schedule --idle-minutes 120")
    assert short["today"] == long["today"]
    assert 0 < long["saving"] < short["saving"] < short["today"]["cost"]
    assert short["waits"] > long["waits"] > 0
    # by default notebooks alone are released; a cluster's nodes are whole
    default, cluster = ask_week("schedule"), ask_week("schedule --cluster demo --cluster hpc")
    released = {row["workload"] for row in default["tables"]["Whom it touches"] if row["released_gpu_hours"] > 0}
    assert {f"StatefulSet/jupyter-{name}" for name in ("alice", "bob", "chen")} <= released
    assert all(name.startswith("StatefulSet/jupyter-") for name in released)
    assert (default["today"], default["saving"]) == (cluster["today"], cluster["saving"])
    # a team's is its own cost
    with Store(demo.store).read() as con:
        cost = con.execute(
            "SELECT sum(cost) FROM cost_hourly WHERE team = 'research' AND from_ms >= epoch_ms(TIMESTAMP '2026-02-09')"
            " AND to_ms <= epoch_ms(TIMESTAMP '2026-02-16')"
        ).fetchall()[0][0]
    assert ask_week("schedule --team research")["today"]["cost"] == pytest.approx(float(cost), abs=1e-4)
    assert ask_week("schedule --team research --office-hours 08:00-18:00")["busy_gpu_hours_outside_office_hours"] > 0


@pytest.mark.parametrize(
    ("command", "options"),
    [("share", "--pods 4 --utilization-percent 15"), ("schedule", "--on-demand-price 3 --active-hours-per-day 5")],
)
def test_fleets_of_the_store_and_of_options_have_one_answer(
    ask_week: Callable[[str], Any], tmp_path: Path, command: str, options: str
) -> None:
    assert list(ask(command, f"{options} --store {tmp_path}/none")) == list(ask_week(command))


@pytest.mark.parametrize("method", [*(pytest.param(one, marks=pytest.mark.slow) for one in ("time-slicing", "mps")), "mig"])
def test_share_on_the_store(ask_week: Callable[[str], Any], method: str) -> None:
    answer = ask_week(f"share --method {method} --headroom-percent 0 --across-teams")
    assert answer["memory_measured"] is False
    assert any("DCGM_FI_DEV_FB_USED" in finding for finding in answer["findings"])
    assert answer["scenario"]["cost"] <= answer["today"]["cost"]


def test_rightsize_on_the_store(ask_week: Callable[[str], Any]) -> None:
    answer = ask_week("rightsize --team research")
    assert answer["saving"] == pytest.approx(answer["saving_by_fewer_gpus"] + answer["saving_by_mig_slices"])
    others = ask_week("rightsize --team research --other-models")
    assert (others["saving"], others["scenario"]) == (answer["saving"], answer["scenario"])
    assert others["other_models_saving"] > 0


def test_the_headline_of_rightsize_is_what_its_unused_gpus_cost(demo: Config, run: Run) -> None:
    """Jobs of several GPUs on demand or spot of which some stood at 0 % all along, for an hour or more."""
    answer = _answer(run, "gpucost whatif rightsize --month 2026-02")
    fleet = _used(demo, Scope())
    with Store(demo.store).read() as con:
        measured = levels(con, demo.activity, MONTH)
    nodes, saving = fleet.by_name, Decimal(0)
    for pod in fleet.pods:
        level, node = measured.get(pod.key), nodes[pod.place]
        if node.capacity_type == "reserved" or level is None or not 0 < level.active_devices < pod.gpus or level.mean == 0:
            continue
        if level.devices < pod.gpus or level.measured_hours < 1 or not is_batch(pod):
            continue
        per_gpu = Decimal(str(node.mean_price / node.gpus * pod.length_ms / MS_PER_HOUR))
        saving += per_gpu * (round(pod.gpus) - level.active_devices)
    assert saving > 0
    assert float(saving) == pytest.approx(answer["saving_by_fewer_gpus"], rel=1e-3)


def test_a_plan_on_the_store(ask_week: Callable[[str], Any], tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(
        '[[groups]]\nname = "r"\nteams = ["research"]\n'
        '[[steps]]\nchange = "rightsize"\ngroups = ["r"]\nprice_per_gpu_hour = 1.0\n'
    )
    answer = ask_week(f"plan {file}")
    assert answer["today"]["cost"] == pytest.approx(ask_week("schedule --team research")["today"]["cost"], abs=1e-3)
    assert answer["scenario"]["cost"] == pytest.approx(answer["scenario"]["gpu_hours"])


@pytest.mark.parametrize("command", ["schedule", "share", "rightsize"])
def test_an_empty_period_is_told(run: Run, command: str) -> None:
    for words, name in (("--month 2020-01", "2020-01"), ("--month 2026-02 --team nobody", "nobody")):
        result = run("whatif", command, *words.split())
        assert result.exit_code == 1 and name in result.output


def test_a_workload_is_known_by_its_name_and_an_unknown_one_brings_those_like_it(demo: Config) -> None:
    names = ("StatefulSet/jupyter-alice", "jupyter-alice", "jupyter-al*")
    fleets = [_used(demo, Scope(workloads=(name,))) for name in names]
    assert fleets[0].pods and fleets[0].pods == fleets[1].pods == fleets[2].pods
    for scope, message, fix in (
        (Scope(workloads=("jupyter-alic",)), "no workload 'jupyter-alic' held GPUs", "StatefulSet/jupyter-alice"),
        (Scope(workloads=names[:1], teams=("nobody",)), "no team 'nobody' held GPUs", ""),
    ):
        with pytest.raises(GpucostError, match=message) as error:
            _used(demo, scope)
        assert fix in (error.value.fix or "")
    later = Period(MONTH.start + timedelta(days=400), MONTH.end + timedelta(days=400))
    with Store(demo.store).read() as con, pytest.raises(GpucostError, match="nothing held GPUs in") as error:
        read_fleet(con, later, Scope())
    assert error.value.fix == "gpucost report shows the newest month with data"
