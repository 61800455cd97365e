"""What to do about waste, ranked by money a month: who, why, what it saves, and the command that shows it (docs/findings.md)."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from gpucost.engine import answer_rows, dicts, run_stage
from gpucost.periods import MS_PER_HOUR, Period, from_ms
from gpucost.render.schema import Shape
from gpucost.render.view import Coverage
from gpucost.report.waste import Waste
from gpucost.store.usage import load_devices

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
    idle: dict[tuple[bool, int], float] = defaultdict(float)  # by whether it is a weekend, and the hour of the day
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
    opens, closes = (begin + length, begin) if length >= _SHORTEST else (0, 0)
    on = [hour for hour in range(_HOURS) if length < _SHORTEST or (hour - opens) % _HOURS < _HOURS - length]
    weekends_off = all(is_idle(hour, True) for hour in on)
    if length < _SHORTEST and not weekends_off:
        return None
    return f"{opens % _HOURS:02}:00-{closes or _HOURS:02}:00", "mon-fri" if weekends_off else "mon-sun"


Row = Mapping[str, Any]
Key = tuple[str, str, str]  # cluster, namespace, workload

# What a finding lays claim to: (cluster, namespace, workload, bucket) of held GPU time, or (cluster, GPU model, capacity type,
# bucket) of free GPUs; the bucket "*" is all of them.
Claim = tuple[str, str, str, str]


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
    start: datetime
    end: datetime
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


# How much each workload wasted in each bucket; what nobody held, and on how many nodes; how long services were active by hour.
_BUCKETS = """
SELECT cluster, namespace, workload, bucket, sum(gpu_ms::DECIMAL(38, 6))::DOUBLE AS gpu_ms, sum(cost)::DECIMAL(38, 9) AS cost
FROM waste_facts WHERE allocation_id IS NOT NULL GROUP BY ALL ORDER BY ALL
"""
_FREE = """
SELECT cluster, coalesce(gpu_model, '') AS gpu_model, capacity_type, bucket,
    count(DISTINCT node) AS nodes, sum(gpu_ms::DECIMAL(38, 6))::DOUBLE AS gpu_ms, sum(cost)::DECIMAL(38, 9) AS cost,
    arg_max(node, cost) AS dearest
FROM waste_facts WHERE allocation_id IS NULL GROUP BY ALL ORDER BY ALL
"""
_SERVED = """
SELECT a.cluster, a.namespace, a.workload, c.from_ms // 3600000 AS hour,
    sum(c.active_gpu_ms::DECIMAL(38, 6))::DOUBLE AS active_gpu_ms, sum(c.idle_gpu_ms::DECIMAL(38, 6))::DOUBLE AS idle_gpu_ms
FROM cost_hourly AS c JOIN allocations AS a USING (allocation_id) JOIN finding_workloads AS w USING (cluster, namespace, workload)
WHERE w.workload_type = 'inference' AND c.from_ms >= $from_ms AND c.to_ms <= $to_ms GROUP BY ALL ORDER BY ALL
"""
_NUMBER = re.compile(r"([-_.])\d+$")
_IDLE_MINUTES = (("--idle-minutes", "60"),)
_LITTLE_USED = 0.5


def candidates(con: DuckDBPyConnection, config: Config, period: Period) -> list[Candidate]:
    """Everything that may be worth a finding, of the temporary table waste_facts and the attributed tables."""
    return list(_Candidates(con, config, period).all())


class _Part(NamedTuple):
    """GPU time and money of one bucket."""

    gpu_ms: float
    cost: Decimal


class _Candidates:
    """`workloads`, `levels`, `free` and `hours` are rows as the SQL names them; `buckets` are those of each workload."""

    def __init__(self, con: DuckDBPyConnection, config: Config, period: Period) -> None:
        span = {"from_ms": period.start_ms, "to_ms": period.end_ms}
        run_stage(con, __name__, "10_workloads", span)
        load_devices(con, config.activity, period)
        self.period, self.tz = period, config.tz
        self.workloads = {_key(row): row for row in dicts(con.execute("FROM finding_workloads ORDER BY ALL"))}
        self.levels = {_key(row): row for row in answer_rows(con, __name__, "40_levels", span)}
        self.free = dicts(con.execute(_FREE))
        self.buckets: dict[Key, dict[str, _Part]] = defaultdict(dict)
        for row in dicts(con.execute(_BUCKETS)):
            self.buckets[_key(row)][row["bucket"]] = _Part(row["gpu_ms"], row["cost"])
        self.hours: dict[Key, list[Row]] = defaultdict(list)
        for row in dicts(con.execute(_SERVED, span)):
            self.hours[_key(row)].append(row)
        self.many = len({key[0] for key in self.workloads} | {row["cluster"] for row in self.free}) > 1

    def all(self) -> Iterator[Candidate]:
        yield from self._idle("development", "idle_notebook", "user_away", "forgotten")
        yield from self._idle("other", "idle_workload", "idle")
        yield from self._over_requested()
        yield from self._serving()
        yield from self._training_on_demand()
        yield from self._empty_nodes()
        yield from self._steady()
        yield from self._advised("data_stall", "data_stall", "idle while it ran", "")
        yield from self._advised("lost_work", "failed_restarted", "lost by pods that failed", "since their last epoch known")
        yield from self._advised("slow_start", "starting", "held before it ran", "images are pulled meanwhile")
        yield from self._free("fragmentation", "that were free, but fewer than the smallest request")
        yield from self._free("unavailable", "that were not ready, cordoned or broken")

    def _waste(self, keys: Iterable[Key], *names: str) -> _Part:
        """The buckets of these names, of all the workloads."""
        return _sum(self.buckets[key][name] for key in keys for name in names if name in self.buckets.get(key, {}))

    def _families(self, *types: str) -> dict[Key, list[Key]]:
        """Workloads of these types (none: of all), runs of one name together: `Job/sweep-1` and `-2` under `Job/sweep-*`."""
        families: dict[Key, list[Key]] = defaultdict(list)
        for key, row in self.workloads.items():
            if not types or row["workload_type"] in types:
                families[key[0], key[1], _NUMBER.sub(r"\1*", key[2])].append(key)
        return {(*key[:2], key[2] if len(keys) > 1 else keys[0][2]): keys for key, keys in families.items()}

    def _scope(self, keys: list[Key], family: str) -> tuple[str, ...]:
        """The words that name these workloads of a namespace and no others: the family's glob, else each by itself."""
        matched = {key for key in self.workloads if key[:2] == keys[0][:2] and fnmatchcase(key[2], family)}
        return (family,) if matched == set(keys) else tuple(sorted(key[2] for key in keys))

    def _idle(self, workload_type: str, kind: str, *buckets: str) -> Iterator[Candidate]:
        for key, row in self.workloads.items():
            waste = self._waste([key], *buckets)
            if row["workload_type"] == workload_type and waste.cost > 0:
                last = row["active_to_ms"]
                words = f"last active {self._moment(last)}" if last else "never active"
                question = self._question("schedule", [key], (key[2],), _IDLE_MINUTES)
                yield self._candidate(kind, [key], key[2], waste, "idle", words, (question,))

    def _over_requested(self) -> Iterator[Candidate]:
        for (_, _, family), members in self._families().items():
            keys = [key for key in members if key in self.levels and self.levels[key]["unused_gpu_ms"] > 0]
            if not keys:
                continue
            levels, rows = [self.levels[key] for key in keys], [self.workloads[key] for key in keys]
            unused = sum(level["unused_gpu_ms"] for level in levels)
            held, cost = sum(row["held_gpu_ms"] for row in rows), sum((row["cost"] for row in rows), Decimal(0))
            waste = _Part(unused, cost * Decimal(str(round(unused / held, 9))))
            most, used = max(level["asked"] for level in levels), max(level["most_used"] for level in levels)
            words = f"asks for {most:g} GPUs, never used more than {used}"
            question = self._question("rightsize", keys, self._scope(keys, family), (("--same-model", None),))
            yield self._candidate("over_requested", keys, family, waste, "on GPUs never used", words, (question,))

    def _serving(self) -> Iterator[Candidate]:
        for key, row in self.workloads.items():
            if row["workload_type"] != "inference":
                continue
            level = self.levels.get(key)
            spare, off = self._waste([key], "over_provisioned"), self._waste([key], "off_peak_idle")
            busiest = f"{_percent(level['p95'])} busy in its busiest hours" if level else "not measured"
            if row["gpus_per_pod"] >= 1 and (spare.cost > 0 or (level and level["p95"] < _LITTLE_USED)):
                waste = spare if spare.cost > 0 else off
                questions = tuple(self._question(command, [key], (key[2],)) for command in ("share", "rightsize"))
                yield self._candidate("over_provisioned", [key], key[2], waste, "idle or to spare", busiest, questions)
            hours = open_hours(self.hours.get(key, []), self.tz) if off.cost > 0 else None
            if hours:
                options = (("--office-hours", hours[0]), ("--weekdays", hours[1]))
                question = self._question("schedule", [key], (key[2],), options)
                words = f"needed {hours[0]}, {hours[1]}; {busiest}"
                yield self._candidate("off_peak", [key], key[2], off, "idle", words, (question,))

    def _training_on_demand(self) -> Iterator[Candidate]:
        spaces: dict[tuple[str, str], dict[str, list[Key]]] = defaultdict(dict)
        for (cluster, namespace, family), keys in self._families("training", "batch").items():
            if any(self.workloads[key]["on_demand_cost"] > 0 for key in keys):
                spaces[cluster, namespace][family] = keys
        for families in spaces.values():
            keys = [key for several in families.values() for key in several]
            scope = tuple(word for family, several in families.items() for word in self._scope(several, family))
            words = f"{len(keys)} workloads that could go on after an interruption"
            yield self._on_demand("on_demand_training", keys, ", ".join(families), words, self._question("spot", keys, scope))

    def _empty_nodes(self) -> Iterator[Candidate]:
        by_cluster: dict[str, list[Row]] = defaultdict(list)
        for row in self.free:
            if row["bucket"] == "empty_node":
                by_cluster[row["cluster"]].append(row)
        for cluster, rows in by_cluster.items():
            # no workload is called `none`: only nodes are looked at
            options = (("--empty-minutes", "10"), ("--notebook", "none"))
            question = Question("schedule", cluster if self.many else None, options=options)
            yield self._of_free("empty_nodes", rows, "that nobody held for long", (question,))

    def _steady(self) -> Iterator[Candidate]:
        """What serves on demand all the time, each cluster's together."""
        steady: dict[tuple[str, str], list[Key]] = defaultdict(list)
        for key, row in self.workloads.items():
            if row["workload_type"] == "inference" and row["on_demand_cost"] > 0:
                steady[key[0], key[1]].append(key)
        for keys in steady.values():
            names = tuple(sorted(key[2] for key in keys))
            question = self._question("reserve", keys, names)
            yield self._on_demand("steady_on_demand", keys, ", ".join(names), "serves around the clock", question)

    def _on_demand(self, kind: str, keys: list[Key], subject: str, words: str, question: Question) -> Candidate:
        rows = (self.workloads[key] for key in keys)
        part = _sum(_Part(row["on_demand_gpu_ms"], row["on_demand_cost"]) for row in rows)
        return self._candidate(kind, keys, subject, part, "on demand", words, (question,))

    def _advised(self, kind: str, bucket: str, what: str, words: str) -> Iterator[Candidate]:
        for (_, _, family), members in self._families().items():
            keys = [key for key in members if bucket in self.buckets.get(key, {})]
            waste = self._waste(keys, bucket)
            if waste.cost > 0:
                yield self._candidate(kind, keys, family, waste, what, words, bucket=bucket)

    def _free(self, bucket: str, words: str) -> Iterator[Candidate]:
        for row in self.free:
            if row["bucket"] == bucket and row["cost"] > 0:
                yield self._of_free(bucket, [row], words)

    def _of_free(self, kind: str, rows: list[Row], words: str, questions: tuple[Question, ...] = ()) -> Candidate:
        gpu_ms, cost = _sum(_Part(row["gpu_ms"], row["cost"]) for row in rows)
        nodes = sum(row["nodes"] for row in rows)
        dearest = max(rows, key=lambda row: row["cost"])["dearest"]
        names = (f"{row['gpu_model'] or 'GPUs'} {row['capacity_type'].replace('_', ' ')}" for row in rows)
        return Candidate(
            kind=kind,
            cluster=rows[0]["cluster"],
            namespace=None,
            team=None,
            subject=", ".join(names),
            claims=frozenset((row["cluster"], row["gpu_model"], row["capacity_type"], row["bucket"]) for row in rows),
            start=self.period.start,
            end=self.period.end,
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
        family: str,
        waste: _Part,
        what: str,
        words: str,
        questions: tuple[Question, ...] = (),
        bucket: str = "*",
    ) -> Candidate:
        rows = [self.workloads[key] for key in keys]
        held, active, idle = (sum(row[f"{name}_gpu_ms"] for row in rows) for name in ("held", "active", "idle"))
        busy = sum(row["utilization_gpu_ms"] for row in rows) / (active + idle) if active + idle else None
        begins, ends = min(row["from_ms"] for row in rows), max(row["to_ms"] for row in rows)
        evidence = (
            f"{_hours(waste.gpu_ms):,.1f} of {_hours(held):,.1f} GPU-hours {what}, {self._moment(begins)} to {self._moment(ends)}"
            + (f", {_percent(busy)} busy" if busy is not None else "")
            + (f"; {words}" if words else "")
        )
        return Candidate(
            kind=kind,
            cluster=keys[0][0],
            namespace=keys[0][1],
            team=", ".join(sorted({row["team"] for row in rows if row["team"]})) or None,
            subject=family if len(keys) > 1 else keys[0][2],
            claims=frozenset[Claim]((*key, bucket) for key in keys),
            start=from_ms(begins),
            end=from_ms(ends),
            gpu_hours=_hours(held),
            waste_gpu_hours=_hours(waste.gpu_ms),
            cost=sum((row["cost"] for row in rows), Decimal(0)),
            waste_cost=waste.cost,
            utilization=round(busy, 6) if busy is not None else None,
            evidence=evidence,
            questions=questions,
        )

    def _question(
        self, command: str, keys: list[Key], workloads: tuple[str, ...], options: tuple[tuple[str, str | None], ...] = ()
    ) -> Question:
        cluster, namespace, _ = keys[0]
        return Question(command, cluster if self.many else None, namespace, workloads, options)

    def _moment(self, ms: int) -> str:
        return f"{from_ms(ms).astimezone(self.tz):%Y-%m-%d %H:%M}"


def _key(row: Row) -> Key:
    return row["cluster"], row["namespace"], row["workload"]


def _sum(parts: Iterable[_Part]) -> _Part:
    several = list(parts)
    return _Part(sum(part.gpu_ms for part in several), sum((part.cost for part in several), Decimal(0)))


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
    "fragmentation": ("GPUs too few to use", "pack pods closer, or ask for sizes that fit"),
    "unavailable": ("GPUs that cannot be used", "repair these nodes, or give them back"),
}
_ORDER = list(KINDS)
_SHARED = {field.name for field in fields(Finding)} & {field.name for field in fields(Candidate)}
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
    proposed: list[tuple[Candidate, Answered | None, Decimal]] = []
    for one in candidates:
        answered = (answers[question] for question in one.questions if question in answers)
        best = max(answered, key=lambda answer: answer.saving, default=None)
        proposed.append((one, best, best.saving if best else Decimal(0) if one.questions else one.waste_cost))
    proposed.sort(key=lambda item: (item[0].cluster, item[0].namespace or "", item[0].subject))
    proposed.sort(key=lambda item: (_ORDER.index(item[0].kind), -item[2]))
    taken: set[Claim] = set()
    kept = []
    passed_over = 0
    for one, best, saving in proposed:
        if _meets(one.claims, taken):
            continue
        if saving <= 0 or saving / months < minimum:
            passed_over += saving > 0
            continue
        taken |= one.claims
        kept.append((one, best, saving))
    kept.sort(key=lambda item: -item[2])
    findings = tuple(
        Finding(
            rank=rank,
            title=KINDS[one.kind][0],
            saving=saving,
            saving_per_month=round(saving / months, 9),
            is_bound=best is None,
            command=best.question.words(period) if best else None,
            advice=KINDS[one.kind][1],
            **{name: getattr(one, name) for name in _SHARED} | {"cost": best.cost if best else one.cost},
        )
        for rank, (one, best, saving) in enumerate(kept, start=1)
    )
    return Findings(findings, minimum, passed_over)


def _meets(claims: frozenset[Claim], taken: set[Claim]) -> bool:
    whole = {claim[:3] for claim in taken if claim[3] == _EVERY}
    parts = {claim[:3] for claim in taken}
    return any(claim in taken or claim[:3] in (parts if claim[3] == _EVERY else whole) for claim in claims)
