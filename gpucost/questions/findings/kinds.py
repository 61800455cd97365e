"""Kinds of findings: what to do about waste, what it saves, and the command that shows the saving (docs/findings.md)."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fnmatch import fnmatchcase
from itertools import product, starmap
from typing import TYPE_CHECKING, Any, NamedTuple

from gpucost.engine import answer_rows
from gpucost.periods import MS_PER_HOUR, Period, from_ms
from gpucost.questions.findings import patches
from gpucost.questions.report.rows import ZERO
from gpucost.records import grouped, grouped_by, keyed_record, record
from gpucost.render.templates import fill
from gpucost.shapes import Shape
from gpucost.whatif.flags import total
from gpucost.whatif.fleet import Row, Workload

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config

# An hour of the day is idle if GPUs are idle for this share of it. Shorter pauses, in hours, stay on.
_IDLE = 0.8
_SHORTEST = 3
_HOURS = 24
_LITTLE_USED = 0.5
_NUMBER = re.compile(r"([-_.])\d+$")
_IDLE_MINUTES = (("--idle-minutes", "60"),)
_EMPTY_MINUTES = (("--empty-minutes", "10"),)
_OWN_MACHINES = "switch these own machines off, which saves power, or use them for other work"

# Each kind: its title, its advice, and the what-ifs that price it. If several kinds fit a workload, the first one takes it.
KINDS: dict[str, tuple[str, ...]] = {
    "idle_notebook": ("Idle notebook", "release its GPUs when it is idle, or end it", "schedule"),
    "idle_workload": ("Idle workload", "ask its owner whether it is still needed", "schedule"),
    "over_requested": ("GPUs requested, never used", "request as many GPUs as are used", "rightsize"),
    "over_provisioned": (
        "Replicas or GPUs to spare",
        "fewer replicas, a shared GPU, or a smaller one",
        "share",
        "rightsize",
    ),
    "off_peak": ("Serving idle off its peak", "scale it down outside of those hours", "schedule"),
    "on_demand_training": ("Training on demand", "move it to spot, with checkpoints", "spot"),
    "empty_nodes": ("Empty nodes", "let the autoscaler remove them sooner", "schedule"),
    "steady_on_demand": ("Steady use on demand", "commit to the base", "reserve"),
    "data_stall": ("GPUs waiting for data", "cache and prefetch its data, or add workers that load it"),
    "lost_work": ("Work lost to failures", "write checkpoints more often, and fix the failures"),
    "between_jobs": ("Free between jobs", "pack jobs on fewer nodes, or start waiting work sooner"),
}

Options = tuple[tuple[str, str], ...]
Wasted = tuple[float, Decimal]  # milliseconds of GPUs, and their cost


@record
class WhatIfQuery:
    """A what-if over the store's usage. `workloads` are globs; `options` are those of the command."""

    command: str
    cluster: str | None = None
    namespace: str | None = None
    workloads: tuple[str, ...] = ()
    options: Options = ()

    def is_about(self, owner: Workload) -> bool:
        """Whether it asks for the workload."""
        cluster, namespace, workload = owner
        return (
            self.cluster in (None, cluster)
            and self.namespace in (None, namespace)
            and any(is_fitting(workload, glob) for glob in self.workloads)
        )

    def words(self, period: tuple[str, ...]) -> str:
        """The command line, for a shell; `period` are the words that name the period."""
        scope = [("--cluster", self.cluster), ("--namespace", self.namespace)]
        scope += [("--workload", workload) for workload in self.workloads]
        words = ["gpucost", "whatif", self.command, *period]
        for name, value in (*scope, *self.options):
            words += [name, value] if value else []
        return shlex.join(words)


class WhatIfResult(NamedTuple):
    """A what-if's answer over the period: cash that leaves the bill, and the cost of GPUs freed on nodes that stay.

    `needs_work` is cash that is saved after other work.
    """

    cost: Decimal
    saving: Decimal
    needs_work: Decimal = ZERO
    freed: Decimal = ZERO


@keyed_record
class Finding(Shape):
    """`saving` is cash of the period, as `command` shows it; `saving_per_month` is the same per month.

    `freed_capacity_cost` is the cost of GPUs that would be free on nodes that stay: capacity for other work, not cash.
    `is_bound`: `saving` is an upper bound: no command shows it (then it is the cost of the waste), or it needs work first.
    `patch` is YAML to apply.
    """

    # the workloads that it is about, and the capacity types of nodes that stood empty
    HIDDEN = ("owners", "empty")

    rank: int = 0
    kind: str
    title: str
    cluster: str
    namespace: str | None
    team: str | None
    subject: str
    evidence: str
    waste_gpu_hours: float
    cost: Decimal
    saving: Decimal
    saving_per_month: Decimal = ZERO
    freed_capacity_cost: Decimal = ZERO
    freed_capacity_per_month: Decimal = ZERO
    is_bound: bool = True
    command: str | None
    advice: str
    measured: str
    patch: str | None
    owners: frozenset[Workload] = frozenset()
    empty: frozenset[str] = frozenset()

    def is_about(self, globs: Iterable[str]) -> bool:
        """Whether one of the globs fits one of its workloads."""
        names = [workload for _, _, workload in self.owners]
        return any(starmap(is_fitting, product(names, globs)))


class Candidate(NamedTuple):
    """Waste that may become a finding, with the cost of the waste. The what-if of `questions` that saves most decides."""

    finding: Finding
    questions: tuple[WhatIfQuery, ...] = ()


@record
class Freed:
    """What findings with cash would free: workloads, and nodes of some capacity types that stood empty."""

    owners: frozenset[Workload] = frozenset()
    empty: frozenset[str] = frozenset()


@record
class Findings:
    """Savings that a command shows, the largest first, then upper bounds. `passed_over` counts those under the minimum."""

    findings: tuple[Finding, ...]
    minimum_per_month: Decimal
    passed_over: int

    @property
    def savings(self) -> tuple[Finding, ...]:
        """Findings with a saving that their command shows."""
        return tuple(found for found in self.findings if not found.is_bound)

    @property
    def upper_bounds(self) -> tuple[Finding, ...]:
        """Findings with an upper bound of the saving."""
        return tuple(found for found in self.findings if found.is_bound)

    @property
    def saving_per_month(self) -> Decimal:
        """The sum of savings, without upper bounds."""
        return total(found.saving_per_month for found in self.savings)

    @property
    def freed_capacity_per_month(self) -> Decimal:
        """The cost of GPUs that the savings free on nodes that stay."""
        return total(found.freed_capacity_per_month for found in self.savings)

    @property
    def at_most_per_month(self) -> Decimal:
        """The sum of upper bounds."""
        return total(found.saving_per_month for found in self.upper_bounds)

    @property
    def freed(self) -> Freed:
        """What savings free, but for commitments."""
        cash = [found for found in self.savings if found.saving and found.kind != "steady_on_demand"]
        owners, empty = (found.owners for found in cash), (found.empty for found in cash)
        return Freed(frozenset().union(*owners), frozenset().union(*empty))


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


def is_fitting(workload: str, glob: str) -> bool:
    """Whether the glob fits the workload, with or without its kind, or is its name."""
    names = workload, workload.partition("/")[2]
    return glob in names or any(fnmatchcase(name, glob) for name in names)


def open_hours(rows: Iterable[Mapping[str, Any]], tz: ZoneInfo) -> tuple[str, str] | None:
    """(hours, weekdays) that it is needed, as `whatif schedule` takes them; None where it is never idle for long, or always.

    `rows` tell active_gpu_ms and idle_gpu_ms of epoch hours.
    """
    # by whether it is a weekend, and the hour of the day
    idle, measured = (defaultdict[tuple[bool, int], float](float) for _ in range(2))
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


class Candidates:
    """All waste that may become a finding, from the tables waste_rows and activity_use and the attributed ones.

    `workloads` and `free` (GPUs that no pod held) are rows with the columns of the SQL.
    """

    def __init__(self, con: DuckDBPyConnection, config: Config, period: Period) -> None:
        self.workloads = answer_rows(con, "gpucost.questions.findings", "workloads", period.bounds)
        self.free = answer_rows(con, "gpucost.questions.findings", "free_gpus", period.bounds)
        self.config = config
        self.has_clusters = len({row["cluster"] for row in (*self.workloads, *self.free)}) > 1
        self.places = grouped_by(self.workloads, "cluster", "namespace")

    def all(self) -> Iterator[Candidate]:
        """All candidates, kind by kind."""
        yield from self._idle("idle_notebook", "development", "user_away", "forgotten")
        yield from self._idle("idle_workload", "other", "idle")
        yield from self._over_requested()
        for row in self._of_types("inference"):
            yield from self._spare(row)
            yield from self._off_peak(row)
        training = self._of_types("training", "batch")
        yield from self._on_demand("on_demand_training", training, fill("patches/on-spot.yml"))
        yield from self._on_demand("steady_on_demand", self._of_types("inference"), None)
        yield from self._advice("data_stall", "data_stall", "idle while it ran")
        yield from self._advice("lost_work", "failed_restarted", "lost by pods that failed")
        yield from self._free_gpus()

    def _of_types(self, *types: str) -> list[Row]:
        return [row for row in self.workloads if row["workload_type"] in types]

    def _idle(self, kind: str, workload_type: str, *buckets: str) -> Iterator[Candidate]:
        """Workloads of one node are one finding: the node goes away only if all of them release it."""
        wasteful = [row for row in self._of_types(workload_type) if _wasted([row], *buckets)[1] > 0]
        for rows in _on_shared_nodes(wasteful):
            names = _names(rows)
            active = max(row["active_to_ms"] or 0 for row in rows)
            words = f"idle; last active {self._moment(active)}" if active else "idle; never active"
            waste = _wasted(rows, *buckets)
            yield self._candidate(kind, rows, names, waste, words, options=_IDLE_MINUTES)

    def _over_requested(self) -> Iterator[Candidate]:
        for family, rows in _families(row for row in self.workloads if row["unused_gpu_ms"] > 0):
            unused, held = (sum(row[name] for row in rows) for name in ("unused_gpu_ms", "held_gpu_ms"))
            cost = total(row["cost"] for row in rows) * Decimal(str(round(unused / held, 9)))
            most, used = (max(row[name] for row in rows) for name in ("asked", "most_used"))
            words = f"on GPUs never used; requests {most:g} GPUs, never used more than {used}"
            patch = patches.smaller_request(family, rows[0]["namespace"], most, used)
            scope = self._scope(family, rows)
            yield self._candidate(
                "over_requested", rows, (family,), (unused, cost), words, scope=scope, patch=patch
            )

    def _spare(self, row: Row) -> Iterator[Candidate]:
        """A service with GPUs to spare."""
        waste, busy = _wasted([row], "over_provisioned"), row["p95"]
        is_little_used = busy is not None and busy < _LITTLE_USED
        if row["gpus_per_pod"] >= 1 and (waste[1] > 0 or is_little_used):
            waste = waste if waste[1] > 0 else _wasted([row], "off_peak_idle")
            words = f"idle or to spare; {_busiest(row)}"
            yield self._candidate("over_provisioned", [row], (row["workload"],), waste, words)

    def _off_peak(self, row: Row) -> Iterator[Candidate]:
        """A service that is idle in some hours of the day."""
        waste, name = _wasted([row], "off_peak_idle"), row["workload"]
        hours = open_hours(row["hours"], self.config.tz) if waste[1] > 0 else None
        if hours:
            options = (("--office-hours", hours[0]), ("--weekdays", hours[1]))
            words = f"idle; needed {hours[0]}, {hours[1]}; {_busiest(row)}"
            timezone, most = self.config.timezone, row["most_pods"]
            patch = patches.scaled_down(name, row["namespace"], timezone, *hours, replicas=most)
            yield self._candidate("off_peak", [row], (name,), waste, words, options=options, patch=patch)

    def _on_demand(self, kind: str, rows: Sequence[Row], patch: str | None) -> Iterator[Candidate]:
        """Workloads of which a part was on demand, each namespace's together."""
        for place in grouped_by(rows, "cluster", "namespace").values():
            families, members, scope = list[str](), list[Row](), tuple[str, ...]()
            for family, runs in _families(place):
                if any(row["on_demand_cost"] > 0 for row in runs):
                    families.append(family)
                    members += runs
                    scope += self._scope(family, runs)
            if members:
                gpu_ms = sum(row["on_demand_gpu_ms"] for row in members)
                waste = (gpu_ms, total(row["on_demand_cost"] for row in members))
                yield self._candidate(kind, members, families, waste, "on demand", scope=scope, patch=patch)

    def _advice(self, kind: str, bucket: str, words: str) -> Iterator[Candidate]:
        """Waste without a what-if: its cost is an upper bound."""
        for family, rows in _families(row for row in self.workloads if bucket in row["buckets"]):
            yield self._candidate(kind, rows, (family,), _wasted(rows, bucket), words)

    def _free_gpus(self) -> Iterator[Candidate]:
        """GPUs that no pod held: nodes that stood empty, by cluster, and GPUs that were free on nodes in use."""
        empty = [row for row in self.free if row["bucket"] == "empty_node"]
        for (cluster, is_own), rows in grouped_by(empty, "cluster", "is_own").items():
            finding = _of_free("empty_nodes", rows, "that no pod held for long")
            if is_own:
                yield Candidate(replace(finding, advice=_OWN_MACHINES))
                continue
            patch = patches.fewer_nodes(sum(row["peak_gpus"] for row in rows))
            question = WhatIfQuery("schedule", cluster if self.has_clusters else None, options=_EMPTY_MINUTES)
            yield Candidate(replace(finding, patch=patch), (question,))
        for row in self.free:
            if row["bucket"] == "between_jobs":
                yield Candidate(_of_free("between_jobs", [row], "that were free on nodes in use"))

    def _candidate(
        self,
        kind: str,
        rows: Sequence[Row],
        names: Sequence[str],
        waste: Wasted,
        words: str,
        *,
        scope: tuple[str, ...] = (),
        options: Options = (),
        patch: str | None = None,
    ) -> Candidate:
        """A candidate about workloads called `names`, in commands `scope`; `words` continue "1.0 of 2.0 GPU-hours"."""
        held = sum(row["held_gpu_ms"] for row in rows)
        measured = sum(row["active_gpu_ms"] for row in rows) + sum(row["idle_gpu_ms"] for row in rows)
        start, end = min(row["from_ms"] for row in rows), max(row["to_ms"] for row in rows)
        evidence = f"{_hours(waste[0]):,.1f} of {_hours(held):,.1f} GPU-hours {words}"
        evidence += f"; held {self._moment(start)} to {self._moment(end)}"
        metric, threshold = self.config.activity.device_metric, self.config.idle.threshold_percent
        share = _percent(measured / held) if held else "nothing"
        finding = _finding(
            kind,
            cluster=rows[0]["cluster"],
            namespace=_namespace(rows),
            team=", ".join(sorted({row["team"] for row in rows if row["team"]})) or None,
            subject=", ".join(names),
            evidence=evidence,
            waste_gpu_hours=_hours(waste[0]),
            cost=total(row["cost"] for row in rows),
            saving=waste[1],
            measured=f"{metric}, idle under {threshold:g} %; {share} of the GPU-hours measured",
            patch=patch,
            owners=frozenset((row["cluster"], row["namespace"], row["workload"]) for row in rows),
        )
        cluster = finding.cluster if self.has_clusters else None
        where = cluster, finding.namespace, scope or tuple(names), options
        return Candidate(finding, tuple(WhatIfQuery(command, *where) for command in KINDS[kind][2:]))

    def _scope(self, family: str, rows: Sequence[Row]) -> tuple[str, ...]:
        """The family's glob; if it fits other workloads of the namespace, too: the names of all rows."""
        others = self.places[rows[0]["cluster"], rows[0]["namespace"]]
        fitting = [row for row in others if is_fitting(row["workload"], family)]
        return (family,) if len(fitting) == len(rows) else _names(rows)

    def _moment(self, ms: int) -> str:
        return f"{from_ms(ms).astimezone(self.config.tz):%Y-%m-%d %H:%M}"


def _families(rows: Iterable[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Workloads of a namespace, runs of one name together: `Job/sweep-1` and `-2` under `Job/sweep-*`."""
    families = grouped(
        ((row["cluster"], row["namespace"], _NUMBER.sub(r"\1*", row["workload"])), row) for row in rows
    )
    for (_, _, glob), members in families.items():
        yield glob if len(members) > 1 else members[0]["workload"], members


def _names(rows: Iterable[Row]) -> tuple[str, ...]:
    return tuple(sorted({row["workload"] for row in rows}))


def _namespace(rows: Iterable[Row]) -> str | None:
    """The namespace of all rows, if it is the same."""
    first, *others = {row["namespace"] for row in rows}
    return None if others else str(first)


def _on_shared_nodes(rows: Iterable[Row]) -> list[list[Row]]:
    """The rows of workloads, grouped by nodes that they share."""
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


def _of_free(kind: str, rows: Sequence[Row], words: str) -> Finding:
    """The finding about free GPUs."""
    hours, nodes = _hours(sum(row["gpu_ms"] for row in rows)), sum(row["nodes"] for row in rows)
    largest = max(rows, key=lambda row: row["cost"])["largest"]
    names = (f"{row['gpu_model'] or 'GPUs'} {row['capacity_type'].replace('_', ' ')}" for row in rows)
    evidence = f"{hours:,.1f} GPU-hours on {nodes} node{'s' if nodes > 1 else ''} {words}, most on {largest}"
    cost = total(row["cost"] for row in rows)
    return _finding(
        kind,
        cluster=rows[0]["cluster"],
        namespace=None,
        team=None,
        subject=", ".join(names),
        evidence=evidence,
        waste_gpu_hours=hours,
        cost=cost,
        saving=cost,
        measured="metrics of nodes and pods",
        patch=None,
        empty=frozenset(row["capacity_type"] for row in rows),
    )


def _finding(kind: str, **figures: Any) -> Finding:
    title, advice, *_ = KINDS[kind]
    return Finding(kind=kind, title=title, advice=advice, command=None, **figures)


def _wasted(rows: Sequence[Row], *buckets: str) -> Wasted:
    """The sum of these buckets over the workloads."""
    gpu_ms, cost = 0.0, ZERO
    for row, bucket in product(rows, buckets):
        more_ms, more = row["buckets"].get(bucket, (0.0, ZERO))
        gpu_ms, cost = gpu_ms + more_ms, cost + more
    return gpu_ms, cost


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _busiest(row: Row) -> str:
    return "not measured" if row["p95"] is None else f"{_percent(row['p95'])} busy in its busiest hours"


def _hours(gpu_ms: float) -> float:
    return round(gpu_ms / MS_PER_HOUR, 6)


def ranked(
    candidates: Iterable[Candidate],
    answers: Mapping[WhatIfQuery, WhatIfResult],
    *,
    months: Decimal,
    minimum: Decimal,
    period: tuple[str, ...],
) -> Findings:
    """Findings of `minimum` or more per month; the period is `months` long, and `period` are the words that name it.

    Findings are taken by kind, in the order of KINDS, then by saving. Each takes its workloads, so that no saving counts twice;
    one under the minimum leaves them to others.
    """
    order = list(KINDS).index

    def place(one: Finding) -> tuple[Any, ...]:
        names = one.cluster, one.namespace or "", one.subject
        return order(one.kind), -one.saving, -one.freed_capacity_cost, *names

    taken: set[Workload] = set()
    found: list[Finding] = []
    passed_over = 0
    proposed = [_answered(one, answers, months, minimum, period) for one in candidates]
    for finding in sorted(proposed, key=place):
        worth = finding.saving + finding.freed_capacity_cost
        if worth <= 0 or finding.owners & taken:
            continue
        if worth / months < minimum:
            passed_over += 1
            continue
        # advice is about a part of the workload's time
        if finding.command:
            taken |= finding.owners
        found.append(finding)
    found.sort(key=lambda finding: (finding.is_bound, -finding.saving, -finding.freed_capacity_cost))
    numbered = (replace(one, rank=rank) for rank, one in enumerate(found, start=1))
    return Findings(tuple(numbered), minimum, passed_over)


def _answered(
    candidate: Candidate,
    answers: Mapping[WhatIfQuery, WhatIfResult],
    months: Decimal,
    minimum: Decimal,
    period: tuple[str, ...],
) -> Finding:
    """The candidate's finding with the figures of the what-if that saves most, if one answered."""
    finding, questions = candidate
    answered = [question for question in questions if question in answers]
    if answered:
        best = max(answered, key=lambda question: (answers[question].saving, answers[question].freed))
        cost, saving, needs_work, freed = answers[best]
        saving = max(saving, ZERO)
        is_bound = (saving + freed) / months < minimum and needs_work > saving + freed
        finding = replace(
            finding,
            cost=cost,
            saving=needs_work if is_bound else saving,
            freed_capacity_cost=ZERO if is_bound else freed,
            is_bound=is_bound,
            command=best.words(period),
            patch=fill("patches/shared-gpus.yml") if best.command == "share" else finding.patch,
        )
    elif questions:
        finding = replace(finding, saving=ZERO)
    return replace(
        finding,
        saving_per_month=round(finding.saving / months, 9),
        freed_capacity_per_month=round(finding.freed_capacity_cost / months, 9),
    )
