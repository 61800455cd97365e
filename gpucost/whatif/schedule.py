"""GPUs that are up only when they are needed: idle ones released, empty nodes removed, nights and weekends off."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucost.errors import UsageError
from gpucost.periods import MS_PER_HOUR, Period, local_days, to_ms
from gpucost.whatif.answer import Answer, Assumption, Position, Rows, assumed
from gpucost.whatif.fleet import (
    DAYS,
    GPUS_PER_NODE,
    HOURS_PER_MONTH,
    NOTEBOOKS,
    Fleet,
    Idle,
    Node,
    Pod,
    Price,
    PricePer,
    Scenario,
    Span,
    days_counted,
    is_batch,
    is_notebook,
    node_price,
    uniform,
)

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOURS = re.compile(r"(\d{1,2}):(\d\d)-(\d{1,2}):(\d\d)")
HOURS_PER_WEEK = 168


@dataclass(frozen=True, slots=True)
class OfficeHours:
    """Minutes of the local day [opens, closes), on `weekdays` (0 is Monday). Closing before opening runs into the next day."""

    opens: int
    closes: int
    weekdays: frozenset[int]

    @classmethod
    def parse(cls, hours: str, weekdays: str) -> OfficeHours:
        """Of `08:00-18:00` and `mon-fri` or `mon,wed,sat`. Raises UsageError."""
        found = _HOURS.fullmatch(hours.strip())
        if not found:
            raise UsageError(f"--office-hours {hours!r} cannot be read", "write them as 08:00-18:00")
        first, first_minutes, last, last_minutes = map(int, found.groups())
        opens, closes = first * 60 + first_minutes, last * 60 + last_minutes
        if max(first_minutes, last_minutes) > 59 or opens > 1439 or closes > 1440 or opens == closes:
            raise UsageError(f"--office-hours {hours!r} are no hours of a day", "write them as 08:00-18:00, up to 24:00")
        return cls(opens, closes, _weekdays(weekdays))

    @property
    def hours_per_day(self) -> float:
        return ((self.closes - self.opens) % 1440 or 1440) / 60

    @property
    def share_of_week(self) -> float:
        """Of all hours, 0-1."""
        return self.hours_per_day * len(self.weekdays) / HOURS_PER_WEEK

    def spans(self, period: Period, tz: ZoneInfo) -> list[Span]:
        """The stretches of the period in which the office is open, in milliseconds, in order."""
        wider = Period(period.start - timedelta(days=1), period.end)
        spans = []
        for day in local_days(wider, tz):
            if day.weekday() not in self.weekdays:
                continue
            closing = day if self.closes > self.opens else day + timedelta(days=1)
            at = [to_ms(_local(on, minute, tz)) for on, minute in ((day, self.opens), (closing, self.closes))]
            span = (max(at[0], period.start_ms), min(at[1], period.end_ms))
            if span[0] < span[1]:
                spans.append(span)
        return spans


def _local(day: date, minute: int, tz: ZoneInfo) -> datetime:
    # 24:00 is the next day's midnight
    return datetime.combine(day + timedelta(days=minute // 1440), time(minute % 1440 // 60, minute % 60), tz).astimezone(UTC)


def _weekdays(text: str) -> frozenset[int]:
    chosen: set[int] = set()
    for part in text.lower().replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        if first not in _DAYS or (dash and last not in _DAYS):
            raise UsageError(f"--weekdays {text!r} cannot be read", "write them as mon-fri or mon,wed,sat")
        begin = _DAYS.index(first)
        length = (_DAYS.index(last) - begin) % 7 + 1 if dash else 1
        chosen |= {(begin + step) % 7 for step in range(length)}
    return frozenset(chosen)


def intersect(spans: list[Span], others: list[Span]) -> list[Span]:
    """What lies in both; each list in order and without overlaps."""
    both, i, j = [], 0, 0
    while i < len(spans) and j < len(others):
        begin, end = max(spans[i][0], others[j][0]), min(spans[i][1], others[j][1])
        if begin < end:
            both.append((begin, end))
        if spans[i][1] < others[j][1]:
            i += 1
        else:
            j += 1
    return both


def subtract(spans: list[Span], others: list[Span]) -> list[Span]:
    """What of `spans` lies in none of `others`; each list in order and without overlaps."""
    left: list[Span] = []
    for begin, end in spans:
        at = begin
        for start, stop in others:
            if stop <= at or start >= end:
                continue
            if start > at:
                left.append((at, start))
            at = max(at, stop)
        if at < end:
            left.append((at, end))
    return left


def total_hours(spans: list[Span]) -> float:
    """Hours that the spans last together."""
    return sum(end - begin for begin, end in spans) / MS_PER_HOUR


MS_PER_MINUTE = 60_000


@dataclass(frozen=True, slots=True)
class Rules:
    """Minutes throughout; None: that rule does not hold. `notebooks` are globs on workloads and namespaces.

    `idle_minutes` releases any pod, `notebook_idle_minutes` notebooks (whichever is shorter for them). `office` are the open
    stretches of the period, which hold for all but batch work: that ends by itself.
    """

    idle_minutes: float | None = None
    notebook_idle_minutes: float | None = None
    notebooks: tuple[str, ...] = NOTEBOOKS
    office: tuple[Span, ...] | None = None
    empty_minutes: float = 10.0
    provision_minutes: float = 5.0
    restart_minutes: float = 2.0

    def patience_ms(self, pod: Pod) -> int | None:
        """How long the pod may be idle; None: as long as it likes."""
        limits = [self.idle_minutes]
        if is_notebook(pod, self.notebooks):
            limits.append(self.notebook_idle_minutes)
        given = [limit for limit in limits if limit is not None]
        return round(min(given) * MS_PER_MINUTE) if given else None

    @property
    def shortest_idle_ms(self) -> int:
        """Idle stretches under this change nothing."""
        given = [limit for limit in (self.idle_minutes, self.notebook_idle_minutes) if limit is not None]
        return round(min(given) * MS_PER_MINUTE) if given else 0


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch in which a pod holds its GPUs; `returns` where it had them released before."""

    pod: Pod
    from_ms: int
    to_ms: int
    returns: bool


def pieces(pod: Pod, rules: Rules, idle: Collection[Span]) -> list[Piece]:
    """The stretches that the rules leave the pod; a whole one where none of them touches it."""
    spans: list[Span] = [(pod.from_ms, pod.to_ms)]
    if rules.office is not None and not is_batch(pod):
        spans = intersect(spans, list(rules.office))
    patience = rules.patience_ms(pod)
    if patience is not None:
        spans = subtract(spans, [(begin + patience, end) for begin, end in idle if end - begin > patience])
    return [Piece(pod, begin, end, begin > pod.from_ms) for begin, end in spans]


# capacity that is paid whether its nodes are up or not
PAID_ANYWAY = ("reserved", "capacity_block")
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Wait:
    """How long somebody who needed a GPU had to wait for it."""

    pod: Pod
    at_ms: int
    hours: float


@dataclass(frozen=True, slots=True)
class Replay:
    """The fleet as the schedule leaves it, the waits that it causes, in order of time, and what pods hold of their time."""

    fleet: Fleet
    waits: tuple[Wait, ...]
    kept: tuple[Piece, ...]


def replay(fleet: Fleet, kept: Iterable[Piece], rules: Rules, *, remove_nodes: bool) -> Replay:
    """What becomes of `fleet` when its pods hold GPUs only in the pieces kept.

    A node is removed after `empty_minutes` without a pod, and provisioned again, which is paid too, when the next piece begins.
    Batch work that waited ends so much later; everything else ends when it did. Pods return to the node they had.
    """
    by_node: dict[tuple[str, str], list[Piece]] = defaultdict(list)
    for piece in (kept := tuple(kept)):
        by_node[piece.pod.cluster, piece.pod.node].append(piece)
    nodes: list[Node] = []
    pods: list[Pod] = []
    waits: list[Wait] = []
    for node in fleet.nodes:
        lives = _Lives(node, rules, removable=remove_nodes and node.capacity_type not in PAID_ANYWAY)
        for piece in sorted(by_node[node.cluster, node.name], key=lambda p: (p.from_ms, p.to_ms, p.pod.uid)):
            lives.place(piece)
        nodes += lives.nodes()
        pods += lives.pods
        waits += lives.waits
    waits.sort(key=lambda wait: (wait.at_ms, wait.pod.uid))
    return Replay(Fleet(tuple(nodes), tuple(pods)), tuple(waits), kept)


class _Lives:
    """One node's lives: stretches in which it is up."""

    def __init__(self, node: Node, rules: Rules, *, removable: bool) -> None:
        self.node = node
        self.removable = removable
        self.provision_ms = round(rules.provision_minutes * MS_PER_MINUTE)
        self.empty_ms = round(rules.empty_minutes * MS_PER_MINUTE)
        self.restart_ms = round(rules.restart_minutes * MS_PER_MINUTE)
        self.spans: list[list[int]] = [[node.from_ms, self._removed(node.from_ms)]]
        self.ready_ms = node.from_ms
        self.running: list[tuple[int, float]] = []  # (end, GPUs)
        self.ends: dict[str, int] = {}
        self.pods: list[Pod] = []
        self.waits: list[Wait] = []

    def place(self, piece: Piece) -> None:
        """Let the piece begin as soon as the node, its GPUs and the pod itself are there."""
        self.running = [held for held in self.running if held[0] > piece.from_ms]
        asked = max(piece.from_ms, self.ends.get(piece.pod.uid, 0))
        if self.removable and asked >= self.spans[-1][1]:
            self.spans.append([asked, asked])
            self.ready_ms = asked + self.provision_ms
        begin = self._free_at(max(asked, self.ready_ms), piece.pod.gpus)
        delay = begin - piece.from_ms + (self.restart_ms if piece.returns else 0)
        end = piece.to_ms + delay if is_batch(piece.pod) else max(piece.to_ms, begin)
        if delay > 0:
            self.waits.append(Wait(piece.pod, piece.from_ms, delay / MS_PER_HOUR))
        if begin < end:
            uid = piece.pod.uid if piece.from_ms == piece.pod.from_ms else f"{piece.pod.uid}@{piece.from_ms}"
            self.pods.append(replace(piece.pod, node=self._name(len(self.spans)), from_ms=begin, to_ms=end, uid=uid))
            self.running.append((end, piece.pod.gpus))
            self.ends[piece.pod.uid] = end
        self.spans[-1][1] = max(self.spans[-1][1], self._removed(max(end, begin)))

    def nodes(self) -> list[Node]:
        """The node's lives as nodes of their own."""
        return [
            replace(self.node, name=self._name(number), from_ms=begin, to_ms=end)
            for number, (begin, end) in enumerate(self.spans, start=1)
            if begin < end
        ]

    def _name(self, number: int) -> str:
        return self.node.name if number == 1 else f"{self.node.name}@{number}"

    def _removed(self, empty_from_ms: int) -> int:
        """When the node goes that is empty from then on: never later than it really did, unless work moved past that."""
        if not self.removable:
            return max(self.node.to_ms, empty_from_ms)
        return max(empty_from_ms, min(empty_from_ms + self.empty_ms, self.node.to_ms))

    def _free_at(self, begin: int, gpus: float) -> int:
        """The first moment from `begin` on with so many GPUs free. What was placed already holds its own until it ends."""
        # until something was put off nothing meets that did not: what held more than the node has goes on doing so
        if not self.waits:
            return begin
        ends = sorted(held for held in self.running if held[0] > begin)
        taken = sum(held for _, held in ends)
        for end, freed in ends:
            if taken + gpus <= self.node.gpus + _ROUNDING:
                break
            begin, taken = end, taken - freed
        return begin


_WORKLOADS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """`is_narrowed`: only some of the nodes' pods are asked about, so that no node can be told to be empty.

    Of a described fleet, one node stands for `nodes` equal ones, and it saves while a node is needed for `break_even_hours`.
    """

    rules: Rules
    currency: str
    period: str
    scope: str
    is_narrowed: bool = False
    given: frozenset[str] = field(default_factory=frozenset)
    nodes: int = 1
    break_even_hours: float | None = None
    break_even: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()


def played(options: ScheduleOptions, fleet: Fleet, idle: Idle) -> Replay:
    """The fleet under the rules."""
    kept = [piece for pod in fleet.pods for piece in pieces(pod, options.rules, idle.get((pod.cluster, pod.uid), ()))]
    return replay(fleet, kept, options.rules, remove_nodes=not options.is_narrowed)


def answer(options: ScheduleOptions, fleet: Fleet, then: Replay, idle: Idle) -> Scenario[Answer]:
    """What the schedule saves in the period, and whom it makes wait."""
    is_described, times = bool(options.assumptions), options.nodes
    fleets = (fleet, then.fleet)
    costs = yield fleets
    today, scenario = (
        (Position.held(one, options.currency, of) if options.is_narrowed else Position.of(one, options.currency)) * times
        for of, one in zip(fleets, costs, strict=True)
    )
    hours = [wait.hours for wait in then.waits]
    waited, longest, saving = sum(hours) * times, max(hours, default=0.0) * 60, today.cost - scenario.cost
    released = _held_hours(fleet.pods) - sum((p.to_ms - p.from_ms) * p.pod.gpus for p in then.kept) / MS_PER_HOUR
    cut = _busy_hours_cut(fleet, options.rules, idle)
    return Answer(
        kind="schedule",
        title=f"A schedule for {options.scope}",
        period=options.period,
        today=today,
        scenario=scenario,
        figures={
            "released_gpu_hours": round(released * times, 6),
            "removed_node_hours": None if options.is_narrowed else round(today.node_hours - scenario.node_hours, 6),
            "waits": len(hours) * times,
            "wait_hours": round(waited, 6),
            "longest_wait_minutes": round(longest, 6),
            "busy_gpu_hours_outside_office_hours": None if cut is None else round(cut, 6),
            "break_even_hours": options.break_even_hours,
            "break_even_cost_per_wait_hour": _per_hour(saving, waited),
        },
        assumptions=options.assumptions or _assumptions(options),
        break_even=options.break_even or _break_even(saving, waited, options.currency),
        time=_time(then.waits, cut, times, is_described=is_described),
        findings=_findings(options, fleet, then.kept, idle),
        tables=() if is_described else tuple(_tables(fleet, then.kept, then.waits)),
    )


def described(
    *,
    on_demand_price: Decimal | None,
    spot_price: Decimal | None,
    price_per: PricePer,
    nodes: int | None,
    gpus: int | None,
    hours: float | None,
    active_hours_per_day: float | None,
    days: int | None,
    provision_minutes: float | None,
    office: OfficeHours | None,
    currency: str,
) -> tuple[ScheduleOptions, Fleet, Replay]:
    """One of the nodes that options describe, always on, and the same up when needed, at the spot price where one is given.

    Raises UsageError where options do not say enough, or contradict.
    """
    if on_demand_price is None:
        raise UsageError("what a node costs now is not told", "--on-demand-price 32.77 tells it, per hour")
    if (active_hours_per_day is None) == (office is None):
        raise UsageError(
            "the hours that nodes are needed are told twice" if office else "the hours that nodes are needed are not told",
            "either --active-hours-per-day 10 or --office-hours 08:00-18:00 tells them",
        )
    count, per_node = nodes or 1, gpus or GPUS_PER_NODE
    counted = days_counted(days, active_hours_per_day)
    # more days than a month has are all of them today
    longest = max(HOURS_PER_MONTH, 24 * counted) if counted > DAYS else HOURS_PER_MONTH
    always = longest if hours is None else hours
    assumptions = [
        Assumption("on-demand price", on_demand_price, f"per {price_per}-hour", "option"),
        assumed("always on", always, "hours", hours),
        assumed("nodes", count, "nodes", nodes),
        assumed("GPUs of a node", per_node, "GPUs", gpus),
    ]
    if spot_price is not None:
        assumptions.append(Assumption("spot price", spot_price, f"per {price_per}-hour", "option"))
    if office is not None:
        active, starts = always * office.share_of_week, round(always / HOURS_PER_WEEK * len(office.weekdays))
        assumptions.append(Assumption("office hours", round(active, 4), f"of {always:g} hours", "option"))
    else:
        active, starts = (active_hours_per_day or 0.0) * counted, counted
        assumptions.append(Assumption("needed", active_hours_per_day, "hours a day", "option"))
        assumptions.append(assumed("days", counted, "days", days))
        if active > always:
            raise UsageError(
                f"{active_hours_per_day:g} hours on {counted} days are {active:g}, more than the {always:g} that nodes are on",
                "--hours says how long nodes are on today, --days how many days are counted",
            )
    wait = (provision_minutes or 0.0) / 60
    assumptions.append(assumed("a node is provisioned in", provision_minutes or 0.0, "minutes", provision_minutes))
    price, then = (node_price(each, price_per, per_node) for each in (on_demand_price, spot_price or on_demand_price))
    even = float(price / then) * always
    limit = f"{even:,.1f} of {always:,.1f} hours." if even < always else f"all of the {always:,.1f} hours"
    more = "" if even < always else ", and even then, as spot is cheaper." if even > always else "."
    fleet = uniform("nodes", nodes=1, gpus_per_node=per_node, hours=always, price=Price(price, "option"))
    scenario = uniform(
        "nodes",
        nodes=1,
        gpus_per_node=per_node,
        hours=min(active + starts * wait, always),
        price=Price(then, "option"),
        capacity_type="spot" if spot_price else "on_demand",
    )
    pod = fleet.pods[0]
    options = ScheduleOptions(
        Rules(),
        currency,
        f"{always:g} hours",
        f"{count:,} node(s) scaled to zero",
        nodes=count,
        break_even_hours=round(min(even, always), 6),
        break_even=(f"It saves as long as a node is needed less than {limit}{more}",),
        assumptions=tuple(assumptions),
    )
    waits = (Wait(pod, 0, wait),) * starts if wait else ()
    return options, fleet, Replay(scenario, waits, (Piece(pod, 0, round(active * MS_PER_HOUR), False),))


def _held_hours(pods: tuple[Pod, ...]) -> float:
    return sum((pod.to_ms - pod.from_ms) * pod.gpus for pod in pods) / MS_PER_HOUR


def _busy_hours_cut(fleet: Fleet, rules: Rules, idle: Idle) -> float | None:
    """GPU-hours outside of office hours in which pods were not idle: work that would move, or not be done."""
    if rules.office is None:
        return None
    closed = 0.0
    for pod in fleet.pods:
        if not is_batch(pod):
            outside = subtract([(pod.from_ms, pod.to_ms)], list(rules.office))
            closed += total_hours(subtract(outside, list(idle.get((pod.cluster, pod.uid), ())))) * pod.gpus
    return closed


def _per_hour(saving: Decimal, hours: float) -> Decimal | None:
    return round(saving / Decimal(str(hours)), 6) if hours > 0 and saving > 0 else None


def _break_even(saving: Decimal, hours: float, currency: str) -> tuple[str, ...]:
    if saving <= 0:
        return ("These rules save nothing here: nodes were not empty, and GPUs not idle, for long enough.",)
    each = _per_hour(saving, hours)
    if each is None:
        return ("Nobody would have waited: nothing but a change of usage breaks it.",)
    return (f"It pays as long as an hour that somebody waits is worth less than {each:,.2f} {currency}.",)


def _time(waits: tuple[Wait, ...], cut: float | None, times: int, *, is_described: bool) -> tuple[str, ...]:
    hours = [wait.hours for wait in waits]
    if hours:
        total = f"{len(hours) * times:,} waits of {sum(hours) * times:,.1f} hours in all"
        sentences = [f"{total}, the longest {max(hours) * 60:,.1f} minutes."]
        if any(is_batch(wait.pod) for wait in waits):
            sentences.append("Batch work that waited ends so much later; its later end is counted in the cost.")
    elif is_described:
        sentences = ["Provisioning is not counted: --provision-minutes says how long a node takes to come up, each day."]
    else:
        sentences = ["Nobody would have waited."]
    if cut is not None:
        sentences.append(f"{cut:,.1f} GPU-hours outside of office hours were busy or not measured: that work would have to move.")
    return tuple(sentences)


def _findings(options: ScheduleOptions, fleet: Fleet, kept: Sequence[Piece], idle: Idle) -> tuple[str, ...]:
    told = []
    if options.is_narrowed:
        told.append(
            "Counted are the GPUs of these pods alone, at their share of their nodes: money is saved once others use what is "
            "released, or the nodes go. Empty nodes are removed in the question about the whole fleet or a cluster."
        )
    batch = {piece.pod.uid for piece in kept if piece.returns and is_batch(piece.pod)}
    if batch:
        told.append(f"{len(batch)} batch pods would lose their GPUs while idle: they need checkpoints to go on from.")
    judged = [pod for pod in fleet.pods if options.rules.patience_ms(pod) is not None]
    if judged and not any((pod.cluster, pod.uid) in idle for pod in judged):
        told.append(
            "None of these pods was measured idle for so long; GPUs that no exporter labels with their pod are never released."
        )
    reserved = sum(node.capacity_type in PAID_ANYWAY for node in fleet.nodes)
    if reserved and not options.is_narrowed:
        told.append(f"{reserved} nodes in reservations or capacity blocks stay: they are paid whether they are up or not.")
    return tuple(told)


def _assumptions(options: ScheduleOptions) -> tuple[Assumption, ...]:
    rules = options.rules

    def told(name: str, option: str, value: float | None) -> list[Assumption]:
        source = "option" if option in options.given else "default"
        return [] if value is None else [Assumption(name, value, "minutes", source)]

    lines = [
        *told("a GPU is released when idle for", "idle_minutes", rules.idle_minutes),
        *told("a notebook's GPU is released when idle for", "notebook_idle_minutes", rules.notebook_idle_minutes),
        *told("a released pod comes back in", "restart_minutes", rules.restart_minutes),
    ]
    if not options.is_narrowed:
        lines += told("a node is removed when empty for", "empty_minutes", rules.empty_minutes)
        lines += told("a node is provisioned in", "provision_minutes", rules.provision_minutes)
    if rules.office is not None:
        lines.append(Assumption("office hours in the period", round(total_hours(list(rules.office)), 2), "hours", "option"))
    lines += [
        Assumption("notebooks", ", ".join(rules.notebooks), "globs", "option" if "notebooks" in options.given else "default"),
        Assumption("usage, idleness and prices", options.period, "", "store"),
    ]
    return tuple(lines)


def _tables(fleet: Fleet, kept: Sequence[Piece], waits: tuple[Wait, ...]) -> list[Rows]:
    held: dict[str, float] = defaultdict(float)
    left: dict[str, float] = defaultdict(float)
    for pod in fleet.pods:
        held[pod.workload] += (pod.to_ms - pod.from_ms) * pod.gpus / MS_PER_HOUR
    for piece in kept:
        left[piece.pod.workload] += (piece.to_ms - piece.from_ms) * piece.pod.gpus / MS_PER_HOUR
    waited: dict[str, list[float]] = defaultdict(list)
    for wait in waits:
        waited[wait.pod.workload].append(wait.hours)
    lines = [
        (
            workload,
            round(hours, 2),
            round(hours - left[workload], 2),
            len(waited[workload]),
            round(max(waited[workload], default=0.0) * 60, 1),
        )
        for workload, hours in held.items()
        if hours - left[workload] > 0 or waited[workload]
    ]
    lines.sort(key=lambda line: (-line[2], -line[3], line[0]))
    hidden = len(lines) - _WORKLOADS_SHOWN
    if not lines:
        return []
    columns = ("workload", "held_gpu_hours", "released_gpu_hours", "waits", "longest_wait_minutes")
    note = f"{hidden} more workloads are touched." if hidden > 0 else None
    return [Rows("Whom it touches", columns, tuple(lines[:_WORKLOADS_SHOWN]), note)]
