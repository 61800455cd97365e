"""GPUs that are up only when they are needed: idle ones released, empty nodes removed, nights and weekends off."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain
from typing import Annotated, NamedTuple
from zoneinfo import ZoneInfo

from gpucost.errors import UsageError
from gpucost.options import Option, OptionGroup
from gpucost.periods import MS_PER_HOUR, Period, Span, intersect, local_days, merge, subtract, to_ms
from gpucost.records import grouped, record
from gpucost.whatif import flags
from gpucost.whatif.answer import Answer, Assumption, Position, Rows, assumed, stated, today_of
from gpucost.whatif.avoidable import why_not
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.flags import (
    DAYS,
    GPUS_PER_NODE,
    HOURS_PER_MONTH,
    PROVISION_MINUTES,
    START_MINUTES,
    START_SOURCE,
    PricePer,
    days_counted,
    node_price,
    to_decimal,
)
from gpucost.whatif.fleet import (
    NOTEBOOKS,
    Fleet,
    Idle,
    Node,
    Pod,
    Price,
    Usage,
    Workload,
    is_batch,
    is_notebook,
    one_node,
)
from gpucost.whatif.packing import Saved

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOURS = re.compile(r"(\d{1,2}):(\d\d)-(\d{1,2}):(\d\d)")
HOURS_PER_WEEK = 168


@record
class OfficeHours:
    """Minutes of the local day [opens, closes), on `weekdays` (0 is Monday). Closing before opening runs into the next day."""

    opens: int
    closes: int
    weekdays: frozenset[int]

    @classmethod
    def parse(cls, hours: str, weekdays: str) -> OfficeHours:
        """Of `08:00-18:00` and `mon-fri` or `mon,wed,sat`. Raises UsageError."""
        match = _HOURS.fullmatch(hours.strip())
        first, first_minutes, last, last_minutes = map(int, match.groups()) if match else (24, 0, 24, 0)
        opens, closes = first * 60 + first_minutes, last * 60 + last_minutes
        if max(first_minutes, last_minutes) > 59 or opens > 1439 or closes > 1440 or opens == closes:
            raise UsageError(
                f"--office-hours {hours!r} are no hours of a day", "write them as 08:00-18:00, up to 24:00"
            )
        return cls(opens, closes, _weekdays(weekdays))

    @property
    def minutes_per_day(self) -> int:
        return (self.closes - self.opens) % 1440 or 1440

    def spans(self, period: Period, tz: ZoneInfo) -> list[Span]:
        """The stretches of the period in which the office is open, in milliseconds, in order."""

        def at(day: date, minute: int) -> int:
            return to_ms(datetime.combine(day, time(), tz) + timedelta(minutes=minute))

        closes = self.opens + self.minutes_per_day
        wider = Period(period.start - timedelta(days=1), period.end)
        days = [day for day in local_days(wider, tz) if day.weekday() in self.weekdays]
        return intersect(
            [(at(day, self.opens), at(day, closes)) for day in days], [(period.start_ms, period.end_ms)]
        )


def _weekdays(text: str) -> frozenset[int]:
    chosen: set[int] = set()
    for part in text.lower().replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        if not {first, last if dash else first} <= set(_DAYS):
            raise UsageError(f"--weekdays {text!r} cannot be read", "write them as mon-fri or mon,wed,sat")
        begin = _DAYS.index(first)
        length = (_DAYS.index(last) - begin) % 7 + 1 if dash else 1
        chosen |= {(begin + step) % 7 for step in range(length)}
    return frozenset(chosen)


def total_hours(spans: Iterable[Span]) -> float:
    """Hours that the spans last together."""
    return sum(end - begin for begin, end in spans) / MS_PER_HOUR


MS_PER_MINUTE = 60_000
# Epoch hours in which workloads counted no request; those of other workloads and hours are not known, or had some.
Quiet = Mapping[Workload, Collection[int]]


@record
class Rules(OptionGroup):
    """Minutes throughout; None: that rule does not hold. `notebooks` are globs on workloads and namespaces.

    `idle_minutes` releases any pod, `notebook_idle_minutes` notebooks (whichever is shorter for them). `office` are the open
    stretches of the period, which hold for all but batch work: that ends by itself.
    """

    idle_minutes: Annotated[
        float | None,
        Option(
            "Release any pod's GPUs once all were idle for so long.",
            above=True,
            says="a GPU is released when idle for",
            unit="minutes",
        ),
    ] = None
    notebook_idle_minutes: Annotated[
        float | None,
        Option(
            "Release a notebook's GPUs once all were idle for so long; 60 where no rule is given.",
            above=True,
            says="a notebook's GPU is released when idle for",
            unit="minutes",
        ),
    ] = None
    notebooks: Annotated[
        tuple[str, ...],
        Option("Workloads or namespaces that are notebooks; repeatable.", "GLOB", flag="--notebook"),
    ] = NOTEBOOKS
    office: tuple[Span, ...] | None = None
    empty_minutes: Annotated[
        float,
        Option(
            "Remove a node once it was empty for so long. Default: 10.",
            says="a node is removed when empty for",
            unit="minutes",
        ),
    ] = 10.0
    provision_minutes: Annotated[
        float,
        Option(
            "A node comes up in so long. Default: 5; by options alone 0.",
            says="a node is provisioned in",
            unit="minutes",
            source=START_SOURCE,
        ),
    ] = PROVISION_MINUTES
    restart_minutes: Annotated[
        float,
        Option(
            "A released pod is back in so long: image, weights. Default: 7.",
            says="a released pod comes back in",
            unit="minutes",
            source=START_SOURCE,
        ),
    ] = START_MINUTES - PROVISION_MINUTES

    def patience_ms(self, pod: Pod | None = None) -> int | None:
        """How long the pod may be idle, without one any pod; None: as long as it likes."""
        of_notebooks = pod is None or is_notebook(pod, self.notebooks)
        limits = (self.idle_minutes, self.notebook_idle_minutes if of_notebooks else None)
        return min((round(limit * MS_PER_MINUTE) for limit in limits if limit is not None), default=None)

    def kept(self, pod: Pod, idle: Iterable[Span]) -> list[Span]:
        """The stretches that the rules leave the pod; its whole life if none of them touches it."""
        spans: list[Span] = [(pod.from_ms, pod.to_ms)]
        if self.office is not None and not is_batch(pod):
            spans = intersect(spans, self.office)
        patience = self.patience_ms(pod)
        if patience is not None:
            spans = subtract(
                spans, [(begin + patience, end) for begin, end in idle if end - begin > patience]
            )
        return spans


@record
class Piece:
    """A stretch in which a pod holds its GPUs."""

    pod: Pod
    from_ms: int
    to_ms: int

    @property
    def gpu_ms(self) -> float:
        return (self.to_ms - self.from_ms) * self.pod.gpus

    @property
    def returns(self) -> bool:
        """Whether the pod had its GPUs released before."""
        return self.from_ms > self.pod.from_ms


def _whole(pods: Iterable[Pod]) -> list[Piece]:
    return [Piece(pod, pod.from_ms, pod.to_ms) for pod in pods]


_ROUNDING = 1e-6


class Wait(NamedTuple):
    """How long somebody who needed a GPU had to wait for it."""

    pod: Pod
    hours: float


class Replay(NamedTuple):
    """The fleet as the schedule leaves it, the waits that it causes, and what pods hold of their time."""

    fleet: Fleet
    waits: tuple[Wait, ...]
    kept: tuple[Piece, ...]


def replay(fleet: Fleet, kept: Iterable[Piece], rules: Rules) -> Replay:
    """What becomes of `fleet` when its pods hold GPUs only in the pieces kept.

    A node is removed after `empty_minutes` without a pod, and provisioned again, which is paid too, when the next piece begins.
    Batch work that waited ends so much later; everything else ends when it did. Pods return to the node they had.
    """
    kept = tuple(kept)
    by_node = grouped((piece.pod.place, piece) for piece in kept)
    parts = [_lives(node, by_node[node.key], rules) for node in fleet.nodes]
    nodes = chain.from_iterable(lives.nodes for lives, _ in parts)
    pods = chain.from_iterable(lives.pods for lives, _ in parts)
    waits = chain.from_iterable(delays for _, delays in parts)
    return Replay(Fleet(tuple(nodes), tuple(pods)), tuple(waits), kept)


def _lives(node: Node, kept: Iterable[Piece], rules: Rules) -> tuple[Fleet, list[Wait]]:
    """One node's lives, as nodes of their own: each piece begins as soon as the node, its GPUs and the pod itself are there."""
    removable = not _why_it_stays(node)
    minutes = (rules.provision_minutes, rules.empty_minutes, rules.restart_minutes)
    provision_ms, empty_ms, restart_ms = (round(each * MS_PER_MINUTE) for each in minutes)

    def removed(empty_from_ms: int) -> int:
        """When the node goes that is empty from then on: never later than it really did, unless work moved past that."""
        return max(empty_from_ms, min(empty_from_ms + empty_ms, node.to_ms) if removable else node.to_ms)

    lives, ready_ms = [replace(node, to_ms=removed(node.from_ms))], node.from_ms
    running: list[tuple[int, float]] = []  # (end, GPUs)
    ends: dict[str, int] = {}
    pods: list[Pod] = []
    waits: list[Wait] = []
    for piece in sorted(kept, key=lambda p: (p.from_ms, p.to_ms, p.pod.uid)):
        pod = piece.pod
        running = [held for held in running if held[0] > piece.from_ms]
        begin = max(piece.from_ms, ends.get(pod.uid, 0))
        if removable and begin >= lives[-1].to_ms:
            lives.append(replace(node, name=f"{node.name}@{len(lives) + 1}", from_ms=begin, to_ms=begin))
            ready_ms = begin + provision_ms
        begin = max(begin, ready_ms)
        # until something was put off nothing meets that did not: what held more than the node has goes on doing so
        if waits:
            begin = _free_at(begin, node.gpus - pod.gpus, running)
        delay = begin - piece.from_ms + (restart_ms if piece.returns else 0)
        end = piece.to_ms + delay if is_batch(pod) else max(piece.to_ms, begin)
        if delay > 0:
            waits.append(Wait(pod, delay / MS_PER_HOUR))
        if begin < end:
            uid = pod.uid if piece.from_ms == pod.from_ms else f"{pod.uid}@{piece.from_ms}"
            pods.append(replace(pod, node=lives[-1].name, from_ms=begin, to_ms=end, uid=uid))
            running.append((end, pod.gpus))
            ends[pod.uid] = end
        lives[-1] = replace(lives[-1], to_ms=max(lives[-1].to_ms, removed(max(end, begin))))
    return Fleet(tuple(life for life in lives if life.length_ms > 0), tuple(pods)), waits


def _free_at(begin: int, gpus: float, running: Iterable[tuple[int, float]]) -> int:
    """The first moment from `begin` on when what runs (until when, on how many GPUs) holds no more than `gpus`."""
    ends = sorted(held for held in running if held[0] > begin)
    taken = sum(held for _, held in ends)
    for end, freed in ends:
        if taken <= gpus + _ROUNDING:
            break
        begin, taken = end, taken - freed
    return begin


@record
class DescribedNodes(OptionGroup):
    """Nodes that options describe, equal and always on, and when they are needed."""

    on_demand_price: flags.OnDemandPrice | None = None
    spot_price: flags.SpotPrice | None = None
    price_per: flags.Per = PricePer.node
    nodes: flags.Nodes = 1
    gpus: flags.Gpus = GPUS_PER_NODE
    hours: flags.Hours | None = None
    active_hours_per_day: flags.ActiveHours | None = None
    days: flags.Days | None = None


def played(usage: Usage, rules: Rules, idle: Idle, quiet: Quiet) -> tuple[Replay, Replay]:
    """The fleet under the rules, and the same with every pod whole; empty nodes are removed in both.

    Other pods on the nodes of selected ones are whole in both: the difference is due to the selected ones alone.
    """
    pods = usage.fleet.pods
    replicas = _replicas(pods)
    kept: list[Piece] = []
    for pod in pods:
        spans = rules.kept(pod, idle.get(pod.key, ()))
        if pod in replicas:
            hours = [(hour * MS_PER_HOUR, (hour + 1) * MS_PER_HOUR) for hour in quiet.get(pod.owner, ())]
            spans = merge([*spans, *subtract([(pod.from_ms, pod.to_ms)], hours)])
        kept += [Piece(pod, begin, end) for begin, end in spans]
    others = _whole(usage.others)
    then, before = (replay(usage.fleet, [*own, *others], rules) for own in (kept, _whole(pods)))
    selected = set(pods)
    waits = tuple(wait for wait in then.waits if wait.pod in selected)
    return Replay(then.fleet, waits, tuple(kept)), before


def _replicas(pods: Iterable[Pod]) -> set[Pod]:
    """Pods of services that stay, so that one replica answers at any time: as few as cover the service's life."""
    kept: set[Pod] = set()
    services = grouped((pod.owner, pod) for pod in pods if pod.workload_type == "inference")
    for several in services.values():
        until, last = -1, None
        for pod in sorted(several, key=lambda pod: (pod.from_ms, -pod.to_ms)):
            if pod.from_ms > until and last is not None:
                kept.add(last)
                until, last = last.to_ms, None
            if pod.to_ms > until and (last is None or pod.to_ms > last.to_ms):
                last = pod
        if last is not None:
            kept.add(last)
    return kept


class _Outcome(NamedTuple):
    """What a schedule saves; hours of GPUs that are released, and of these on nodes that stay; and waits."""

    today: Position
    scenario: Position
    saved: Saved
    released_gpu_hours: float
    freed_gpu_hours: float
    waits: int
    wait_hours: float
    longest_minutes: float

    @property
    def cost_per_wait_hour(self) -> Decimal | None:
        """The saving for each hour of waiting; None if nothing is saved, or there are no waits."""
        if not self.wait_hours or self.saved.cash <= 0:
            return None
        return round(self.saved.cash / to_decimal(self.wait_hours), 6)


def _outcome(usage: Usage, then: Replay, before: Replay) -> _Outcome:
    """`before` is the fleet with every pod whole and empty nodes removed."""
    now, whole, after = map(fleet_costs, (usage.fleet, before.fleet, then.fleet))
    today, times = today_of(usage, now, is_held=usage.is_narrowed), usage.times
    # options describe nodes that leave the bill
    from_now, from_whole = (
        costs.node_cost - after.node_cost
        if usage.is_described
        else usage.commitments.between(fleet, then.fleet)
        for costs, fleet in ((now, usage.fleet), (whole, before.fleet))
    )
    less = whole.cost - after.cost
    if usage.is_narrowed:
        # the rest of a node that goes was unallocated: it is not the cost of the selected pods
        start, found = whole, Saved.of(less, from_whole)
    else:
        start, found = now, Saved(from_now * times, max(less - from_whole, Decimal(0)))
    scenario = replace(
        today,
        cost=today.cost - found.cash,
        gpu_hours=round(today.gpu_hours + (after.gpu_hours - start.gpu_hours) * times, 9),
        node_hours=round(today.node_hours + (after.node_hours - start.node_hours) * times, 9),
    )
    released = _held_hours(usage.fleet.pods) - _held_hours(then.kept)
    stays = max(0.0, released - (whole.gpu_hours - after.gpu_hours))
    hours = [wait.hours for wait in then.waits]
    waits = (len(hours) * times, sum(hours) * times, max(hours, default=0.0) * 60)
    return _Outcome(today, scenario, found, released * times, stays, *waits)


def _held_hours(held: Iterable[Pod | Piece]) -> float:
    """GPU-hours."""
    return sum(each.gpu_ms for each in held) / MS_PER_HOUR


def answer(
    usage: Usage,
    rules: Rules,
    then: Replay,
    idle: Idle,
    before: Replay,
    even: tuple[float, str] | None = None,
) -> Answer:
    """What the schedule saves in the period, and whose work waits.

    `even`: of a described fleet, the hours that a node must be needed to save nothing, and that in words.
    """
    found = _outcome(usage, then, before)
    outside = None
    if rules.office is not None:
        # busy or not measured: that work would move, or not be done
        outside = sum(
            total_hours(subtract(subtract([(pod.from_ms, pod.to_ms)], rules.office), idle.get(pod.key, ())))
            * pod.gpus
            for pod in usage.fleet.pods
            if not is_batch(pod)
        )
    return Answer(
        kind="schedule",
        title=f"A schedule for {usage.scope_name}",
        period=usage.period_name,
        today=found.today,
        scenario=found.scenario,
        figures={
            "cash_saving": found.saved.cash,
            "freed_capacity_cost": round(found.saved.freed, 6),
            "freed_gpu_hours": round(found.freed_gpu_hours, 6),
            "released_gpu_hours": round(found.released_gpu_hours, 6),
            "removed_node_hours": round(found.today.node_hours - found.scenario.node_hours, 6),
            "waits": found.waits,
            "wait_hours": round(found.wait_hours, 6),
            "longest_wait_minutes": round(found.longest_minutes, 6),
            "busy_gpu_hours_outside_office_hours": None if outside is None else round(outside, 6),
            "break_even_hours": even[0] if even else None,
            "break_even_cost_per_wait_hour": found.cost_per_wait_hour,
        },
        assumptions=usage.assumptions or _assumptions(usage, rules),
        break_even=(even[1] if even else _break_even(found),),
        time=tuple(_delays(usage, then, found, outside)),
        findings=tuple(_findings(usage, rules, then.kept, idle, found)),
        tables=() if usage.is_described else _tables(usage.fleet, then),
    )


def _break_even(found: _Outcome) -> str:
    """What would break the saving."""
    if found.saved.cash <= 0 and not found.saved.freed:
        return "These rules save nothing here: nodes were not empty, and GPUs not idle, for long enough."
    if found.saved.cash <= 0:
        return (
            "No money leaves the bill: the nodes stay, as other pods hold them or they are paid in any case."
        )
    if found.cost_per_wait_hour is None:
        return "No work would have waited: only a change of usage breaks it."
    per_hour = f"{found.cost_per_wait_hour:,.2f} {found.today.currency}"
    return f"It pays as long as an hour of waiting costs less than {per_hour}."


def _delays(usage: Usage, then: Replay, found: _Outcome, outside: float | None) -> Iterator[str]:
    """Sentences on waits."""
    if found.waits:
        yield (
            f"{found.waits:,} waits of {found.wait_hours:,.1f} hours in all, the longest "
            f"{found.longest_minutes:,.1f} minutes."
        )
        if any(is_batch(wait.pod) for wait in then.waits):
            yield "Batch work that waited ends so much later; its later end is counted in the cost."
    elif usage.is_described:
        yield "Provisioning is not counted: --provision-minutes says how long a node takes to come up, each day."
    else:
        yield "No work would have waited."
    if outside is not None:
        yield f"{outside:,.1f} GPU-hours outside of office hours were busy or not measured: that work would have to move."


def described(
    nodes: DescribedNodes, rules: Rules, office: OfficeHours | None, currency: str
) -> tuple[Usage, Replay, Replay, tuple[float, str]]:
    """One of the nodes that options describe, always on, and the same up when needed, at the spot price where one is given.

    And the hours from which on that saves nothing, as answer() takes them. Raises UsageError where options do not say enough,
    or contradict.
    """
    price, per_day = nodes.on_demand_price, nodes.active_hours_per_day
    if price is None:
        raise UsageError("the price of a node is missing", "give --on-demand-price 32.77, per hour")
    if (per_day is None) == (office is None):
        raise UsageError(
            f"the hours that nodes are needed are {'given twice' if office else 'missing'}",
            "either --active-hours-per-day 10 or --office-hours 08:00-18:00 tells them",
        )
    days = days_counted(nodes.days, per_day)
    # more days than a month has are all of them today
    longest = 24 * days if days > DAYS else HOURS_PER_MONTH
    always, unit = longest if nodes.hours is None else nodes.hours, f"per {nodes.price_per}-hour"
    if office is not None:
        starts = round(always / HOURS_PER_WEEK * len(office.weekdays))
        active = always * (office.minutes_per_day / 60 * len(office.weekdays) / HOURS_PER_WEEK)
        when = [Assumption("office hours", round(active, 4), f"of {always:g} hours", "option")]
    else:
        active, starts = (per_day or 0.0) * days, days
        when = [*stated(nodes, "active_hours_per_day"), assumed("days", days, "days", nodes.days)]
    if active > always:
        raise UsageError(
            f"{per_day:g} hours on {days} days are {active:g}, more than the {always:g} that nodes are on",
            "--hours says how long nodes are on today, --days how many days are counted",
        )
    provision = rules.provision_minutes if "provision_minutes" in rules.given else None
    wait = (provision or 0.0) / 60
    today = node_price(price, nodes.price_per, nodes.gpus)
    then = node_price(nodes.spot_price or price, nodes.price_per, nodes.gpus)
    spot = [Assumption("spot price", nodes.spot_price, unit, "option")] if nodes.spot_price else []
    assumptions = (
        Assumption("on-demand price", price, unit, "option"),
        assumed("always on", always, "hours", nodes.hours),
        *stated(nodes, "nodes", "gpus"),
        *spot,
        *when,
        assumed("a node is provisioned in", provision or 0.0, "minutes", provision),
    )
    fleet = one_node("nodes", nodes.gpus, always, Price(today, "option"))
    names = (currency, f"{always:g} hours", f"{nodes.nodes:,} node(s) scaled to zero")
    up = min(active + starts * wait, always)
    scaled = one_node("nodes", nodes.gpus, up, Price(then, "option"))
    (pod,) = fleet.pods
    piece, waits = Piece(pod, 0, round(active * MS_PER_HOUR)), (Wait(pod, wait),) * starts if wait else ()
    usage = Usage(fleet, *names, times=nodes.nodes, assumptions=assumptions)
    return usage, Replay(scaled, waits, (piece,)), Replay(fleet, (), ()), _even(float(today / then), always)


def _even(ratio: float, always: float) -> tuple[float, str]:
    """The hours that a node must be needed to save nothing, at a price so many times the later one; and that in words."""
    even, says = ratio * always, "It saves as long as a node is needed less than"
    if even < always:
        return round(even, 6), f"{says} {even:,.1f} of {always:,.1f} hours."
    more = ", and even then, as spot is cheaper." if even > always else "."
    return round(always, 6), f"{says} all of the {always:,.1f} hours{more}"


def _findings(
    usage: Usage, rules: Rules, kept: Sequence[Piece], idle: Idle, found: _Outcome
) -> Iterator[str]:
    fleet = usage.fleet
    if found.saved.freed:
        yield (
            f"{found.freed_gpu_hours:,.1f} GPU-hours ({found.saved.freed:,.2f} {found.today.currency}) would be free on nodes "
            "that stay: capacity for other work, no money that leaves the bill."
        )
    if any(pod.workload_type == "inference" for pod in fleet.pods):
        yield (
            "Each service keeps one replica in every hour with requests, and at any time if its requests are not counted "
            "(gpucost collect progress)."
        )
    if batch := {piece.pod.uid for piece in kept if piece.returns and is_batch(piece.pod)}:
        yield f"{len(batch)} batch pods would lose their GPUs while idle: they need checkpoints to go on from."
    judged = [pod for pod in fleet.pods if rules.patience_ms(pod) is not None]
    if judged and not any(pod.key in idle for pod in judged):
        yield "None of these pods was measured idle for so long; GPUs that no exporter labels with their pod are never released."
    nodes = () if usage.is_described else fleet.nodes
    reasons = Counter(filter(None, map(_why_it_stays, nodes)))
    for why, count in sorted(reasons.items()):
        yield f"{count} node{' stays' if count == 1 else 's stay'}: {why}."


def _why_it_stays(node: Node) -> str:
    """Why an empty node would not be removed."""
    if not node.has_users:
        return "plain hosts, and no metric reports who uses their GPUs. Set [[hosts]] user_label"
    if (why := why_not(node)) or node.capacity_type != "reserved":
        return why
    return "in a capacity reservation, paid whether they are up or not; cancelling it would save its cost"


def _assumptions(usage: Usage, rules: Rules) -> tuple[Assumption, ...]:
    names = ("idle_minutes", "notebook_idle_minutes", "restart_minutes", "empty_minutes", "provision_minutes")
    lines = stated(rules, *names)
    if rules.office is not None:
        lines.append(
            Assumption("office hours in the period", round(total_hours(rules.office), 2), "hours", "option")
        )
    return (
        *lines,
        Assumption(
            "notebooks",
            ", ".join(rules.notebooks),
            "globs",
            "option" if "notebooks" in rules.given else "default",
        ),
        Assumption("usage, idleness and prices", usage.period_name, "", "store"),
    )


def _tables(fleet: Fleet, then: Replay) -> tuple[Rows, ...]:
    pods = grouped((pod.workload, pod) for pod in fleet.pods)
    pieces = grouped((piece.pod.workload, piece) for piece in then.kept)
    waits = grouped((wait.pod.workload, wait.hours * 60) for wait in then.waits)
    lines = []
    for name, several in pods.items():
        held = _held_hours(several)
        released, longest = held - _held_hours(pieces[name]), max(waits[name], default=0.0)
        if released > 0 or longest:
            lines.append((name, round(held, 2), round(released, 2), len(waits[name]), round(longest, 1)))
    lines.sort(key=lambda line: (-line[2], -line[3], line[0]))
    columns = ("workload", "held_gpu_hours", "released_gpu_hours", "waits", "longest_wait_minutes")
    return Rows.top("Whom it touches", columns, lines, "{} more workloads are touched.")
