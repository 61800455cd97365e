"""What to do about waste, ranked by money a month: who, why, what it saves, and the command that shows it (docs/findings.md)."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from gpucost.engine import answer_rows, run_stage
from gpucost.periods import MS_PER_HOUR, Period, from_ms
from gpucost.render.schema import Shape
from gpucost.render.view import Coverage
from gpucost.report.waste import Waste
from gpucost.store.usage import load_devices

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Activity, Config

# An hour of the day counts as idle where GPUs were idle for so much of it, and is worth turning off in runs of so many.
_IDLE = 0.8
_SHORTEST = 3
_HOURS = 24


def open_hours(rows: Iterable[Mapping[str, Any]], tz: ZoneInfo) -> tuple[str, str] | None:
    """(hours, weekdays) that it is needed, as `whatif schedule` takes them; None where it is never idle for long, or always.

    `rows` tell active_gpu_ms and idle_gpu_ms of epoch hours.
    """
    idle: dict[tuple[bool, int], float] = defaultdict(float)
    measured: dict[tuple[bool, int], float] = defaultdict(float)
    for row in rows:
        local = from_ms(row["hour"] * MS_PER_HOUR).astimezone(tz)
        key = local.weekday() > 4, local.hour
        idle[key] += row["idle_gpu_ms"]
        measured[key] += row["idle_gpu_ms"] + row["active_gpu_ms"]
    needed = [not _is_idle(hour, (False, True), idle, measured) for hour in range(_HOURS)]
    if not any(needed):
        return None
    begin, length = _longest_pause(needed)
    opens, closes = (begin + length, begin) if length >= _SHORTEST else (0, 0)
    on = [hour for hour in range(_HOURS) if length < _SHORTEST or (hour - opens) % _HOURS < _HOURS - length]
    weekends_off = all(_is_idle(hour, (True,), idle, measured) for hour in on)
    if length < _SHORTEST and not weekends_off:
        return None
    return f"{opens % _HOURS:02}:00-{closes or _HOURS:02}:00", "mon-fri" if weekends_off else "mon-sun"


def _is_idle(
    hour: int, weekends: Iterable[bool], idle: Mapping[tuple[bool, int], float], measured: Mapping[tuple[bool, int], float]
) -> bool:
    heard = sum(measured.get((weekend, hour), 0.0) for weekend in weekends)
    return heard > 0 and sum(idle.get((weekend, hour), 0.0) for weekend in weekends) >= _IDLE * heard


def _longest_pause(needed: list[bool]) -> tuple[int, int]:
    """(first hour, length) of the longest run of hours that are not needed, midnight no border."""
    best = (0, 0)
    for begin in range(_HOURS):
        length = 0
        while length < _HOURS and not needed[(begin + length) % _HOURS]:
            length += 1
        if length > best[1]:
            best = (begin, length)
    return best


def told(at: datetime, tz: ZoneInfo) -> str:
    """A moment as evidence names it."""
    return f"{at.astimezone(tz):%Y-%m-%d %H:%M}"


_PACKAGE = "gpucost.findings"
_NUMBER = re.compile(r"([-_.])\d+$")

Row = Mapping[str, Any]
Key = tuple[str, str, str]  # cluster, namespace, workload


@dataclass(frozen=True, slots=True)
class Part:
    """GPU time and money of one bucket."""

    gpu_ms: float
    cost: Decimal


@dataclass(frozen=True, slots=True)
class Read:
    """`workloads`, `levels` and `hours` are rows as the SQL of this package names them; `buckets` those of each workload."""

    workloads: dict[Key, Row]
    buckets: dict[Key, dict[str, Part]]
    levels: dict[Key, Row]
    hours: dict[Key, list[Row]]
    free: list[Row]

    def waste(self, keys: Iterable[Key], *names: str) -> Part:
        """The buckets of these names, of all the workloads."""
        parts = [self.buckets[key][name] for key in keys for name in names if name in self.buckets.get(key, {})]
        return Part(sum(part.gpu_ms for part in parts), sum((part.cost for part in parts), Decimal(0)))

    def families(self, *types: str) -> dict[Key, list[Key]]:
        """Workloads of these types, runs of one name together: `Job/sweep-1` and `Job/sweep-2` under `Job/sweep-*`."""
        found: dict[Key, list[Key]] = defaultdict(list)
        for key, row in self.workloads.items():
            if row["workload_type"] in types:
                found[key[0], key[1], _NUMBER.sub(r"\1*", key[2])].append(key)
        return {(*key[:2], key[2] if len(keys) > 1 else keys[0][2]): keys for key, keys in found.items()}

    def scope(self, keys: list[Key], family: str) -> tuple[str, ...]:
        """The words that name these workloads of a namespace and no others: the family's glob, else each by itself."""
        cluster, namespace, _ = keys[0]
        matched = {key for key in self.workloads if key[:2] == (cluster, namespace) and fnmatchcase(key[2], family)}
        return (family,) if matched == set(keys) else tuple(sorted(key[2] for key in keys))


def read(con: DuckDBPyConnection, activity: Activity, period: Period) -> Read:
    """Everything at once. Expects the temporary table waste_facts of the period; makes temporary tables."""
    span = {"from_ms": period.start_ms, "to_ms": period.end_ms}
    run_stage(con, _PACKAGE, "10_workloads", span)
    load_devices(con, activity, period)
    buckets: dict[Key, dict[str, Part]] = defaultdict(dict)
    for row in answer_rows(con, _PACKAGE, "20_buckets"):
        buckets[_key(row)][row["bucket"]] = Part(row["gpu_ms"], row["cost"])
    hours: dict[Key, list[Row]] = defaultdict(list)
    for row in answer_rows(con, _PACKAGE, "50_hours", span):
        hours[_key(row)].append(row)
    return Read(
        workloads={_key(row): row for row in answer_rows(con, _PACKAGE, "11_finding_workloads")},
        buckets=buckets,
        levels={_key(row): row for row in answer_rows(con, _PACKAGE, "40_levels", span)},
        hours=hours,
        free=list(answer_rows(con, _PACKAGE, "30_free")),
    )


def _key(row: Row) -> Key:
    return row["cluster"], row["namespace"], row["workload"]


# What a finding lays claim to: (cluster, namespace, workload, bucket) of held GPU time, or (cluster, GPU model, capacity type,
# bucket) of free GPUs; the bucket "*" is all of them.
Claim = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of finding: its name, what people call it, and what to do about it."""

    name: str
    title: str
    advice: str


@dataclass(frozen=True, slots=True)
class Question:
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


@dataclass(frozen=True, slots=True)
class Answered:
    """What a what-if said, over the period."""

    question: Question
    cost: Decimal
    saving: Decimal


@dataclass(frozen=True, slots=True)
class Candidate:
    """Waste that may become a finding. Of `questions` the one that saves most counts; without any, `waste_cost` is at stake.

    GPU-hours are those held (or free), `waste_gpu_hours` and `waste_cost` those of the buckets that the finding is about.
    """

    kind: str
    cluster: str
    namespace: str | None
    team: str | None
    subject: str
    claims: frozenset[Claim]
    begins: datetime
    ends: datetime
    gpu_hours: float
    waste_gpu_hours: float
    cost: Decimal
    waste_cost: Decimal
    utilization: float | None
    evidence: str
    questions: tuple[Question, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding(Shape):
    """`saving` is of the period, and what `command` shows; `saving_per_month` the same of 730 hours (a whole month: as it is).

    `is_bound`: no command shows it: what the waste cost, so that no more than that can be saved. `utilization` is 0-1 over
    measured time, None where nothing was measured.
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
    is_bound: bool
    command: str | None
    advice: str


@dataclass(frozen=True, slots=True)
class Findings:
    """`findings` are the dearest first; `passed_over` counts those under the minimum."""

    findings: tuple[Finding, ...]
    minimum_per_month: Decimal
    passed_over: int

    @property
    def saving_per_month(self) -> Decimal:
        """Of those that a command shows: what only bounds a saving is not added to it."""
        return sum((found.saving_per_month for found in self.findings if not found.is_bound), Decimal(0))


@dataclass(frozen=True, slots=True)
class FindingsAnswer(Shape):
    """What `gpucost findings` prints: sums of all findings, and the first of them."""

    period: Period
    currency: str
    minimum_per_month: Decimal
    saving_per_month: Decimal
    passed_over: int
    findings: tuple[Finding, ...]

    FLAT = ("period",)


@dataclass(frozen=True, slots=True, kw_only=True)
class WasteAnswer(Shape):
    """What `gpucost waste` prints, findings where they are asked for."""

    period: Period
    currency: str
    waste: Waste
    findings: tuple[Finding, ...] | None = None
    coverage: Coverage

    FLAT = ("period", "waste")


_IDLE_MINUTES = (("--idle-minutes", "60"),)
_LITTLE_USED = 0.5
_ADVISED = (
    ("data_stall", "data_stall", "idle while it ran", ""),
    ("lost_work", "failed_restarted", "lost by pods that failed", "since their last epoch known"),
    ("slow_start", "starting", "held before it ran", "images are pulled meanwhile"),
)


def candidates(con: DuckDBPyConnection, config: Config, period: Period) -> list[Candidate]:
    """Everything that may be worth a finding, of the temporary table waste_facts and the attributed tables."""
    return list(_Candidates(read(con, config.activity, period), config, period).all())


class _Candidates:
    def __init__(self, found: Read, config: Config, period: Period) -> None:
        self.found, self.period, self.tz = found, period, config.tz
        clusters = {key[0] for key in found.workloads} | {row["cluster"] for row in found.free}
        self.many = len(clusters) > 1

    def all(self) -> Iterator[Candidate]:
        yield from self._idle("development", "idle_notebook", "user_away", "forgotten")
        yield from self._idle("other", "idle_workload", "idle")
        yield from self._over_requested()
        yield from self._serving()
        yield from self._training_on_demand()
        yield from self._empty_nodes()
        yield from self._steady()
        for kind, bucket, what, words in _ADVISED:
            yield from self._advised(kind, bucket, what, words)
        yield from self._free("fragmentation", "that were free, but fewer than the smallest request")
        yield from self._free("unavailable", "that were not ready, cordoned or broken")

    def _idle(self, workload_type: str, kind: str, *buckets: str) -> Iterator[Candidate]:
        for key, row in self.found.workloads.items():
            waste = self.found.waste([key], *buckets)
            if row["workload_type"] == workload_type and waste.cost > 0:
                last = row["active_to_ms"]
                words = f"last active {told(from_ms(last), self.tz)}" if last else "never active"
                asked = (self._question("schedule", [key], key[2], _IDLE_MINUTES),)
                yield self._candidate(kind, [key], key[2], waste, "idle", words, asked)

    def _over_requested(self) -> Iterator[Candidate]:
        for (_, _, family), every in self.found.families("training", "batch", "inference", "other", "development").items():
            keys = [key for key in every if self._unused(key) > 0]
            if not keys:
                continue
            levels = [self.found.levels[key] for key in keys]
            unused = sum(self._unused(key) for key in keys)
            held = sum(self.found.workloads[key]["held_gpu_ms"] for key in keys)
            waste = Part(unused, self._cost(keys) * Decimal(str(round(unused / held, 9))))
            asked, used = max(one["asked"] for one in levels), max(one["most_used"] for one in levels)
            words = f"asks for {asked:g} GPUs, never used more than {used}"
            question = self._question("rightsize", keys, family, (("--same-model", None),))
            subject = family if len(keys) > 1 else keys[0][2]
            yield self._candidate("over_requested", keys, subject, waste, "on GPUs never used", words, (question,))

    def _serving(self) -> Iterator[Candidate]:
        for key, row in self.found.workloads.items():
            if row["workload_type"] != "inference":
                continue
            level = self.found.levels.get(key)
            spare = self.found.waste([key], "over_provisioned")
            busiest = f"{_percent(level['p95'])} busy in its busiest hours" if level else "not measured"
            if row["gpus_per_pod"] >= 1 and (spare.cost > 0 or (level and level["p95"] < _LITTLE_USED)):
                waste = spare if spare.cost > 0 else self.found.waste([key], "off_peak_idle")
                asked = tuple(self._question(command, [key], key[2]) for command in ("share", "rightsize"))
                yield self._candidate("over_provisioned", [key], key[2], waste, "idle or to spare", busiest, asked)
            off = self.found.waste([key], "off_peak_idle")
            hours = open_hours(self.found.hours.get(key, []), self.tz) if off.cost > 0 else None
            if hours:
                asked = (self._question("schedule", [key], key[2], (("--office-hours", hours[0]), ("--weekdays", hours[1]))),)
                words = f"needed {hours[0]}, {hours[1]}; {busiest}"
                yield self._candidate("off_peak", [key], key[2], off, "idle", words, asked)

    def _training_on_demand(self) -> Iterator[Candidate]:
        spaces: dict[tuple[str, str], list[tuple[str, list[Key]]]] = defaultdict(list)
        for (cluster, namespace, family), keys in self.found.families("training", "batch").items():
            here = [key for key in keys if self.found.workloads[key]["on_demand_cost"] > 0]
            if here:
                spaces[cluster, namespace].append((family, keys))
        for families in spaces.values():
            keys = [key for _, several in families for key in several]
            scope = tuple(word for family, several in families for word in self.found.scope(several, family))
            words = f"{len(keys)} workloads that could go on after an interruption"
            question = self._question("spot", keys, "", workloads=scope)
            subject = ", ".join(family for family, _ in families)
            yield self._candidate("on_demand_training", keys, subject, self._on_demand(keys), "on demand", words, (question,))

    def _empty_nodes(self) -> Iterator[Candidate]:
        by_cluster: dict[str, list[dict[str, object]]] = defaultdict(list)
        for row in self.found.free:
            if row["bucket"] == "empty_node":
                by_cluster[row["cluster"]].append(dict(row))
        for cluster, rows in by_cluster.items():
            # no workload is called `none`: only nodes are looked at
            options = (("--empty-minutes", "10"), ("--notebook", "none"))
            question = Question("schedule", cluster if self.many else None, options=options)
            yield self._of_free("empty_nodes", rows, "that nobody held for long", (question,))

    def _steady(self) -> Iterator[Candidate]:
        """What serves on demand all the time, each cluster's together."""
        steady: dict[tuple[str, str], list[Key]] = defaultdict(list)
        for key, row in self.found.workloads.items():
            if row["workload_type"] == "inference" and row["on_demand_cost"] > 0:
                steady[key[0], key[1]].append(key)
        for keys in steady.values():
            names = tuple(sorted(key[2] for key in keys))
            question = self._question("reserve", keys, "", workloads=names)
            subject, part = ", ".join(names), self._on_demand(keys)
            yield self._candidate("steady_on_demand", keys, subject, part, "on demand", "serves around the clock", (question,))

    def _advised(self, kind: str, bucket: str, what: str, words: str) -> Iterator[Candidate]:
        for (_, _, family), every in self.found.families("training", "batch", "inference", "development", "other").items():
            keys = [key for key in every if bucket in self.found.buckets.get(key, {})]
            waste = self.found.waste(keys, bucket)
            if waste.cost > 0:
                subject = family if len(keys) > 1 else keys[0][2]
                yield self._candidate(kind, keys, subject, waste, what, words, bucket=bucket)

    def _free(self, bucket: str, words: str) -> Iterator[Candidate]:
        for row in self.found.free:
            if row["bucket"] == bucket and row["cost"] > 0:
                yield self._of_free(bucket, [dict(row)], words)

    def _of_free(self, kind: str, rows: list[dict[str, object]], words: str, questions: tuple[Question, ...] = ()) -> Candidate:
        gpu_ms = sum(float(str(row["gpu_ms"])) for row in rows)
        cost = sum((Decimal(str(row["cost"])) for row in rows), Decimal(0))
        nodes = sum(int(str(row["nodes"])) for row in rows)
        names = ", ".join(f"{row['gpu_model'] or 'GPUs'} {str(row['capacity_type']).replace('_', ' ')}" for row in rows)
        dearest = max(rows, key=lambda row: Decimal(str(row["cost"])))["dearest"]
        return Candidate(
            kind=kind,
            cluster=str(rows[0]["cluster"]),
            namespace=None,
            team=None,
            subject=names,
            claims=frozenset(
                (str(row["cluster"]), str(row["gpu_model"]), str(row["capacity_type"]), str(row["bucket"])) for row in rows
            ),
            begins=self.period.start,
            ends=self.period.end,
            gpu_hours=_hours(gpu_ms),
            waste_gpu_hours=_hours(gpu_ms),
            cost=cost,
            waste_cost=cost,
            utilization=None,
            evidence=f"{_hours(gpu_ms):,.1f} GPU-hours on {nodes} node{'s' if nodes > 1 else ''} {words}, most on {dearest}",
            questions=questions,
        )

    def _candidate(
        self,
        kind: str,
        keys: list[Key],
        subject: str,
        waste: Part,
        what: str,
        words: str,
        questions: tuple[Question, ...] = (),
        bucket: str = "*",
    ) -> Candidate:
        rows = [self.found.workloads[key] for key in keys]
        held, active, idle = (sum(row[f"{name}_gpu_ms"] for row in rows) for name in ("held", "active", "idle"))
        busy = sum(row["utilization_gpu_ms"] for row in rows) / (active + idle) if active + idle else None
        begins, ends = min(row["from_ms"] for row in rows), max(row["to_ms"] for row in rows)
        told_of = [
            f"{_hours(waste.gpu_ms):,.1f} of {_hours(held):,.1f} GPU-hours {what}",
            f"{told(from_ms(begins), self.tz)} to {told(from_ms(ends), self.tz)}",
            *([f"{_percent(busy)} busy"] if busy is not None else []),
        ]
        return Candidate(
            kind=kind,
            cluster=keys[0][0],
            namespace=keys[0][1],
            team=", ".join(sorted({row["team"] for row in rows if row["team"]})) or None,
            subject=subject,
            claims=frozenset[Claim]((*key, bucket) for key in keys),
            begins=from_ms(begins),
            ends=from_ms(ends),
            gpu_hours=_hours(held),
            waste_gpu_hours=_hours(waste.gpu_ms),
            cost=self._cost(keys),
            waste_cost=waste.cost,
            utilization=round(busy, 6) if busy is not None else None,
            evidence=", ".join(told_of) + (f"; {words}" if words else ""),
            questions=questions,
        )

    def _question(
        self,
        command: str,
        keys: list[Key],
        family: str,
        options: tuple[tuple[str, str | None], ...] = (),
        workloads: tuple[str, ...] = (),
    ) -> Question:
        cluster, namespace, _ = keys[0]
        return Question(command, cluster if self.many else None, namespace, workloads or self.found.scope(keys, family), options)

    def _on_demand(self, keys: Iterable[Key]) -> Part:
        rows = [self.found.workloads[key] for key in keys]
        return Part(sum(row["on_demand_gpu_ms"] for row in rows), sum((row["on_demand_cost"] for row in rows), Decimal(0)))

    def _unused(self, key: Key) -> float:
        level = self.found.levels.get(key)
        return float(level["unused_gpu_ms"]) if level else 0.0

    def _cost(self, keys: Iterable[Key]) -> Decimal:
        return sum((self.found.workloads[key]["cost"] for key in keys), Decimal(0))


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _hours(gpu_ms: float) -> float:
    return round(gpu_ms / MS_PER_HOUR, 6)


KINDS = (
    Kind("idle_notebook", "Idle notebook", "release its GPUs when it is idle, or end it"),
    Kind("idle_workload", "Idle workload", "ask its owner whether it is still needed"),
    Kind("over_requested", "GPUs asked for, never used", "ask for as many GPUs as are used"),
    Kind("over_provisioned", "Replicas or GPUs to spare", "fewer replicas, a shared GPU, or a smaller one"),
    Kind("off_peak", "Serving idle off its peak", "scale it down outside of those hours"),
    Kind("on_demand_training", "Training on demand", "move it to spot, with checkpoints"),
    Kind("empty_nodes", "Empty nodes", "let the autoscaler remove them sooner"),
    Kind("steady_on_demand", "Steady use on demand", "commit to the base"),
    Kind("data_stall", "GPUs waiting for data", "cache and prefetch its data, or add workers that load it"),
    Kind("lost_work", "Work lost to failures", "write checkpoints more often, and mend what fails"),
    Kind("slow_start", "Slow starts", "keep images on nodes, or make them smaller"),
    Kind("fragmentation", "GPUs too few to use", "pack pods closer, or ask for sizes that fit"),
    Kind("unavailable", "GPUs that cannot be used", "repair these nodes, or give them back"),
)
BY_NAME = {kind.name: kind for kind in KINDS}


_ORDER = {kind.name: place for place, kind in enumerate(KINDS)}
_EVERY = "*"


def ranked(
    candidates: Iterable[Candidate],
    answers: Mapping[Question, Answered],
    *,
    months: Decimal,
    minimum: Decimal,
    period: tuple[str, ...],
) -> Findings:
    """Findings of `minimum` or more a month; `months` is how many the period stands for, `period` the words that name it.

    Candidates are taken by kind, in the order of KINDS, then by saving. One that lays claim to what an earlier one has is
    dropped; one under the minimum leaves its claims to others.
    """
    chosen = sorted(((one, _best(one, answers)) for one in candidates), key=lambda pair: _first_to_claim(*pair))
    taken: set[Claim] = set()
    kept: list[tuple[Candidate, Answered | None, Decimal]] = []
    passed_over = 0
    for one, answer in chosen:
        saving = answer.saving if answer else Decimal(0) if one.questions else one.waste_cost
        if _meets(one.claims, taken):
            continue
        if saving <= 0 or saving / months < minimum:
            passed_over += saving > 0
            continue
        taken |= one.claims
        kept.append((one, answer, saving))
    kept.sort(key=lambda item: (-item[2], _ORDER[item[0].kind], item[0].cluster, item[0].namespace or "", item[0].subject))
    return Findings(tuple(_finding(rank, *item, months, period) for rank, item in enumerate(kept, start=1)), minimum, passed_over)


def _best(candidate: Candidate, answers: Mapping[Question, Answered]) -> Answered | None:
    found = [answers[question] for question in candidate.questions if question in answers]
    return max(found, key=lambda answer: answer.saving, default=None)


def _first_to_claim(one: Candidate, answer: Answered | None) -> tuple[int, Decimal, str, str, str]:
    saving = answer.saving if answer else one.waste_cost
    return _ORDER[one.kind], -saving, one.cluster, one.namespace or "", one.subject


def _meets(claims: frozenset[Claim], taken: set[Claim]) -> bool:
    whole = {claim[:3] for claim in taken if claim[3] == _EVERY}
    parts = {claim[:3] for claim in taken}
    return any(claim in taken or claim[:3] in (parts if claim[3] == _EVERY else whole) for claim in claims)


def _finding(
    rank: int, one: Candidate, answer: Answered | None, saving: Decimal, months: Decimal, period: tuple[str, ...]
) -> Finding:
    kind = BY_NAME[one.kind]
    return Finding(
        rank=rank,
        kind=one.kind,
        title=kind.title,
        cluster=one.cluster,
        namespace=one.namespace,
        team=one.team,
        subject=one.subject,
        evidence=one.evidence,
        start=one.begins,
        end=one.ends,
        gpu_hours=one.gpu_hours,
        waste_gpu_hours=one.waste_gpu_hours,
        utilization=one.utilization,
        cost=answer.cost if answer else one.cost,
        saving=saving,
        saving_per_month=round(saving / months, 9),
        is_bound=answer is None,
        command=answer.question.words(period) if answer else None,
        advice=kind.advice,
    )
