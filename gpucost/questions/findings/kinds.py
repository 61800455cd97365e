"""Kinds of findings: advice about waste, its saving, and the command that shows the saving (docs/findings.md)."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from decimal import Decimal
from itertools import chain, product
from typing import TYPE_CHECKING, Any, NamedTuple

from gpucost.engine import answer_rows
from gpucost.periods import MS_PER_HOUR, Period, from_ms
from gpucost.questions.findings import patches
from gpucost.questions.report.rows import ZERO
from gpucost.records import frozen_dataclass, grouped, grouped_by, keyed_dataclass
from gpucost.render.templates import fill
from gpucost.shapes import Shape
from gpucost.texts import family_of
from gpucost.whatif.flags import total
from gpucost.whatif.fleet import NodeKey, Row, Scope, Workload, is_fitting

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.options import Names, WorkloadSelection
    from gpucost.questions.report.query import Query

# An hour of the day is idle if GPUs are idle for this share of it. Pauses under _SHORTEST hours stay on.
_IDLE = 0.8
_SHORTEST = 3
_HOURS = 24
_LITTLE_USED = 0.5
# The options of a Scope, in the order of its fields.
_SCOPE = ("--team", "--namespace", "--workload", "--cluster")
_IDLE_MINUTES = (("--idle-minutes", "60"),)
_EMPTY_MINUTES = (("--empty-minutes", "10"),)
_OWN_MACHINES = "switch these machines of your own off to save power, or use them for other work"

# Each kind: its title, its advice, and the what-ifs that price it. If several kinds fit a workload, the first one takes it.
KINDS: dict[str, tuple[str, ...]] = {
    "idle_notebook": ("Idle notebook", "release its GPUs when it is idle, or delete it", "schedule"),
    "idle_workload": ("Idle workload", "ask its owner whether it is still needed", "schedule"),
    "over_requested": ("GPUs requested, never used", "request as many GPUs as are used", "rightsize"),
    "over_provisioned": (
        "Replicas or GPUs to spare",
        "use fewer replicas, a shared GPU, or a smaller one",
        "share",
        "rightsize",
    ),
    "off_peak": ("Serving, idle off-peak", "scale it down outside these hours", "schedule"),
    "on_demand_training": ("On-demand training", "move it to spot, with checkpoints", "spot"),
    "empty_nodes": ("Empty nodes", "let the autoscaler remove them sooner", "schedule"),
    "steady_on_demand": ("Steady on-demand use", "buy a commitment for the base load", "reserve"),
    "data_stall": ("GPUs waiting for data", "cache and prefetch its data, or add workers that load it"),
    "lost_work": ("Work lost to failures", "write checkpoints more often, and fix the failures"),
    "between_jobs": ("Free between jobs", "pack jobs onto fewer nodes, or start waiting work sooner"),
}


@frozen_dataclass
class WhatIfQuery:
    """A what-if over the store's usage; `options` are its flags after the scope, with their values."""

    command: str
    scope: Scope = Scope()
    options: tuple[tuple[str, str], ...] = ()

    def words(self, period: tuple[str, ...]) -> str:
        """The command line, for a shell; `period` are the words that name the period."""
        words = ["gpucost", "whatif", self.command, *period]
        for flag, names in zip(_SCOPE, astuple(self.scope), strict=True):
            for name in names:
                words += flag, name
        return shlex.join((*words, *chain.from_iterable(self.options)))


class WhatIfResult(NamedTuple):
    """The answer of a what-if in money: cash that leaves the bill, and the cost of GPUs freed on nodes that stay.

    `needs_work` is cash saved after other work; `cost` is today's.
    """

    saving: Decimal
    freed: Decimal
    needs_work: Decimal
    cost: Decimal


@keyed_dataclass
class Finding(Shape):
    """`saving` is cash of the period, as `command` shows it; `saving_per_month` is the same per month.

    `freed_capacity_cost` is the cost of GPUs that would be free on nodes that stay: capacity for other work, not cash.
    `is_bound`: `saving` is an upper bound: no command shows it (then it is the cost of the waste), or it needs work first.
    `patch` is YAML to apply. The what-if of `questions` with the largest saving gives the figures.
    """

    # the workloads that it is about, the capacity types of empty nodes, and its what-ifs
    HIDDEN = ("owners", "empty", "questions")

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
    saving: Decimal = ZERO
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
    questions: tuple[WhatIfQuery, ...] = ()


@frozen_dataclass
class Freed:
    """The capacity that findings with cash would free: workloads, and empty nodes of some capacity types."""

    owners: frozenset[Workload]
    empty: frozenset[str]


@frozen_dataclass
class Findings(Shape):
    """Savings that a command shows, the largest first, and upper bounds, with their sums per month.

    `passed_over` counts findings under the minimum.
    """

    period: Period
    currency: str
    minimum_per_month: Decimal
    saving_per_month: Decimal
    freed_capacity_per_month: Decimal
    at_most_per_month: Decimal
    passed_over: int
    savings: tuple[Finding, ...]
    upper_bounds: tuple[Finding, ...]

    @classmethod
    def of(
        cls, findings: Sequence[Finding], passed_over: int, period: Period, currency: str, minimum: Decimal
    ) -> Findings:
        """These findings, and their sums."""
        savings = tuple(found for found in findings if not found.is_bound)
        bounds = tuple(found for found in findings if found.is_bound)
        return cls(
            period,
            currency,
            minimum,
            total(found.saving_per_month for found in savings),
            total(found.freed_capacity_per_month for found in savings),
            total(found.saving_per_month for found in bounds),
            passed_over,
            savings,
            bounds,
        )

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Savings, then upper bounds."""
        return self.savings + self.upper_bounds

    def narrowed(self, selection: WorkloadSelection | Query) -> Findings:
        """The findings about a part of the fleet, with their ranks among all."""
        teams = set(selection.teams)
        scope = Scope(selection.teams, selection.namespaces, selection.workloads, selection.clusters)

        def is_about(finding: Finding) -> bool:
            if not finding.owners:
                return finding.cluster in scope.clusters and not scope.is_narrowed
            in_team = not teams or not teams.isdisjoint((finding.team or "").split(", "))
            return in_team and any(map(scope.fits, finding.owners))

        if scope == Scope():
            return self
        return self._only(filter(is_about, self.findings))

    def about(self, owners: Collection[tuple[str | None, ...]]) -> Findings:
        """The findings about any of these workloads, with their ranks among all."""
        return self._only(each for each in self.findings if not each.owners.isdisjoint(owners))

    def _only(self, findings: Iterable[Finding]) -> Findings:
        return self.of(tuple(findings), 0, self.period, self.currency, self.minimum_per_month)

    @property
    def freed(self) -> Freed:
        """The capacity that savings free, without advice to commit."""
        cash = [found for found in self.savings if found.saving and found.kind != "steady_on_demand"]
        owners, empty = (found.owners for found in cash), (found.empty for found in cash)
        return Freed(frozenset().union(*owners), frozenset().union(*empty))


def open_hours(rows: Iterable[Mapping[str, Any]], tz: ZoneInfo) -> tuple[str, str] | None:
    """(hours, weekdays) that a service is needed, as `whatif schedule` takes them; None if it is never idle for long, or always.

    `rows` have active_gpu_ms and idle_gpu_ms of epoch hours.
    """
    # by whether it is a weekend, and the hour of the day
    idle, measured = (defaultdict[tuple[bool, int], float](float) for _ in range(2))
    for row in rows:
        local = from_ms(row["hour"] * MS_PER_HOUR).astimezone(tz)
        key = local.weekday() > 4, local.hour
        idle[key] += row["idle_gpu_ms"]
        measured[key] += row["idle_gpu_ms"] + row["active_gpu_ms"]

    def is_idle(hour: int, *weekends: bool) -> bool:
        time = sum(measured[weekend, hour % _HOURS] for weekend in weekends)
        return time > 0 and sum(idle[weekend, hour % _HOURS] for weekend in weekends) >= _IDLE * time

    needed = [not is_idle(hour, False, True) for hour in range(_HOURS)]
    if not any(needed):
        return None
    # the length of the pause that begins at each hour; pauses run past midnight
    pauses = [[*needed, *needed].index(True, begin) - begin for begin in range(_HOURS)]
    length = max(pauses)
    closes = pauses.index(length)
    if length < _SHORTEST:
        length = closes = 0
    opens = closes + length
    weekends_off = all(is_idle(hour, True) for hour in range(opens, closes + _HOURS))
    if not length and not weekends_off:
        return None
    return f"{opens % _HOURS:02}:00-{closes or _HOURS:02}:00", "mon-fri" if weekends_off else "mon-sun"


class Candidates:
    """All waste that may become a finding, from the tables waste_rows and activity_use and the attributed ones.

    `workloads` and `free` (unallocated GPUs) are rows with the columns of the SQL.
    """

    def __init__(self, con: DuckDBPyConnection, config: Config, period: Period) -> None:
        self.workloads = answer_rows(con, "gpucost.questions.findings", "workloads", period.bounds)
        self.free = answer_rows(con, "gpucost.questions.findings", "free_gpus", period.bounds)
        self.config = config
        self.places = grouped_by(self.workloads, "cluster", "namespace")

    def all(self) -> Iterator[Finding]:
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
        yield from self._advice("failed_restarted", "lost_work", "lost by pods that failed")
        yield from self._free_gpus()

    def _of_types(self, *types: str) -> list[Row]:
        return [row for row in self.workloads if row["workload_type"] in types]

    def _idle(self, kind: str, workload_type: str, *buckets: str) -> Iterator[Finding]:
        """Workloads of one node are one finding: the node goes away only if all of them release it."""
        wasteful = [row for row in self._of_types(workload_type) if _wasted([row], *buckets)]
        for rows in _on_shared_nodes(wasteful):
            active = max(row["active_to_ms"] or 0 for row in rows)
            words = f"idle; last active {self._moment(active)}" if active else "idle; never active"
            yield self._about(kind, rows, _names(rows), _wasted(rows, *buckets), words, options=_IDLE_MINUTES)

    def _over_requested(self) -> Iterator[Finding]:
        for family, names, rows in self._families(row for row in self.workloads if row["unused_gpu_ms"] > 0):
            unused = sum(row["unused_gpu_ms"] for row in rows)
            most, used = (max(row[name] for row in rows) for name in ("asked", "most_used"))
            words = f"on GPUs never used; requests {most:g} GPUs, never used more than {used}"
            patch = patches.smaller_request(family, rows[0]["namespace"], most, used)
            yield self._about("over_requested", rows, names, unused, words, subject=family, patch=patch)

    def _spare(self, row: Row) -> Iterator[Finding]:
        """A service with GPUs to spare."""
        waste, busy = _wasted([row], "over_provisioned"), row["p95"]
        is_little_used = busy is not None and busy < _LITTLE_USED
        if row["gpus_per_pod"] >= 1 and (waste or is_little_used):
            waste = waste or _wasted([row], "off_peak_idle")
            yield self._about(
                "over_provisioned", [row], _names([row]), waste, f"idle or to spare; {_busiest(row)}"
            )

    def _off_peak(self, row: Row) -> Iterator[Finding]:
        """A service that is idle in some hours of the day."""
        waste = _wasted([row], "off_peak_idle")
        hours = open_hours(row["hours"], self.config.tz) if waste else None
        if hours:
            options = (("--office-hours", hours[0]), ("--weekdays", hours[1]))
            words = f"idle; needed {hours[0]}, {hours[1]}; {_busiest(row)}"
            patch = patches.scaled_down(
                row["workload"], row["namespace"], self.config.timezone, *hours, replicas=row["most_pods"]
            )
            yield self._about("off_peak", [row], _names([row]), waste, words, options=options, patch=patch)

    def _on_demand(self, kind: str, rows: Sequence[Row], patch: str | None) -> Iterator[Finding]:
        """Workloads that were on demand for a time, one finding per namespace."""
        for place in grouped_by(rows, "cluster", "namespace").values():
            families, names, members = list[str](), list[str](), list[Row]()
            for family, alike, runs in self._families(place):
                if any(row["on_demand_gpu_ms"] for row in runs):
                    families.append(family)
                    names += alike
                    members += runs
            if members:
                gpu_ms, subject = sum(row["on_demand_gpu_ms"] for row in members), ", ".join(families)
                yield self._about(kind, members, names, gpu_ms, "on demand", subject=subject, patch=patch)

    def _advice(self, bucket: str, kind: str, words: str) -> Iterator[Finding]:
        """Waste without a what-if: its cost is an upper bound."""
        for family, names, rows in self._families(row for row in self.workloads if bucket in row["buckets"]):
            cost = total(row["buckets"][bucket][1] for row in rows)
            yield self._about(kind, rows, names, _wasted(rows, bucket), words, subject=family, saving=cost)

    def _free_gpus(self) -> Iterator[Finding]:
        """Unallocated GPUs: empty nodes, by cluster, and free GPUs on nodes in use."""
        empty = [row for row in self.free if row["bucket"] == "empty_node"]
        for (cluster, is_on_prem), rows in grouped_by(empty, "cluster", "is_own").items():
            finding = _of_free("empty_nodes", rows, "that were empty for a long time")
            if is_on_prem:
                yield replace(finding, advice=_OWN_MACHINES)
                continue
            patch = patches.fewer_nodes(sum(row["peak_gpus"] for row in rows))
            question = WhatIfQuery("schedule", Scope(clusters=(cluster,)), _EMPTY_MINUTES)
            yield replace(finding, patch=patch, saving=ZERO, questions=(question,))
        for row in self.free:
            if row["bucket"] == "between_jobs":
                yield _of_free("between_jobs", [row], "in use")

    def _about(
        self,
        kind: str,
        rows: Sequence[Row],
        names: Sequence[str],
        gpu_ms: float,
        words: str,
        *,
        options: tuple[tuple[str, str], ...] = (),
        **facts: Any,
    ) -> Finding:
        """A candidate about workloads `names`, patterns in commands; `words` continue "1.0 of 2.0 GPU-hours"."""
        held = sum(row["held_gpu_ms"] for row in rows)
        measured = sum(row["active_gpu_ms"] + row["idle_gpu_ms"] for row in rows)
        start, end = min(row["from_ms"] for row in rows), max(row["to_ms"] for row in rows)
        evidence = f"{_hours(gpu_ms):,.1f} of {_hours(held):,.1f} GPU-hours {words}"
        metric, threshold = self.config.activity.device_metric, self.config.idle.threshold_percent
        share = _percent(measured / held) if held else "none"
        owners = frozenset((row["cluster"], row["namespace"], row["workload"]) for row in rows)
        namespaces = sorted({row["namespace"] for row in rows})
        scope = Scope((), tuple(namespaces), tuple(names), (rows[0]["cluster"],))
        return _finding(
            kind,
            rows,
            gpu_ms,
            namespace=namespaces[0] if len(namespaces) == 1 else None,
            team=", ".join(sorted({row["team"] for row in rows if row["team"]})) or None,
            evidence=f"{evidence}; allocated from {self._moment(start)} to {self._moment(end)}",
            measured=f"{metric}, idle under {threshold:g} %; {share} of the GPU-hours measured",
            owners=owners,
            questions=tuple(WhatIfQuery(command, scope, options) for command in KINDS[kind][2:]),
            **{"subject": ", ".join(names)} | facts,
        )

    def _families(self, rows: Iterable[Row]) -> Iterator[tuple[str, Names, list[Row]]]:
        """Title, names and rows of workloads of a namespace, runs together: `Job/sweep-1` and `-2` as `Job/sweep-*`.

        If the pattern fits other workloads, too, the names for commands are those of the runs.
        """
        families = grouped(
            ((row["cluster"], row["namespace"], family_of(row["workload"])), row) for row in rows
        )
        for (cluster, namespace, glob), members in families.items():
            names = _names(members)
            if len(members) == 1:
                yield names[0], names, members
                continue
            fitting = [
                place for place in self.places[cluster, namespace] if is_fitting(place["workload"], glob)
            ]
            yield glob, (glob,) if len(fitting) == len(members) else names, members

    def _moment(self, ms: int) -> str:
        return f"{from_ms(ms).astimezone(self.config.tz):%Y-%m-%d %H:%M}"


def _names(rows: Iterable[Row]) -> Names:
    return tuple(sorted({row["workload"] for row in rows}))


def _on_shared_nodes(rows: Iterable[Row]) -> list[list[Row]]:
    """The rows of workloads, grouped by nodes that they share, in the order of each group's last row."""
    group_of: dict[NodeKey, list[Row]] = {}
    last: dict[int, int] = {}
    for number, row in enumerate(rows):
        groups = {id(group): group for node in _nodes(row) if (group := group_of.get(node))}
        members, *others = sorted(groups.values(), key=lambda group: -last[id(group)]) or [list[Row]()]
        for group in others:
            group_of |= dict.fromkeys(chain.from_iterable(map(_nodes, group)), members)
            members += group
        members.append(row)
        group_of |= dict.fromkeys(_nodes(row), members)
        last[id(members)] = number
    groups = {last[id(group)]: group for group in group_of.values()}
    return [groups[number] for number in sorted(groups)]


def _nodes(row: Row) -> list[NodeKey]:
    return [(row["cluster"], node) for node in row["nodes"]]


def _of_free(kind: str, rows: Sequence[Row], words: str) -> Finding:
    """The finding about unallocated GPUs; without a what-if, their cost is an upper bound."""
    gpu_ms, nodes = sum(row["gpu_ms"] for row in rows), sum(row["nodes"] for row in rows)
    largest = max(rows, key=lambda row: row["cost"])["largest"]
    names = (f"{row['gpu_model'] or 'GPUs'} {row['capacity_type'].replace('_', '-')}" for row in rows)
    count = f"{nodes} node{'s' if nodes > 1 else ''}"
    return _finding(
        kind,
        rows,
        gpu_ms,
        saving=total(row["cost"] for row in rows),
        namespace=None,
        team=None,
        subject=", ".join(names),
        evidence=f"{_hours(gpu_ms):,.1f} GPU-hours on {count} {words}, most on {largest}",
        measured="metrics of nodes and pods",
        empty=frozenset(row["capacity_type"] for row in rows),
    )


def _finding(kind: str, rows: Sequence[Row], gpu_ms: float, **facts: Any) -> Finding:
    title, advice, *_ = KINDS[kind]
    facts = {"command": None, "patch": None} | facts
    return Finding(
        kind=kind,
        title=title,
        cluster=rows[0]["cluster"],
        waste_gpu_hours=_hours(gpu_ms),
        cost=total(row["cost"] for row in rows),
        advice=advice,
        **facts,
    )


def _wasted(rows: Iterable[Row], *buckets: str) -> float:
    """The GPU-milliseconds of these buckets."""
    gpu_ms: float = sum(row["buckets"].get(bucket, (0.0,))[0] for row, bucket in product(rows, buckets))
    return gpu_ms


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _busiest(row: Row) -> str:
    return "not measured" if row["p95"] is None else f"{_percent(row['p95'])} busy in its busiest hours"


def _hours(gpu_ms: float) -> float:
    return round(gpu_ms / MS_PER_HOUR, 6)


def ranked(findings: Iterable[Finding], minimum: Decimal) -> tuple[list[Finding], int]:
    """Findings of `minimum` or more per month, and how many are under it.

    Findings are taken by kind, in the order of KINDS, then by saving. Each takes its workloads, so that no saving counts twice;
    a finding under the minimum leaves them to others.
    """
    order = list(KINDS).index
    taken: set[Workload] = set()
    found: list[Finding] = []
    passed_over = 0
    for finding in sorted(findings, key=lambda row: (order(row.kind), -row.saving, -row.freed_capacity_cost)):
        worth = finding.saving_per_month + finding.freed_capacity_per_month
        if worth <= 0 or finding.owners & taken:
            continue
        if worth < minimum:
            passed_over += 1
            continue
        # advice is about a part of the workload's time
        if finding.command:
            taken |= finding.owners
        found.append(finding)
    found.sort(key=lambda row: (row.is_bound, -row.saving, -row.freed_capacity_cost))
    return [replace(row, rank=rank) for rank, row in enumerate(found, start=1)], passed_over


def answered(
    finding: Finding,
    answers: Mapping[WhatIfQuery, WhatIfResult],
    months: Decimal,
    minimum: Decimal,
    period: tuple[str, ...],
) -> Finding:
    """The finding with the figures of the what-if that saves most, if one answered.

    The period is `months` long, and `period` are the words that name it.
    """
    best = max(filter(answers.get, finding.questions), key=answers.__getitem__, default=None)
    if best:
        saving, freed, needs_work, cost = answers[best]
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
    return replace(
        finding,
        saving_per_month=round(finding.saving / months, 9),
        freed_capacity_per_month=round(finding.freed_capacity_cost / months, 9),
    )
