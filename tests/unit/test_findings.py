"""Findings by themselves: who comes first, patches for Kubernetes, and hours that a service needs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from zoneinfo import ZoneInfo

import pytest
import yaml

from gpucost.config.model import Config
from gpucost.periods import MS_PER_HOUR, Period, to_ms
from gpucost.questions.findings import savings
from gpucost.questions.findings.kinds import (
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
from gpucost.render.templates import fill

MONTH = Period(datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC))


def test_names_fit_globs_and_words_are_safe_for_a_shell() -> None:
    names = ["Job/a", "Job/a-1", "Job/a-12", "Job/ab-1", "Job/b-1", "Pod/a-1", "Job/[x]-1"]
    for glob in (*names, "Job/a-*", "Job/*", "*", "*-1", "Job/?-1", "Job/[ab]-1", "Pod/z*"):
        fitting = sorted(name for name in names if fnmatchcase(name, glob) or name == glob)
        assert Names(reversed(names)).fitting(glob) == fitting, glob
    question = WhatIfQuery(
        "schedule", "eu one", "n", ("Job/a-*",), (("--idle-minutes", "60"), ("--same-model", None))
    )
    assert savings.period_words(Config(), MONTH) == ("--month", "2026-02")
    week = Period(MONTH.start + timedelta(days=7), MONTH.start + timedelta(days=14))
    assert savings.period_words(Config(), week) == (
        "--from",
        "2026-02-08T00:00:00Z",
        "--to",
        "2026-02-15T00:00:00Z",
    )
    words = question.words(("--month", "2026-02"))
    assert shlex.split(words) == [
        "gpucost", "whatif", "schedule", "--month", "2026-02", "--cluster", "eu one", "--namespace", "n", "--workload", "Job/a-*",
        "--idle-minutes", "60", "--same-model",
    ]  # fmt: skip


def _candidate(
    kind: str, *claims: Claim, waste: int = 100, questions: tuple[WhatIfQuery, ...] = (), subject: str = "s"
) -> Candidate:
    finding = Finding(
        rank=0, kind=kind, title="", cluster="c", namespace="n", team="t", subject=subject, evidence="", start=MONTH.start,
        end=MONTH.end, gpu_hours=1.0, waste_gpu_hours=1.0, utilization=None, cost=Decimal(1000), saving=Decimal(waste),
        saving_per_month=Decimal(0), freed_capacity_cost=Decimal(0), freed_capacity_per_month=Decimal(0), is_bound=True,
        command=None, advice="", measured="", patch=None,
    )  # fmt: skip
    return Candidate(finding, frozenset(claims), questions)


def _ranked(
    candidates: list[Candidate], saved: dict[WhatIfQuery, int], minimum: int = 50, months: int = 1
) -> Findings:
    answers = {
        question: WhatIfResult(question, Decimal(1000), Decimal(saving)) for question, saving in saved.items()
    }
    return ranked(
        candidates, answers, months=Decimal(months), minimum=Decimal(minimum), period=("--month", "2026-02")
    )


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


def test_patches_ask_for_the_size_that_was_used() -> None:
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
    [
        ("chat", INJECTED),
        (INJECTED, "web"),
        ("chat", "web # a"),
        ("chat", "web\n"),
        ("c: {d", "web"),
        ("chat", "we\u202eb"),
    ],
)
def test_names_that_kubernetes_does_not_allow_add_nothing_to_patches(name: str, namespace: str) -> None:
    assert patches.scaled_down(f"Deployment/{name}", namespace, "UTC", {}, 2) is None
    assert patches.smaller_request(f"Deployment/{name}", namespace, 4, 2) == patches.smaller_request(
        "Job/a", "ml", 4, 2
    )


def test_names_that_yaml_reads_as_other_values_stay_names() -> None:
    for name, namespace in (("123", "true"), ("null", "1e3")):
        down = yaml.safe_load(patches.scaled_down(f"Deployment/{name}", namespace, "UTC", {}, 2) or "")
        smaller = yaml.safe_load(patches.smaller_request(f"StatefulSet/{name}", namespace, 4, 2) or "")
        assert (down["metadata"], down["spec"]["schedule"]) == (
            {"name": f"{name}-down", "namespace": namespace},
            "0 20 * * *",
        )
        assert (smaller["metadata"], smaller["kind"]) == (
            {"name": name, "namespace": namespace},
            "StatefulSet",
        )


@pytest.mark.parametrize(
    ("hours", "days", "down", "up"),
    [
        ("08:00-18:30", "mon-fri", "30 18 * * 1-5", "0 8 * * 1-5"),
        ("20:00-04:00", "mon-fri", "0 4 * * 2-6", "0 20 * * 1-5"),
        ("06:00-24:00", "mon-sun", "59 23 * * *", "0 6 * * *"),
    ],
)
def test_office_hours_as_cron_has_them(hours: str, days: str, down: str, up: str) -> None:
    text = patches.scaled_down(
        "Deployment/chat", "web", "Europe/Berlin", {"--office-hours": hours, "--weekdays": days}, 6, least=1
    )
    jobs = list(yaml.safe_load_all(text or ""))
    assert [(job["metadata"]["name"], job["spec"]["schedule"]) for job in jobs] == [
        ("chat-down", down),
        ("chat-up", up),
    ]
    assert {job["spec"]["timeZone"] for job in jobs} == {"Europe/Berlin"}
    containers = [job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0] for job in jobs]
    assert [container["command"][-1] for container in containers] == ["--replicas=1", "--replicas=6"]


def test_patches_have_measured_numbers_or_names_that_kubernetes_refuses() -> None:
    pool = yaml.safe_load(patches.fewer_nodes(76) or "")
    assert pool["spec"]["limits"] == {"nvidia.com/gpu": 76}
    down = yaml.safe_load(patches.scaled_down("StatefulSet/a", "web", "UTC", {}, 1) or "")
    pod = down["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    smaller = yaml.safe_load(patches.smaller_request("Deployment/chat", "web", 4, 2) or "")
    names = (
        pool["metadata"]["name"],
        pod["serviceAccountName"],
        smaller["spec"]["template"]["spec"]["containers"][0]["name"],
    )
    assert not any(re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name) for name in names), names
    # one replica of a service stays: there is nothing to scale down
    assert patches.scaled_down("Deployment/api", "web", "UTC", {}, 1, least=1) is None
    assert patches.fewer_nodes(0) is None


def test_what_became_of_the_findings_before() -> None:
    def found(*worth: tuple[str, int]) -> list[Finding]:
        return [
            replace(_candidate("data_stall", subject=name).finding, saving_per_month=Decimal(much))
            for name, much in worth
        ]

    changed = changes(found(("a", 10), ("b", 20), ("c", 30)), found(("b", 25), ("d", 5)), MONTH)
    told = [(one.status, one.subject, one.before_per_month, one.after_per_month) for one in changed.findings]
    assert told == [
        ("gone", "c", 30, None),
        ("gone", "a", 10, None),
        ("new", "d", None, 5),
        ("still", "b", 20, 25),
    ]


def _hours(active: Callable[[datetime], bool], tz: ZoneInfo) -> list[dict[str, float]]:
    start = to_ms(MONTH.start) // MS_PER_HOUR
    rows = []
    for hour in range(start, start + 24 * 14):
        local = datetime.fromtimestamp(hour * 3600, tz)
        rows.append(
            {"hour": hour, "active_gpu_ms": float(active(local)), "idle_gpu_ms": float(not active(local))}
        )
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
def test_hours_that_a_service_is_needed(
    active: Callable[[datetime], bool], expected: tuple[str, str] | None
) -> None:
    tz = ZoneInfo("America/New_York")
    assert open_hours(_hours(active, tz), tz) == expected
