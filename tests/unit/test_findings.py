"""Findings without a fleet: ranking, patches for Kubernetes, and the hours that a service needs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from zoneinfo import ZoneInfo

import pytest
import yaml

from gpucost.config.model import Config
from gpucost.options import WorkloadSelection
from gpucost.periods import MS_PER_HOUR, Period, period_words, to_ms
from gpucost.questions.findings.kinds import (
    Finding,
    Findings,
    Freed,
    WhatIfQuery,
    WhatIfResult,
    _on_shared_nodes,
    answered,
    open_hours,
    patches,
    ranked,
)
from gpucost.render.templates import fill
from gpucost.whatif.fleet import Scope, is_fitting
from tests.text_tables import named_rows, text_rows
from tests.unit.whatif_costs import listed

D = Decimal
MONTH = Period(datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC))


def test_names_match_globs_and_commands_are_quoted_for_a_shell() -> None:
    names = ["Job/a", "Job/a-1", "Job/a-12", "Job/ab-1", "Job/b-1", "Pod/a-1", "Job/[x]-1"]
    assert is_fitting("Job/a", "a") and is_fitting("Job/a-1", "a-*") and not is_fitting("Job/a", "b")
    for glob in (*names, *["Job/a-*", "Job/*", "*", "*-1", "Job/?-1", "Job/[ab]-1", "Pod/z*"]):
        fitting = [name for name in names if fnmatchcase(name, glob) or name == glob]
        assert [name for name in names if is_fitting(name, glob)] == fitting, glob
    scope = Scope(clusters=("eu one",), namespaces=("m", "n"), workloads=("Job/a-*",))
    question = WhatIfQuery("schedule", scope, (("--idle-minutes", "60"),))
    assert question.words(period_words(MONTH, Config().tz)) == (
        "gpucost whatif schedule --month 2026-02 --namespace m --namespace n --workload 'Job/a-*' --cluster 'eu one'"
        " --idle-minutes 60"
    )
    week = Period(MONTH.start + timedelta(days=7), MONTH.start + timedelta(days=14))
    span = "--from 2026-02-08T00:00:00Z --to 2026-02-15T00:00:00Z"
    assert period_words(week, Config().tz) == tuple(span.split())


def test_workloads_that_share_a_node_are_one_group() -> None:
    """Also by a third workload on both nodes, and only in one cluster."""
    places = {
        "a": ("c", "n1"),
        "b": ("c", "n2"),
        "d": ("d", "n1"),
        "both": ("c", "n2 n1"),
        "alone": ("c", "n3"),
    }
    rows = [
        {"workload": name, "cluster": cluster, "nodes": nodes.split()}
        for name, (cluster, nodes) in places.items()
    ]
    groups = [[row["workload"] for row in group] for group in _on_shared_nodes(rows)]
    assert groups == [["d"], ["b", "a", "both"], ["alone"]]


def _candidate(
    kind: str, *workloads: str, waste: int = 100, questions: tuple[WhatIfQuery, ...] = (), subject: str = "s"
) -> Finding:
    return Finding(
        kind=kind, title="", cluster="c", namespace="n", team="t", subject=subject, evidence="", waste_gpu_hours=1.0,
        cost=D(1000), saving=D(0 if questions else waste), command=None, advice="", measured="", patch=None,
        owners=frozenset(("c", "n", name) for name in workloads), questions=questions,
    )  # fmt: skip


ASK, OTHER = WhatIfQuery("schedule"), WhatIfQuery("spot")


def _result(saving: str, needs_work: str = "0", freed: str = "0") -> WhatIfResult:
    return WhatIfResult(D(saving), D(freed), D(needs_work), D(1000))


def _found(
    candidates: list[Finding], answers: dict[WhatIfQuery, WhatIfResult], months: str, words: tuple[str, ...]
) -> Findings:
    """Findings that save at least 50 a month."""
    proposed = [answered(one, answers, D(months), D(50), words) for one in candidates]
    return Findings.of(*ranked(proposed, D(50)), MONTH, "USD", D(50))


CANDIDATES = {
    "notebook": _candidate("idle_notebook", "w", questions=(ASK,)),
    "spot": _candidate("on_demand_training", "w", "v", questions=(OTHER,)),
    "smaller": _candidate("over_provisioned", "b", questions=(ASK, OTHER)),
    "stalled": _candidate("data_stall", "w"),
    "failed": _candidate("lost_work", "w"),
    "free": _candidate("between_jobs"),
    "more free": _candidate("between_jobs", waste=90),
}
# The first kind in order gets the workload unless its saving is too small. Two buckets of a workload are two findings. Free GPUs
# do not belong to a workload. The what-if with the highest saving wins. The saving of half a month counts twice. A saving that
# needs work first is an upper bound, which its command shows.
RANKED = """
    first in line | stalled free spot notebook | 60  | 900   | 1   | 0 | idle_notebook 60 60 False schedule; \
between_jobs 100 100 True None
    buckets       | stalled failed     |     |       | 1   | 0 | data_stall 100 100 True None; \
lost_work 100 100 True None
    too small     | spot notebook      | 40  | 900   | 1   | 1 | on_demand_training 900 900 False spot
    no answer     | free spot notebook | 40  |       | 1   | 1 | between_jobs 100 100 True None
    several       | more_free smaller free | 70 | 300 | 1  | 0 | over_provisioned 300 300 False spot; \
between_jobs 100 100 True None; between_jobs 90 90 True None
    half a month  | notebook           | 30  |       | 0.5 | 0 | idle_notebook 30 60 False schedule
    takes work    | spot               |     | 0,900 | 1   | 0 | on_demand_training 900 900 True spot
    is safe       | spot               |     | 70,900 | 1  | 0 | on_demand_training 70 70 False spot
"""


@pytest.mark.parametrize(
    ("candidates", "ask", "other", "months", "passed_over", "expected"), named_rows(RANKED)
)
def test_findings_are_ranked_and_each_workload_counts_once(
    candidates: str, ask: str, other: str, months: str, passed_over: str, expected: str
) -> None:
    """Rank findings, given the savings of schedules (ask) and spot (other); each must save at least 50 a month."""
    answers = {question: _result(*text.split(",")) for question, text in ((ASK, ask), (OTHER, other)) if text}
    chosen = [CANDIDATES[name.replace("_", " ")] for name in candidates.split()]
    found = _found(chosen, answers, months, ("--month", "2026-02"))
    listing = listed(found.findings, "kind saving saving_per_month is_bound command")
    assert listing.replace("gpucost whatif ", "").replace(" --month 2026-02", "") == expected
    assert found.passed_over == int(passed_over)
    assert found.saving_per_month == sum(one.saving_per_month for one in found.findings if not one.is_bound)


def test_findings_that_save_cash_free_their_workloads() -> None:
    answers = {ASK: _result("100"), OTHER: _result("0", freed="100")}
    empty = replace(_candidate("empty_nodes", questions=(ASK,)), empty=frozenset({"on_demand"}))
    chosen = [
        _candidate("steady_on_demand", "steady", questions=(ASK,)),
        _candidate("idle_workload", "idle", questions=(ASK,)),
        _candidate("over_provisioned", "stays", questions=(OTHER,)),
        _candidate("data_stall", "waits"),
        empty,
    ]
    found = _found(chosen, answers, "1", ())
    assert len(found.findings) == 5
    assert found.freed == Freed(frozenset({("c", "n", "idle")}), frozenset({"on_demand"}))


def test_finding_of_several_namespaces_matches_each_of_them() -> None:
    notebooks = replace(
        _candidate("idle_notebook"),
        namespace=None,
        team="red, blue",
        owners=frozenset({("c", "m", "StatefulSet/a"), ("c", "n", "StatefulSet/b")}),
    )
    found = Findings.of([notebooks, _candidate("between_jobs")], 0, MONTH, "USD", D(50))
    for about, count in (
        ({}, 2),
        ({"clusters": ("c",)}, 2),
        ({"namespaces": ("m",)}, 1),
        ({"namespaces": ("n",), "teams": ("blue",)}, 1),
        ({"namespaces": ("n",), "workloads": ("a",)}, 0),
        ({"teams": ("green",)}, 0),
        ({"clusters": ("d",)}, 0),
    ):
        assert len(found.narrowed(WorkloadSelection(**about)).findings) == count, about


def test_patches_request_the_used_size() -> None:
    smaller = yaml.safe_load(patches.smaller_request("Deployment/chat", "web", 4, 2) or "")
    (container,) = smaller["spec"]["template"]["spec"]["containers"]
    assert (smaller["kind"], smaller["metadata"]["namespace"], container["resources"]) == (
        "Deployment", "web", {"limits": {"nvidia.com/gpu": 2}}
    )  # fmt: skip
    assert yaml.safe_load(patches.smaller_request("Job/sweep-*", "ml", 4, 1) or "")["containers"]
    assert patches.smaller_request("Job/a", "ml", 4, 0) is None
    sharing = yaml.safe_load(fill("patches/shared-gpus.yml"))["data"]["shared"]
    assert yaml.safe_load(sharing)["sharing"]["timeSlicing"]["resources"]


DAYTIME = ("UTC", "08:00-18:00", "mon-fri")
INJECTED = "web\n---\nkind: ClusterRoleBinding\nx: y"


@pytest.mark.parametrize(
    ("name", "namespace"),
    [
        ("chat", INJECTED),
        (INJECTED, "web"),
        ("chat", "web # a"),
        ("chat", "web\n"),
        ("c: {d", "web"),
        ("chat", "we\u202eb"),
    ],
)
def test_names_that_kubernetes_rejects_are_left_out_of_patches(name: str, namespace: str) -> None:
    assert patches.scaled_down(f"Deployment/{name}", namespace, *DAYTIME, replicas=2) is None
    assert patches.smaller_request(f"Deployment/{name}", namespace, 4, 2) == patches.smaller_request(
        "Job/a", "ml", 4, 2
    )


def test_names_that_look_like_other_yaml_values_stay_strings() -> None:
    down = next(yaml.safe_load_all(patches.scaled_down("Deployment/123", "true", *DAYTIME, replicas=2) or ""))
    smaller = yaml.safe_load(patches.smaller_request("StatefulSet/null", "1e3", 4, 2) or "")
    assert down["metadata"] == {"name": "123-down", "namespace": "true"}
    assert (down["spec"]["schedule"], smaller["kind"]) == ("0 18 * * 1-5", "StatefulSet")
    assert smaller["metadata"] == {"name": "null", "namespace": "1e3"}


OFFICE = """
    08:00-18:30 | mon-fri | down 30 18 * * 1-5 1, up 0 8 * * 1-5 6
    20:00-04:00 | mon-fri | down 0 4 * * 2-6 1, up 0 20 * * 1-5 6
    06:00-24:00 | mon-sun | down 59 23 * * * 1, up 0 6 * * * 6
"""


@pytest.mark.parametrize(("hours", "days", "expected"), text_rows(OFFICE))
def test_office_hours_become_cron_schedules(hours: str, days: str, expected: str) -> None:
    text = patches.scaled_down("Deployment/chat", "web", "Europe/Berlin", hours, days, replicas=6)
    found = []
    for job in yaml.safe_load_all(text or ""):
        pod, spec = job["spec"]["jobTemplate"]["spec"]["template"]["spec"], job["spec"]
        assert spec["timeZone"] == "Europe/Berlin"
        last = pod["containers"][0]["command"][-1].removeprefix("--replicas=")
        found.append(f"{job['metadata']['name'].removeprefix('chat-')} {spec['schedule']} {last}")
    assert ", ".join(found) == expected


def test_patch_placeholders_are_invalid_kubernetes_names() -> None:
    pool = yaml.safe_load(patches.fewer_nodes(76) or "")
    assert pool["spec"]["limits"] == {"nvidia.com/gpu": 76}
    down = next(yaml.safe_load_all(patches.scaled_down("StatefulSet/a", "web", *DAYTIME, replicas=2) or ""))
    smaller = yaml.safe_load(patches.smaller_request("Deployment/chat", "web", 4, 2) or "")
    names = (
        pool["metadata"]["name"],
        down["spec"]["jobTemplate"]["spec"]["template"]["spec"]["serviceAccountName"],
        smaller["spec"]["template"]["spec"]["containers"][0]["name"],
    )
    assert not any(re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name) for name in names), names
    # a service with one replica is not scaled down
    assert patches.scaled_down("Deployment/api", "web", *DAYTIME, replicas=1) is None
    assert patches.fewer_nodes(0) is None


def _hours(active: Callable[[datetime], bool], tz: ZoneInfo) -> list[dict[str, float]]:
    start = to_ms(MONTH.start) // MS_PER_HOUR
    moments = {hour: datetime.fromtimestamp(hour * 3600, tz) for hour in range(start, start + 24 * 14)}
    return [
        {"hour": hour, "active_gpu_ms": float(active(local)), "idle_gpu_ms": float(not active(local))}
        for hour, local in moments.items()
    ]


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
def test_open_hours_of_a_service(
    active: Callable[[datetime], bool], expected: tuple[str, str] | None
) -> None:
    tz = ZoneInfo("America/New_York")
    assert open_hours(_hours(active, tz), tz) == expected
