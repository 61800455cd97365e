"""What to do about waste, ranked by money a month: who, why, what it saves, and the command that shows it (docs/findings.md)."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from gpucost.engine import answer_rows
from gpucost.periods import MS_PER_HOUR, Period, from_ms
from gpucost.questions.findings import patches
from gpucost.questions.report.rows import ZERO
from gpucost.questions.waste.anatomy import Waste
from gpucost.records import grouped, grouped_by, keyed_record, record
from gpucost.render.templates import fill
from gpucost.render.view import CoverageAnswer
from gpucost.shapes import Shape

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config

# An hour of the day counts as idle where GPUs were idle for so much of it, and is worth turning off in runs of so many.
_IDLE = 0.8
_SHORTEST = 3
_HOURS = 24


def open_hours(rows: Iterable[Mapping[str, Any]], tz: ZoneInfo) -> tuple[str, str] | None:
    """(hours, weekdays) that it is needed, as `whatif schedule` takes them; None where it is never idle for long, or always.

    `rows` tell active_gpu_ms and idle_gpu_ms of epoch hours.
    """
    # by whether it is a weekend, and the hour of the day
    idle: dict[tuple[bool, int], float] = defaultdict(float)
    measured: dict[tuple[bool, int], float] = defaultdict(float)
    for row in rows:
        local = from_ms(row["hour"] * MS_PER_HOUR).astimezone(tz)
        key = local.weekday() > 4, local.hour
        idle[key] += row["idle_gpu_ms"]
        measured[key] += row["idle_gpu_ms"] + row["active_gpu_ms"]

    def is_idle(hour: int, *weekends: bool) -> bool:
        time = sum(measured[weekend, hour] for weekend in weekends)
        return time > 0 and sum(idle[weekend, hour] for weekend in weekends) >= _IDLE * time

    needed = [not is_idle(hour, False, True) for hour in range(_HOURS)]
    if not any(needed):
        return None
    # how long nothing is needed from each hour on, midnight no border
    pauses = [[*needed, *needed].index(True, begin) - begin for begin in range(_HOURS)]
    length = max(pauses)
    begin = pauses.index(length)
    opens, closes = begin + length, begin
    if length < _SHORTEST:
        length = opens = closes = 0
    weekends_off = all(
        is_idle(hour, True) for hour in range(_HOURS) if (hour - opens) % _HOURS < _HOURS - length
    )
    if not length and not weekends_off:
        return None
    return f"{opens % _HOURS:02}:00-{closes or _HOURS:02}:00", "mon-fri" if weekends_off else "mon-sun"


Row = Mapping[str, Any]
Family = tuple[str, list[Row]]  # what they are called, and the workloads

# What a finding lays claim to: (cluster, namespace, workload, bucket) of held GPU time, or (cluster, GPU model, capacity type,
# bucket) of free GPUs; the bucket "*" is all of them.
Claim = tuple[str, str, str, str]


@record
class WhatIfQuery:
    """A what-if over the store's usage. `workloads` are globs; `options` are those of the command, in its own words."""

    command: str
    cluster: str | None = None
    namespace: str | None = None
    workloads: tuple[str, ...] = ()
    options: tuple[tuple[str, str | None], ...] = ()

    def words(self, period: tuple[str, ...]) -> str:
        """The command line, for a shell; `period` are the words that name the period."""
        words = ["gpucost", "whatif", self.command, *period]
        scope = [("--cluster", self.cluster), ("--namespace", self.namespace)]
        scope += [("--workload", workload) for workload in self.workloads]
        for name, value in (*filter(all, scope), *self.options):
            words += [name] if value is None else [name, value]
        return shlex.join(words)


class WhatIfResult(NamedTuple):
    """A what-if's answer over the period: cash that leaves the bill, and the cost of GPUs freed on nodes that stay.

    `with_work` is what could be saved once something else is done.
    """

    question: WhatIfQuery
    cost: Decimal
    saving: Decimal
    with_work: Decimal = ZERO
    freed: Decimal = ZERO


@record
class Finding(Shape):
    """`saving` is cash of the period, as `command` shows it; `saving_per_month` the same of 730 hours (a whole month: as it is).

    `freed_capacity_cost` is the cost of GPUs that would be free on nodes that stay: capacity for other work, no cash.
    `measured` says how; `patch` is what to apply, in YAML, where it is known. `is_bound`: no command shows it (what the waste
    cost, so that no more can be saved), or what the command shows takes work first. `utilization` is 0-1 over measured time,
    None where nothing was measured.
    """

    rank: int
    kind: str
    title: str
    cluster: str
    namespace: str | None
    team: str | None
    subject: str
    evidence: str
    start: datetime
    end: datetime
    gpu_hours: float
    waste_gpu_hours: float
    utilization: float | None
    cost: Decimal
    saving: Decimal
    saving_per_month: Decimal
    freed_capacity_cost: Decimal
    freed_capacity_per_month: Decimal
    is_bound: bool
    command: str | None
    advice: str
    measured: str
    patch: str | None


class Candidate(NamedTuple):
    """Waste that may become a finding, as it is without an answer: `saving` is what the waste cost, and nothing is ranked.

    Of `questions` the one that saves most counts; without any, what the waste cost is at stake.
    """

    finding: Finding
    claims: frozenset[Claim]
    questions: tuple[WhatIfQuery, ...] = ()


@record
class Findings:
    """`findings` are those that a command shows, the dearest first, then the others.

    `passed_over` counts those under the minimum.
    """

    findings: tuple[Finding, ...]
    minimum_per_month: Decimal
    passed_over: int

    @property
    def savings(self) -> tuple[Finding, ...]:
        """Those that a command shows."""
        return tuple(found for found in self.findings if not found.is_bound)

    @property
    def upper_bounds(self) -> tuple[Finding, ...]:
        """Those of which no more than that can be saved, or once something else is done."""
        return tuple(found for found in self.findings if found.is_bound)

    @property
    def saving_per_month(self) -> Decimal:
        """Of those that a command shows: what only bounds a saving is not added to it."""
        return _total(found.saving_per_month for found in self.savings)

    @property
    def freed_capacity_per_month(self) -> Decimal:
        """The cost of GPUs that those would free on nodes that stay."""
        return _total(found.freed_capacity_per_month for found in self.savings)

    @property
    def at_most_per_month(self) -> Decimal:
        """Of the others."""
        return _total(found.saving_per_month for found in self.upper_bounds)


@record
class FindingChange(Shape):
    """A finding beside the same of the period before: what it is worth a month then and now, None where it is not there."""

    status: Literal["gone", "still", "new"]
    kind: str
    title: str
    cluster: str
    namespace: str | None
    subject: str
    before_per_month: Decimal | None
    after_per_month: Decimal | None


@record
class FindingChanges(Shape):
    """What became of the findings of the period before: `gone` no longer show, done or passed by themselves."""

    period: Period
    findings: tuple[FindingChange, ...]


# Of these a place has one, whoever its runs or nodes are.
_OF_PLACES = {"on_demand_training", "steady_on_demand", "empty_nodes"}


def changes(before: Sequence[Finding], after: Sequence[Finding], period: Period) -> FindingChanges:
    """The findings of `period` beside those after it: known by kind, place and subject; what is gone first, then the dearest."""

    def by_key(findings: Sequence[Finding]) -> dict[tuple[str | None, ...], Finding]:
        return {
            (one.kind, one.cluster, one.namespace, "" if one.kind in _OF_PLACES else one.subject): one
            for one in findings
        }

    then, now = by_key(before), by_key(after)
    rows = []
    for key in {**then, **now}:
        old, new = then.get(key), now.get(key)
        one = new or then[key]
        status: Literal["gone", "still", "new"] = "gone" if new is None else "still" if old else "new"
        worth = (found.saving_per_month if found else None for found in (old, new))
        rows.append(
            FindingChange(status, one.kind, one.title, one.cluster, one.namespace, one.subject, *worth)
        )
    order = ("gone", "new", "still").index
    rows.sort(key=lambda row: (order(row.status), -max(row.before_per_month or 0, row.after_per_month or 0)))
    return FindingChanges(period, tuple(rows))


@record
class FindingsAnswer(Shape):
    """What `gpucost findings` prints: sums of all findings, and the first of them."""

    period: Period
    currency: str
    minimum_per_month: Decimal
    saving_per_month: Decimal
    freed_capacity_per_month: Decimal
    at_most_per_month: Decimal
    passed_over: int
    savings: tuple[Finding, ...]
    upper_bounds: tuple[Finding, ...]
    changes: FindingChanges | None = None


@keyed_record
class WasteAnswer(Shape):
    """What `gpucost waste` prints, findings where they are asked for."""

    period: Period
    currency: str
    waste: Waste
    findings: tuple[Finding, ...] | None = None
    coverage: CoverageAnswer

    FLAT = ("period", "waste")


def is_fitting(name: str, glob: str) -> bool:
    """Whether the glob fits the name, or is the name."""
    return name == glob or fnmatchcase(name, glob)


_NUMBER = re.compile(r"([-_.])\d+$")
_IDLE_MINUTES = (("--idle-minutes", "60"),)
_LITTLE_USED = 0.5
_EVERY = "*"
# Findings without a command, of workloads: the bucket of waste, what its hours were, and what explains them.
_ADVISED = {
    "data_stall": ("data_stall", "idle while it ran", ""),
    "lost_work": ("failed_restarted", "lost by pods that failed", "since their last epoch known"),
    "slow_start": ("starting", "held before it ran", "images are pulled meanwhile"),
    "reserved": ("reserved", "kept free by a reservation", ""),
}
# And of free GPUs: what they were, by bucket.
_FREE = {
    "between_jobs": "that were free on nodes in use",
    "fragmentation": "that were free, but fewer than the smallest request",
    "reserved": "that reservations of Slurm kept free",
    "unavailable": "that were not ready, cordoned or broken",
}
_OWN_MACHINES = "switch these own machines off, which saves power, or use them for other work"

Options = tuple[tuple[str, str | None], ...]
Wasted = tuple[float, Decimal]  # milliseconds of GPUs, and what they cost


class Candidates:
    """Everything that may be worth a finding, of the tables waste_rows and activity_use and the attributed ones.

    `workloads`, and `free` GPUs that nobody held, are rows as the SQL names them.
    """

    def __init__(self, con: DuckDBPyConnection, config: Config, period: Period) -> None:
        self.workloads = answer_rows(con, "gpucost.questions.findings", "workloads", period.bounds)
        self.free = answer_rows(con, "gpucost.questions.findings", "free_gpus", period.bounds)
        self.period, self.config = period, config
        self.many = len({row["cluster"] for row in (*self.workloads, *self.free)}) > 1
        self.places = grouped_by(self.workloads, "cluster", "namespace")

    def all(self) -> Iterator[Candidate]:
        """All waste that may become a finding, kind by kind."""
        yield from self._idle("development", "idle_notebook", "user_away", "forgotten")
        yield from self._idle("other", "idle_workload", "idle")
        yield from self._over_requested()
        yield from self._serving()
        training = _families(row for row in self.workloads if row["workload_type"] in ("training", "batch"))
        could = "{} that could go on after an interruption"
        patch = fill("patches/on-spot.yml")
        yield from self._on_demand("on_demand_training", "spot", training, could, patch)
        yield from self._empty_nodes()
        serving = [(row["workload"], [row]) for row in self._of_type("inference")]
        yield from self._on_demand("steady_on_demand", "reserve", serving, "serves around the clock")
        for kind, (bucket, what, words) in _ADVISED.items():
            for family, rows in _families(row for row in self.workloads if bucket in row["buckets"]):
                waste = _wasted(rows, bucket)
                if waste[1] > 0:
                    yield self._candidate(kind, rows, family, waste, what, words, bucket=bucket)
        for row in self.free:
            if row["bucket"] in _FREE and row["cost"] > 0:
                yield self._of_free(row["bucket"], [row], _FREE[row["bucket"]])

    def _of_type(self, workload_type: str) -> list[Row]:
        return [row for row in self.workloads if row["workload_type"] == workload_type]

    def _scope(self, rows: Sequence[Row], family: str) -> tuple[str, ...]:
        """The words that name these workloads of a namespace and no others: the family's glob, else each by itself."""
        if len(rows) > 1:
            others = self.places[rows[0]["cluster"], rows[0]["namespace"]]
            fitting = [row for row in others if is_fitting(row["workload"], family)]
            return (family,) if fitting == rows else _workloads(rows)
        return (family,)

    def _idle(self, workload_type: str, kind: str, *buckets: str) -> Iterator[Candidate]:
        """Those on one node are one finding: it goes only if all of them release it."""
        wasteful = [row for row in self._of_type(workload_type) if _wasted([row], *buckets)[1] > 0]
        for rows in _on_shared_nodes(wasteful):
            active, names = max(row["active_to_ms"] or 0 for row in rows), _workloads(rows)
            words = f"last active {self._moment(active)}" if active else "never active"
            patch = patches.joined(self._scaled_down(row, {}) for row in rows)
            question = self._question("schedule", rows, names, _IDLE_MINUTES)
            waste = _wasted(rows, *buckets)
            yield self._candidate(kind, rows, ", ".join(names), waste, "idle", words, question, patch=patch)

    def _scaled_down(self, row: Row, options: Mapping[str, str | None], least: int = 0) -> str | None:
        """The patch that scales a workload down to `least`."""
        name, namespace, most = row["workload"], row["namespace"], row["most_pods"]
        return patches.scaled_down(name, namespace, self.config.timezone, options, most, least)

    def _over_requested(self) -> Iterator[Candidate]:
        for family, rows in _families(row for row in self.workloads if row["unused_gpu_ms"] > 0):
            unused, held = (sum(row[name] for row in rows) for name in ("unused_gpu_ms", "held_gpu_ms"))
            cost = _total(row["cost"] for row in rows) * Decimal(str(round(unused / held, 9)))
            most, used = (max(row[name] for row in rows) for name in ("asked", "most_used"))
            words = f"asks for {most:g} GPUs, never used more than {used}"
            patch = patches.smaller_request(family, rows[0]["namespace"], most, used)
            question = self._question("rightsize", rows, self._scope(rows, family))
            what, waste = "on GPUs never used", (unused, cost)
            yield self._candidate("over_requested", rows, family, waste, what, words, question, patch=patch)

    def _serving(self) -> Iterator[Candidate]:
        for row in self._of_type("inference"):
            rows, name, p95 = [row], row["workload"], row["p95"]
            spare, off = _wasted(rows, "over_provisioned"), _wasted(rows, "off_peak_idle")
            words = "not measured" if p95 is None else f"{_percent(p95)} busy in its busiest hours"
            if row["gpus_per_pod"] >= 1 and (spare[1] > 0 or (p95 is not None and p95 < _LITTLE_USED)):
                waste = spare if spare[1] > 0 else off
                questions = [self._question(command, rows, (name,)) for command in ("share", "rightsize")]
                yield self._candidate(
                    "over_provisioned", rows, name, waste, "idle or to spare", words, *questions
                )
            hours = open_hours(row["hours"], self.config.tz) if off[1] > 0 else None
            if hours:
                options = (("--office-hours", hours[0]), ("--weekdays", hours[1]))
                question = self._question("schedule", rows, (name,), options)
                words = f"needed {hours[0]}, {hours[1]}; {words}"
                patch = self._scaled_down(row, dict(options), least=1)
                yield self._candidate("off_peak", rows, name, off, "idle", words, question, patch=patch)

    def _on_demand(
        self, kind: str, command: str, families: Iterable[Family], words: str, patch: str | None = None
    ) -> Iterator[Candidate]:
        """Workloads of which a part was on demand, each namespace's together; `words` may count them."""
        spaces = grouped(
            ((rows[0]["cluster"], rows[0]["namespace"]), (family, rows))
            for family, rows in families
            if any(row["on_demand_cost"] > 0 for row in rows)
        )
        for several in spaces.values():
            subject = ", ".join(family for family, _ in several)
            scope: list[str] = []
            members: list[Row] = []
            for family, rows in several:
                scope += self._scope(rows, family)
                members += rows
            waste = (
                sum(row["on_demand_gpu_ms"] for row in members),
                _total(row["on_demand_cost"] for row in members),
            )
            evidence = words.format(f"{len(members)} workload{'s' if len(members) > 1 else ''}")
            question = self._question(command, members, tuple(scope))
            yield self._candidate(kind, members, subject, waste, "on demand", evidence, question, patch=patch)

    def _empty_nodes(self) -> Iterator[Candidate]:
        empty = [row for row in self.free if row["bucket"] == "empty_node"]
        for (cluster, is_own), rows in grouped_by(empty, "cluster", "is_own").items():
            options = (("--empty-minutes", "10"),)
            question = WhatIfQuery("schedule", cluster if self.many else None, options=options)
            patch = patches.fewer_nodes(sum(row["peak_gpus"] for row in rows))
            words = "that no pod held for long"
            if is_own:
                yield self._of_free("empty_nodes", rows, words, advice=_OWN_MACHINES)
            else:
                yield self._of_free("empty_nodes", rows, words, question, patch=patch)

    def _of_free(
        self, kind: str, rows: Sequence[Row], words: str, *questions: WhatIfQuery, **more: str | None
    ) -> Candidate:
        hours, nodes = _hours(sum(row["gpu_ms"] for row in rows)), sum(row["nodes"] for row in rows)
        cost, largest = _total(row["cost"] for row in rows), max(rows, key=lambda row: row["cost"])["largest"]
        names = (f"{row['gpu_model'] or 'GPUs'} {row['capacity_type'].replace('_', ' ')}" for row in rows)
        finding = _bound(
            kind,
            cluster=rows[0]["cluster"],
            namespace=None,
            team=None,
            subject=", ".join(names),
            evidence=f"{hours:,.1f} GPU-hours on {nodes} node{'s' if nodes > 1 else ''} {words}, most on {largest}",
            start=self.period.start,
            end=self.period.end,
            gpu_hours=hours,
            waste_gpu_hours=hours,
            utilization=None,
            cost=cost,
            saving=cost,
            measured="what Slurm told of nodes, jobs and reservations"
            if kind == "reserved"
            else "what kube-state-metrics told of nodes and pods",
            **more,
        )
        claims = frozenset[Claim](
            (row["cluster"], row["gpu_model"], row["capacity_type"], row["bucket"]) for row in rows
        )
        return Candidate(finding, claims, questions)

    def _candidate(
        self,
        kind: str,
        rows: Sequence[Row],
        subject: str,
        waste: Wasted,
        what: str,
        words: str,
        *questions: WhatIfQuery,
        bucket: str = _EVERY,
        patch: str | None = None,
    ) -> Candidate:
        held, active, idle, used = (
            sum(row[f"{name}_gpu_ms"] for row in rows) for name in ("held", "active", "idle", "utilization")
        )
        measured = active + idle
        busy = used / measured if measured else None
        start, end = min(row["from_ms"] for row in rows), max(row["to_ms"] for row in rows)
        lasting = f"{self._moment(start)} to {self._moment(end)}"
        evidence = f"{_hours(waste[0]):,.1f} of {_hours(held):,.1f} GPU-hours {what}, {lasting}"
        evidence += f", {_percent(busy)} busy" if busy is not None else ""
        metric, threshold = self.config.activity.device_metric, self.config.idle.threshold_percent
        share = _percent(measured / held) if held else "nothing"
        finding = _bound(
            kind,
            cluster=rows[0]["cluster"],
            namespace=_namespace(rows),
            team=", ".join(sorted({row["team"] for row in rows if row["team"]})) or None,
            subject=subject,
            evidence=evidence + (f"; {words}" if words else ""),
            start=from_ms(start),
            end=from_ms(end),
            gpu_hours=_hours(held),
            waste_gpu_hours=_hours(waste[0]),
            utilization=round(busy, 6) if busy is not None else None,
            cost=_total(row["cost"] for row in rows),
            saving=waste[1],
            measured=f"{metric}, idle under {threshold:g} %; {share} of the GPU-hours measured",
            patch=patch,
        )
        claims = frozenset[Claim]((row["cluster"], row["namespace"], row["workload"], bucket) for row in rows)
        return Candidate(finding, claims, questions)

    def _question(
        self, command: str, rows: Sequence[Row], workloads: tuple[str, ...], options: Options = ()
    ) -> WhatIfQuery:
        cluster = rows[0]["cluster"] if self.many else None
        return WhatIfQuery(command, cluster, _namespace(rows), workloads, options)

    def _moment(self, ms: int) -> str:
        return f"{from_ms(ms).astimezone(self.config.tz):%Y-%m-%d %H:%M}"


def _families(rows: Iterable[Row]) -> Iterator[Family]:
    """Workloads of a namespace, runs of one name together: `Job/sweep-1` and `-2` under `Job/sweep-*`."""
    families = grouped(
        ((row["cluster"], row["namespace"], _NUMBER.sub(r"\1*", row["workload"])), row) for row in rows
    )
    for (_, _, glob), members in families.items():
        yield glob if len(members) > 1 else members[0]["workload"], members


def _workloads(rows: Iterable[Row]) -> tuple[str, ...]:
    return tuple(sorted({row["workload"] for row in rows}))


def _namespace(rows: Iterable[Row]) -> str | None:
    """The namespace of all rows, if it is the same."""
    first, *others = {row["namespace"] for row in rows}
    return None if others else str(first)


def _on_shared_nodes(rows: Iterable[Row]) -> list[list[Row]]:
    """The rows of workloads, those that were on one node together; a workload without a node is by itself."""
    groups: list[tuple[set[str], list[Row]]] = []
    for row in rows:
        nodes, members = {f"{row['cluster']}/{node}" for node in row["nodes"]}, [row]
        apart = []
        for other_nodes, others in groups:
            if nodes & other_nodes:
                nodes |= other_nodes
                members = others + members
            else:
                apart.append((other_nodes, others))
        groups = [*apart, (nodes, members)]
    return [members for _, members in groups]


def _wasted(rows: Sequence[Row], *buckets: str) -> Wasted:
    """The buckets of these names, of all the workloads."""
    parts = [row["buckets"][name] for row in rows for name in buckets if name in row["buckets"]]
    return sum(gpu_ms for gpu_ms, _ in parts), _total(cost for _, cost in parts)


def _total(costs: Iterable[Decimal]) -> Decimal:
    return sum(costs, ZERO)


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _hours(gpu_ms: float) -> float:
    return round(gpu_ms / MS_PER_HOUR, 6)


# Each kind of finding: what people call it, and what to do about it. Whoever comes first claims a workload that several fit.
KINDS = {
    "idle_notebook": ("Idle notebook", "release its GPUs when it is idle, or end it"),
    "idle_workload": ("Idle workload", "ask its owner whether it is still needed"),
    "over_requested": ("GPUs asked for, never used", "ask for as many GPUs as are used"),
    "over_provisioned": ("Replicas or GPUs to spare", "fewer replicas, a shared GPU, or a smaller one"),
    "off_peak": ("Serving idle off its peak", "scale it down outside of those hours"),
    "on_demand_training": ("Training on demand", "move it to spot, with checkpoints"),
    "empty_nodes": ("Empty nodes", "let the autoscaler remove them sooner"),
    "steady_on_demand": ("Steady use on demand", "commit to the base"),
    "data_stall": ("GPUs waiting for data", "cache and prefetch its data, or add workers that load it"),
    "lost_work": ("Work lost to failures", "write checkpoints more often, and mend what fails"),
    "slow_start": ("Slow starts", "keep images on nodes, or make them smaller"),
    "between_jobs": ("Free between jobs", "pack jobs on fewer nodes, or start waiting work sooner"),
    "fragmentation": ("GPUs too few to use", "pack pods closer, or ask for sizes that fit"),
    "reserved": ("GPUs reserved for nobody", "shorten reservations, or let short jobs into them"),
    "unavailable": ("GPUs that cannot be used", "repair these nodes, or give them back"),
}


def _bound(kind: str, **figures: Any) -> Finding:
    """A finding that no command shows, and no rank yet."""
    title, advice = KINDS[kind]
    unranked: dict[str, Any] = {
        "rank": 0,
        "title": title,
        "advice": advice,
        "saving_per_month": ZERO,
        "freed_capacity_cost": ZERO,
        "freed_capacity_per_month": ZERO,
        "is_bound": True,
        "command": None,
        "patch": None,
    }
    return Finding(kind=kind, **unranked | figures)


def ranked(
    candidates: Iterable[Candidate],
    answers: Mapping[WhatIfQuery, WhatIfResult],
    *,
    months: Decimal,
    minimum: Decimal,
    period: tuple[str, ...],
) -> Findings:
    """Findings of `minimum` or more a month; `months` is how many the period stands for, `period` the words that name it.

    Candidates are taken by kind, in the order of KINDS, then by saving. One that lays claim to what an earlier one has is
    dropped; one under the minimum leaves its claims to others.
    """

    def answered(candidate: Candidate) -> Finding:
        finding = candidate.finding
        known = [answers[question] for question in candidate.questions if question in answers]
        if known:
            best = max(known, key=lambda answer: (answer.saving, answer.freed))
            # too little as it is, but worth a line once it is worked for
            worth = max(best.saving, ZERO) + best.freed
            is_bound = worth / months < minimum and best.with_work > worth
            saving, freed = (best.with_work, ZERO) if is_bound else (max(best.saving, ZERO), best.freed)
            finding = replace(
                finding,
                cost=best.cost,
                saving=saving,
                freed_capacity_cost=freed,
                is_bound=is_bound,
                command=best.question.words(period),
                patch=fill("patches/shared-gpus.yml") if best.question.command == "share" else finding.patch,
            )
        elif candidate.questions:
            finding = replace(finding, saving=ZERO)
        return replace(
            finding,
            saving_per_month=round(finding.saving / months, 9),
            freed_capacity_per_month=round(finding.freed_capacity_cost / months, 9),
        )

    order = list(KINDS).index

    taken: dict[tuple[str, ...], set[str]] = defaultdict(set)  # buckets by what stands before them in a claim
    found: list[Finding] = []
    passed_over = 0
    proposed = [(candidate.claims, answered(candidate)) for candidate in candidates]
    proposed.sort(key=lambda item: (item[1].cluster, item[1].namespace or "", item[1].subject))
    proposed.sort(key=lambda item: (order(item[1].kind), -item[1].saving, -item[1].freed_capacity_cost))
    for claims, finding in proposed:
        if any(
            taken[claim[:3]] and (claim[3] == _EVERY or taken[claim[:3]] & {claim[3], _EVERY})
            for claim in claims
        ):
            continue
        worth = finding.saving + finding.freed_capacity_cost
        if worth <= 0 or worth / months < minimum:
            passed_over += worth > 0
            continue
        for *place, bucket in claims:
            taken[tuple(place)].add(bucket)
        found.append(finding)
    found.sort(key=lambda finding: (finding.is_bound, -finding.saving, -finding.freed_capacity_cost))
    numbered = (replace(one, rank=rank) for rank, one in enumerate(found, start=1))
    return Findings(tuple(numbered), minimum, passed_over)
