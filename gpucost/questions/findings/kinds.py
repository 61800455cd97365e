"""What to do about waste, ranked by money a month: who, why, what it saves, and the command that shows it (docs/findings.md)."""

from __future__ import annotations

import re
import shlex
from bisect import bisect_left
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
from gpucost.records import grouped, keyed_record, record
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
    idle: dict[tuple[bool, int], float] = defaultdict(
        float
    )  # by whether it is a weekend, and the hour of the day
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
    # runs of hours that are not needed, midnight no border
    pauses = [next(n for n in range(_HOURS) if needed[(begin + n) % _HOURS]) for begin in range(_HOURS)]
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
        words += ["--cluster", self.cluster] if self.cluster else []
        words += ["--namespace", self.namespace] if self.namespace else []
        for workload in self.workloads:
            words += ["--workload", workload]
        for name, value in self.options:
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
        one = now.get(key) or then[key]
        status: Literal["gone", "still", "new"] = (
            "new" if key not in then else "still" if key in now else "gone"
        )
        worth = tuple(of[key].saving_per_month if key in of else None for of in (then, now))
        rows.append(
            FindingChange(status, one.kind, one.title, one.cluster, one.namespace, one.subject, *worth)
        )
    order = ("gone", "new", "still")
    rows.sort(
        key=lambda row: (order.index(row.status), -max(row.before_per_month or 0, row.after_per_month or 0))
    )
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


class Names:
    """Names in order: a glob asks only those that begin as it does, so that many globs of as many names stay fast."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = sorted(set(names))

    def fitting(self, glob: str) -> list[str]:
        """The names that the glob fits, in order."""
        known, start = self._names, _WILD.split(glob, 1)[0]
        meant = known[bisect_left(known, start) : bisect_left(known, start + _LAST)]
        return [name for name in meant if name == glob or (start != glob and fnmatchcase(name, glob))]


_WILD = re.compile(r"[*?\[]")
_LAST = "\U0010ffff"

_NUMBER = re.compile(r"([-_.])\d+$")
_IDLE_MINUTES = (("--idle-minutes", "60"),)
_LITTLE_USED = 0.5

Options = tuple[tuple[str, str | None], ...]
Wasted = tuple[float, Decimal]  # milliseconds of GPUs, and what they cost


def candidates(con: DuckDBPyConnection, config: Config, period: Period) -> list[Candidate]:
    """Everything that may be worth a finding, of the tables waste_rows and activity_use and the attributed ones."""
    workloads = answer_rows(con, "gpucost.questions.findings", "workloads", period.bounds)
    free = answer_rows(con, "gpucost.questions.findings", "free_gpus", period.bounds)
    return list(_Candidates(workloads, free, period, config).all())


class _Candidates:
    """Of workloads, and of GPUs that nobody held: rows as the SQL names them."""

    def __init__(self, workloads: Sequence[Row], free: Sequence[Row], period: Period, config: Config) -> None:
        self.workloads, self.free, self.period, self.tz = workloads, free, period, config.tz
        self.timezone = config.timezone
        self.how = f"{config.activity.device_metric}, idle under {config.idle.threshold_percent:g} %"
        self.many = len({row["cluster"] for row in (*workloads, *free)}) > 1
        places = _grouped(workloads, "cluster", "namespace")
        self.names = {place: Names(row["workload"] for row in rows) for place, rows in places.items()}

    def all(self) -> Iterator[Candidate]:
        """All waste that may become a finding, kind by kind."""
        yield from self._idle("development", "idle_notebook", "user_away", "forgotten")
        yield from self._idle("other", "idle_workload", "idle")
        yield from self._over_requested()
        yield from self._serving()
        yield from self._training_on_demand()
        yield from self._empty_nodes()
        yield from self._steady()
        yield from self._advised("data_stall", "data_stall", "idle while it ran", "")
        yield from self._advised(
            "lost_work", "failed_restarted", "lost by pods that failed", "since their last epoch known"
        )
        yield from self._advised(
            "slow_start", "starting", "held before it ran", "images are pulled meanwhile"
        )
        yield from self._free("between_jobs", "that were free on nodes in use")
        yield from self._free("fragmentation", "that were free, but fewer than the smallest request")
        yield from self._free("reserved", "that reservations of Slurm kept free")
        yield from self._advised("reserved", "reserved", "kept free by a reservation", "")
        yield from self._free("unavailable", "that were not ready, cordoned or broken")

    def _of_type(self, workload_type: str) -> list[Row]:
        return [row for row in self.workloads if row["workload_type"] == workload_type]

    def _families(self, *types: str) -> dict[tuple[str, str, str], list[Row]]:
        """Workloads of these types (none: of all), runs of one name together: `Job/sweep-1` and `-2` under `Job/sweep-*`."""
        families = grouped(
            ((row["cluster"], row["namespace"], _NUMBER.sub(r"\1*", row["workload"])), row)
            for row in self.workloads
            if not types or row["workload_type"] in types
        )
        return {(*key[:2], _subject(key[2], rows)): rows for key, rows in families.items()}

    def _scope(self, rows: Sequence[Row], family: str) -> tuple[str, ...]:
        """The words that name these workloads of a namespace and no others: the family's glob, else each by itself."""
        place, names = (rows[0]["cluster"], rows[0]["namespace"]), sorted(row["workload"] for row in rows)
        return (family,) if self.names[place].fitting(family) == names else tuple(names)

    def _idle(self, workload_type: str, kind: str, *buckets: str) -> Iterator[Candidate]:
        """Those on one node are one finding: it goes only if all of them release it."""
        wasteful = [row for row in self._of_type(workload_type) if _wasted([row], *buckets)[1] > 0]
        for rows in _on_shared_nodes(wasteful):
            active = max((row["active_to_ms"] for row in rows if row["active_to_ms"]), default=None)
            words = f"last active {self._moment(active)}" if active else "never active"
            names = tuple(sorted({row["workload"] for row in rows}))
            question = self._question("schedule", rows[0], names, _IDLE_MINUTES)
            if len({row["namespace"] for row in rows}) > 1:
                question = replace(question, namespace=None)
            patch = patches.joined(
                patches.scaled_down(row["workload"], row["namespace"], self.timezone, {}, row["most_pods"])
                for row in rows
            )
            waste = _wasted(rows, *buckets)
            yield self._candidate(kind, rows, ", ".join(names), waste, "idle", words, question, patch=patch)

    def _over_requested(self) -> Iterator[Candidate]:
        for (_, _, family), members in self._families().items():
            rows = [row for row in members if row["unused_gpu_ms"] > 0]
            if not rows:
                continue
            unused = sum(row["unused_gpu_ms"] for row in rows)
            share = unused / sum(row["held_gpu_ms"] for row in rows)
            cost = _total(row["cost"] for row in rows) * Decimal(str(round(share, 9)))
            most, used = max(row["asked"] for row in rows), max(row["most_used"] for row in rows)
            words = f"asks for {most:g} GPUs, never used more than {used}"
            patch = patches.smaller_request(_subject(family, rows), rows[0]["namespace"], most, used)
            question = self._question("rightsize", rows[0], self._scope(rows, family))
            yield self._candidate(
                "over_requested",
                rows,
                family,
                (unused, cost),
                "on GPUs never used",
                words,
                question,
                patch=patch,
            )

    def _serving(self) -> Iterator[Candidate]:
        for row in self._of_type("inference"):
            name, p95 = row["workload"], row["p95"]
            spare, off = _wasted([row], "over_provisioned"), _wasted([row], "off_peak_idle")
            busiest = "not measured" if p95 is None else f"{_percent(p95)} busy in its busiest hours"
            if row["gpus_per_pod"] >= 1 and (spare[1] > 0 or (p95 is not None and p95 < _LITTLE_USED)):
                waste = spare if spare[1] > 0 else off
                questions = [self._question(command, row, (name,)) for command in ("share", "rightsize")]
                yield self._candidate(
                    "over_provisioned", [row], name, waste, "idle or to spare", busiest, *questions
                )
            hours = open_hours(row["hours"], self.tz) if off[1] > 0 else None
            if hours:
                question = self._question(
                    "schedule", row, (name,), (("--office-hours", hours[0]), ("--weekdays", hours[1]))
                )
                words = f"needed {hours[0]}, {hours[1]}; {busiest}"
                patch = patches.scaled_down(
                    name, row["namespace"], self.timezone, dict(question.options), row["most_pods"], least=1
                )
                yield self._candidate("off_peak", [row], name, off, "idle", words, question, patch=patch)

    def _training_on_demand(self) -> Iterator[Candidate]:
        spaces = grouped(
            ((cluster, namespace), (family, rows))
            for (cluster, namespace, family), rows in self._families("training", "batch").items()
            if any(row["on_demand_cost"] > 0 for row in rows)
        )
        for families in spaces.values():
            rows = [row for _, members in families for row in members]
            scope = tuple(word for family, members in families for word in self._scope(members, family))
            words = (
                f"{len(rows)} workload{'s' if len(rows) > 1 else ''} that could go on after an interruption"
            )
            yield self._on_demand(
                "on_demand_training",
                rows,
                ", ".join(family for family, _ in families),
                words,
                self._question("spot", rows[0], scope),
            )

    def _empty_nodes(self) -> Iterator[Candidate]:
        empty = [row for row in self.free if row["bucket"] == "empty_node"]
        for (cluster, is_own), rows in _grouped(empty, "cluster", "is_own").items():
            # no workload is called `none`: only nodes are looked at
            options = (("--empty-minutes", "10"), ("--notebook", "none"))
            question = WhatIfQuery("schedule", cluster if self.many else None, options=options)
            questions = () if is_own else (question,)
            yield self._of_free("empty_nodes", rows, "that no pod held for long", *questions)

    def _steady(self) -> Iterator[Candidate]:
        """What serves on demand all the time, each namespace's together."""
        on_demand = [row for row in self._of_type("inference") if row["on_demand_cost"] > 0]
        for rows in _grouped(on_demand, "cluster", "namespace").values():
            names = tuple(sorted(row["workload"] for row in rows))
            question = self._question("reserve", rows[0], names)
            yield self._on_demand(
                "steady_on_demand", rows, ", ".join(names), "serves around the clock", question
            )

    def _on_demand(
        self, kind: str, rows: Sequence[Row], subject: str, words: str, question: WhatIfQuery
    ) -> Candidate:
        waste = sum(row["on_demand_gpu_ms"] for row in rows), _total(row["on_demand_cost"] for row in rows)
        patch = fill("patches/on-spot.yml") if kind == "on_demand_training" else None
        return self._candidate(kind, rows, subject, waste, "on demand", words, question, patch=patch)

    def _advised(self, kind: str, bucket: str, what: str, words: str) -> Iterator[Candidate]:
        for (_, _, family), members in self._families().items():
            rows = [row for row in members if bucket in row["buckets"]]
            waste = _wasted(rows, bucket)
            if waste[1] > 0:
                yield self._candidate(kind, rows, family, waste, what, words, bucket=bucket)

    def _free(self, bucket: str, words: str) -> Iterator[Candidate]:
        for row in self.free:
            if row["bucket"] == bucket and row["cost"] > 0:
                yield self._of_free(bucket, [row], words)

    def _of_free(self, kind: str, rows: Sequence[Row], words: str, *questions: WhatIfQuery) -> Candidate:
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
            patch=patches.fewer_nodes(sum(row["peak_gpus"] for row in rows)) if questions else None,
        )
        if all(row["is_own"] for row in rows) and kind == "empty_nodes":
            finding = replace(
                finding, advice="switch these own machines off, which saves power, or use them for other work"
            )
        claims = frozenset(
            (row["cluster"], row["gpu_model"], row["capacity_type"], row["bucket"]) for row in rows
        )
        return Candidate(finding, claims, questions)

    def _candidate(
        self,
        kind: str,
        rows: Sequence[Row],
        family: str,
        waste: Wasted,
        what: str,
        words: str,
        *questions: WhatIfQuery,
        bucket: str = "*",
        patch: str | None = None,
    ) -> Candidate:
        held, active, idle = (
            sum(row[f"{name}_gpu_ms"] for row in rows) for name in ("held", "active", "idle")
        )
        busy = sum(row["utilization_gpu_ms"] for row in rows) / (active + idle) if active + idle else None
        start, end = min(row["from_ms"] for row in rows), max(row["to_ms"] for row in rows)
        evidence = (
            f"{_hours(waste[0]):,.1f} of {_hours(held):,.1f} GPU-hours {what}, {self._moment(start)} to {self._moment(end)}"
            + (f", {_percent(busy)} busy" if busy is not None else "")
            + (f"; {words}" if words else "")
        )
        finding = _bound(
            kind,
            cluster=rows[0]["cluster"],
            namespace=rows[0]["namespace"] if len({row["namespace"] for row in rows}) == 1 else None,
            team=", ".join(sorted({row["team"] for row in rows if row["team"]})) or None,
            subject=_subject(family, rows),
            evidence=evidence,
            start=from_ms(start),
            end=from_ms(end),
            gpu_hours=_hours(held),
            waste_gpu_hours=_hours(waste[0]),
            utilization=round(busy, 6) if busy is not None else None,
            cost=_total(row["cost"] for row in rows),
            saving=waste[1],
            measured=f"{self.how}; {_percent((active + idle) / held) if held else 'nothing'} of the GPU-hours measured",
            patch=patch,
        )
        claims = frozenset[Claim]((row["cluster"], row["namespace"], row["workload"], bucket) for row in rows)
        return Candidate(finding, claims, questions)

    def _question(
        self, command: str, row: Row, workloads: tuple[str, ...], options: Options = ()
    ) -> WhatIfQuery:
        return WhatIfQuery(
            command, row["cluster"] if self.many else None, row["namespace"], workloads, options
        )

    def _moment(self, ms: int) -> str:
        return f"{from_ms(ms).astimezone(self.tz):%Y-%m-%d %H:%M}"


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


def _subject(family: str, rows: Sequence[Row]) -> str:
    return family if len(rows) > 1 else str(rows[0]["workload"])


def _grouped(rows: Iterable[Row], *keys: str) -> dict[tuple[str, ...], list[Row]]:
    return grouped((tuple(row[key] for key in keys), row) for row in rows)


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
_ORDER = list(KINDS)
_EVERY = "*"


def _bound(kind: str, **figures: Any) -> Finding:
    """A finding that no command shows, and no rank yet."""
    title, advice = KINDS[kind]
    return Finding(
        rank=0,
        kind=kind,
        title=title,
        advice=advice,
        saving_per_month=ZERO,
        freed_capacity_cost=ZERO,
        freed_capacity_per_month=ZERO,
        is_bound=True,
        command=None,
        **figures,
    )


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
    proposed: list[tuple[Candidate, Finding]] = []
    for candidate in candidates:
        finding = candidate.finding
        answered = [answers[question] for question in candidate.questions if question in answers]
        if answered:
            best = max(answered, key=lambda answer: (answer.saving, answer.freed))
            command = best.question.words(period)
            # too little as it is, but worth a line once it is worked for
            worth = max(best.saving, ZERO) + best.freed
            is_bound = worth / months < minimum and best.with_work > worth
            saving = best.with_work if is_bound else best.saving
            patch = fill("patches/shared-gpus.yml") if best.question.command == "share" else finding.patch
            finding = replace(
                finding, cost=best.cost, saving=saving, is_bound=is_bound, command=command, patch=patch
            )
            if not is_bound:
                finding = replace(finding, saving=max(saving, ZERO), freed_capacity_cost=best.freed)
        elif candidate.questions:
            finding = replace(finding, saving=ZERO)
        finding = replace(
            finding,
            saving_per_month=round(finding.saving / months, 9),
            freed_capacity_per_month=round(finding.freed_capacity_cost / months, 9),
        )
        proposed.append((candidate, finding))
    proposed.sort(key=lambda item: (item[1].cluster, item[1].namespace or "", item[1].subject))
    proposed.sort(
        key=lambda item: (_ORDER.index(item[1].kind), -item[1].saving, -item[1].freed_capacity_cost)
    )
    taken: set[Claim] = set()
    touched: set[tuple[str, ...]] = set()  # of which any bucket is taken
    kept: list[Finding] = []
    passed_over = 0
    for candidate, finding in proposed:
        if any(
            claim in taken or (*claim[:3], _EVERY) in taken or (claim[3] == _EVERY and claim[:3] in touched)
            for claim in candidate.claims
        ):
            continue
        worth = finding.saving + finding.freed_capacity_cost
        if worth <= 0 or worth / months < minimum:
            passed_over += worth > 0
            continue
        taken |= candidate.claims
        touched |= {claim[:3] for claim in candidate.claims}
        kept.append(finding)
    kept.sort(key=lambda finding: (finding.is_bound, -finding.saving, -finding.freed_capacity_cost))
    return Findings(
        tuple(replace(one, rank=rank) for rank, one in enumerate(kept, start=1)), minimum, passed_over
    )
