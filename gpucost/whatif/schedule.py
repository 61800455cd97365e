"""GPUs that are up only when work needs them: idle GPUs released, empty nodes removed, nights and weekends off."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, NamedTuple
from zoneinfo import ZoneInfo

from gpucost.errors import UsageError
from gpucost.options import Option, OptionGroup
from gpucost.periods import MS_PER_HOUR, WEEKDAYS, Period, Span, intersect, local_days, merge, subtract, to_ms
from gpucost.records import frozen_dataclass, grouped
from gpucost.whatif import flags
from gpucost.whatif.answer import (
    Answer,
    Assumption,
    Assumptions,
    Rows,
    Tables,
    Texts,
    Value,
    stated,
    today_of,
)
from gpucost.whatif.avoidable import staying_nodes, why_not
from gpucost.whatif.cost import CostBlock, fleet_costs, position
from gpucost.whatif.flags import (
    DAYS,
    GPUS_PER_NODE,
    HOURS_PER_MONTH,
    PROVISION_MINUTES,
    START_MINUTES,
    START_SOURCE,
    to_decimal,
)
from gpucost.whatif.fleet import Fleet, Idle, Node, Pod, Usage, Workload, is_batch
from gpucost.whatif.packing import Saved

MS_PER_MINUTE = 60_000
# A released pod that comes back to a node that is up loads its image and weights.
RESTART_MINUTES = START_MINUTES - PROVISION_MINUTES
_RESTART_MS = round(RESTART_MINUTES * MS_PER_MINUTE)
# Epoch hours in which workloads counted no requests. Other hours had requests, or were not counted.
Quiet = Mapping[Workload, Collection[int]]


def office_spans(hours: str, weekdays: str, period: Period, tz: ZoneInfo) -> tuple[Span, ...]:
    """The spans of the period in local office hours (`08:00-18:00`) on weekdays (`mon-fri`), in milliseconds.

    Hours that close before they open run into the next day. Raises UsageError.
    """
    first, _, last = weekdays.lower().partition("-")
    try:
        begin, end = WEEKDAYS.index(first), WEEKDAYS.index(last or first)
    except ValueError:
        raise UsageError(f"invalid --weekdays {weekdays!r}", "write a range of days: mon-fri") from None
    try:
        clocks = (text.strip().replace("24:00", "00:00") for text in hours.split("-"))
        opens, closes = map(time.fromisoformat, clocks)
    except ValueError:
        raise UsageError(f"invalid --office-hours {hours!r}", "write 08:00-18:00, up to 24:00") from None

    def at(day: date, clock: time) -> int:
        return to_ms(datetime.combine(day, clock, tz))

    night = timedelta(days=closes <= opens)
    wider = Period(period.start - timedelta(days=1), period.end)
    days = [day for day in local_days(wider, tz) if (day.weekday() - begin) % 7 <= (end - begin) % 7]
    spans = [(at(day, opens), at(day + night, closes)) for day in days]
    return tuple(intersect(spans, [period.span]))


@frozen_dataclass
class ScheduleRules(OptionGroup):
    """When GPUs are released and nodes removed. None switches a rule off.

    `idle_minutes` releases all pods, or only notebooks if `only_notebooks` is set. `office` has the open spans of the period;
    they apply to all work except batch work, which ends by itself.
    """

    idle_minutes: Annotated[
        float | None,
        Option(
            "Idle time of all GPUs of a pod until they are released. Default without any rule: 60, notebooks only.",
            above=True,
            label="a GPU is released when idle for",
            unit="minutes",
        ),
    ] = None
    only_notebooks: bool = False
    office: tuple[Span, ...] | None = None
    empty_minutes: Annotated[
        float,
        Option(
            "Time that a node is empty until it is removed. Default: 10.",
            label="a node is removed when empty for",
            unit="minutes",
        ),
    ] = 10.0
    provision_minutes: Annotated[
        float,
        Option(
            "Time until a node is up. Default: 5.",
            label="a node is provisioned in",
            unit="minutes",
            source=START_SOURCE,
        ),
    ] = PROVISION_MINUTES

    @property
    def patience_ms(self) -> int:
        """The longest idle time of a pod; 0 without such a rule."""
        return round((self.idle_minutes or 0) * MS_PER_MINUTE)

    def held_spans(self, pod: Pod, idle: Iterable[Span]) -> list[Span]:
        """The spans in which the pod keeps its GPUs."""
        spans: list[Span] = [pod.span]
        if self.office is not None and not is_batch(pod):
            spans = intersect(spans, self.office)
        patience = self.patience_ms
        if patience and (pod.workload_type == "development" or not self.only_notebooks):
            long = [(begin + patience, end) for begin, end in idle if end - begin > patience]
            spans = subtract(spans, long)
        return spans


@frozen_dataclass
class Piece:
    """A span in which a pod holds its GPUs."""

    pod: Pod
    from_ms: int
    to_ms: int

    @property
    def returns(self) -> bool:
        """Whether the GPUs of the pod were released before."""
        return self.from_ms > self.pod.from_ms


def _whole(pods: Iterable[Pod]) -> list[Piece]:
    return [Piece(pod, *pod.span) for pod in pods]


_ROUNDING = 1e-6


class Wait(NamedTuple):
    """The time that a pod waited for its GPUs."""

    pod: Pod
    hours: float


class Replay(NamedTuple):
    """The nodes and pods under the schedule, and the waits that the schedule causes."""

    nodes: list[Node]
    pods: list[Pod]
    waits: list[Wait]

    @property
    def fleet(self) -> Fleet:
        return Fleet(tuple(self.nodes), tuple(self.pods))


def replay(fleet: Fleet, staying: Iterable[Piece], rules: ScheduleRules) -> Replay:
    """The fleet if its pods hold GPUs only in these pieces.

    A node is removed after `empty_minutes` without a pod, and provisioned again when the next piece begins; provisioning is
    paid. Batch work that waited ends later by the wait; other work ends when it did. Pods return to their node.
    """
    by_node = grouped((piece.pod.place, piece) for piece in staying)
    then = Replay([], [], [])
    for node in fleet.nodes:
        _live(node, by_node[node.key], rules, then)
    return then


def _live(node: Node, staying: Iterable[Piece], rules: ScheduleRules, then: Replay) -> None:
    """Add each life of a node as a node of its own. A piece begins when the node, its GPUs and the pod are ready."""
    removable = not why_it_stays(node)
    provision_ms = round(rules.provision_minutes * MS_PER_MINUTE)
    empty_ms = round(rules.empty_minutes * MS_PER_MINUTE)

    def removed(empty_from_ms: int) -> int:
        """The end of a node that is empty from this moment: at most its real end, unless work moved past that."""
        return max(empty_from_ms, min(empty_from_ms + empty_ms, node.to_ms) if removable else node.to_ms)

    lives, ready_ms = [replace(node, to_ms=removed(node.from_ms))], node.from_ms
    running: list[tuple[int, float]] = []  # (end, GPUs)
    ends: dict[str, int] = {}
    was_late = False
    for piece in sorted(staying, key=lambda p: (p.from_ms, p.to_ms, p.pod.uid)):
        pod = piece.pod
        running = [held for held in running if held[0] > piece.from_ms]
        begin = max(piece.from_ms, ends.get(pod.uid, 0))
        if removable and begin >= lives[-1].to_ms:
            lives.append(replace(node, name=f"{node.name}@{len(lives) + 1}", from_ms=begin, to_ms=begin))
            ready_ms = begin + provision_ms
        begin = max(begin, ready_ms)
        # before the first wait pods hold the same GPUs as today, even if the node has fewer
        if was_late:
            begin = _free_at(begin, node.gpus - pod.gpus, running)
        delay = begin - piece.from_ms + (_RESTART_MS if piece.returns else 0)
        end = piece.to_ms + delay if is_batch(pod) else max(piece.to_ms, begin)
        if delay > 0:
            was_late = True
            then.waits.append(Wait(pod, delay / MS_PER_HOUR))
        if begin < end:
            uid = f"{pod.uid}@{piece.from_ms}" if piece.returns else pod.uid
            then.pods.append(replace(pod, node=lives[-1].name, from_ms=begin, to_ms=end, uid=uid))
            running.append((end, pod.gpus))
            ends[pod.uid] = end
        lives[-1] = replace(lives[-1], to_ms=max(lives[-1].to_ms, removed(max(end, begin))))
    then.nodes.extend(life for life in lives if life.length_ms > 0)


def _free_at(begin: int, gpus: float, running: Iterable[tuple[int, float]]) -> int:
    """The first moment from `begin` at which the running pods (end, GPUs) hold at most `gpus`."""
    ends = sorted(held for held in running if held[0] > begin)
    taken = sum(held for _, held in ends)
    for end, freed in ends:
        if taken <= gpus + _ROUNDING:
            break
        begin, taken = end, taken - freed
    return begin


def pieces(pods: Iterable[Pod], rules: ScheduleRules, idle: Idle, quiet: Quiet) -> list[Piece]:
    """The spans in which pods hold GPUs under the rules. A service keeps a replica in hours with requests."""
    needed, staying = replicas(pods), []
    for pod in pods:
        spans = rules.held_spans(pod, idle.get(pod.key, ()))
        if pod in needed:
            hours = [(hour * MS_PER_HOUR, (hour + 1) * MS_PER_HOUR) for hour in quiet.get(pod.owner, ())]
            spans = merge([*spans, *subtract([pod.span], hours)])
        staying += [Piece(pod, begin, end) for begin, end in spans]
    return staying


def replicas(pods: Iterable[Pod]) -> set[Pod]:
    """The fewest pods of each service that together cover its life."""
    staying: set[Pod] = set()
    services = grouped((pod.owner, pod) for pod in pods if pod.workload_type == "inference")
    for several in services.values():
        cover: list[Pod] = []
        for pod in sorted(several, key=lambda pod: (pod.from_ms, -pod.to_ms)):
            if cover and pod.to_ms <= cover[-1].to_ms:
                continue
            # the pod before it and this pod cover the time of the last pod
            if len(cover) > 1 and pod.from_ms <= cover[-2].to_ms:
                cover.pop()
            cover.append(pod)
        staying.update(cover)
    return staying


def answer(usage: Usage, rules: ScheduleRules, idle: Idle, quiet: Quiet) -> Answer:
    """The saving of the schedule in the period, and its waits.

    The scenario is compared with the same fleet of whole pods, without empty nodes. Other pods on the nodes are whole in both,
    so the difference is due to the selected pods.
    """
    fleet, others = usage.fleet, _whole(usage.others)
    staying = pieces(fleet.pods, rules, idle, quiet)
    then, before = (replay(fleet, [*parts, *others], rules) for parts in (staying, _whole(fleet.pods)))
    now, whole, after = map(fleet_costs, (fleet, before.fleet, then.fleet))
    today, between = today_of(usage, now, is_held=usage.is_narrowed), usage.commitments.between
    start, saved = whole, Saved.of(whole.cost - after.cost, between(before.fleet, then.fleet))
    if not usage.is_narrowed:
        # nodes that are empty today are part of the usage
        start, saved = now, replace(saved, cash=between(fleet, then.fleet))
    by_workload = _released(fleet.pods, staying)
    released = max(0.0, sum(by_workload.values()))
    freed = max(0.0, released - (whole.gpu_hours - after.gpu_hours))
    selected = set(fleet.pods)
    waits = [wait for wait in then.waits if wait.pod in selected]
    hours = [wait.hours for wait in waits]
    wait_figures, text = _waited(len(waits), sum(hours), max(hours, default=0.0))
    times, outside = [text], None
    if rules.office is not None:
        outside = _busy_outside(fleet.pods, rules.office, idle)
        times.append(f"{outside:,.1f} GPU-hours outside of office hours were busy or not measured.")
    return Answer(
        kind="schedule",
        title=f"A schedule for {usage.scope_name}",
        period=usage.period_name,
        today=today,
        scenario=replace(
            today,
            cost=today.cost - saved.cash,
            gpu_hours=round(today.gpu_hours + after.gpu_hours - start.gpu_hours, 9),
            node_hours=round(today.node_hours + after.node_hours - start.node_hours, 9),
        ),
        figures={
            "cash_saving": saved.cash,
            "freed_capacity_cost": round(saved.freed, 6),
            "freed_gpu_hours": round(freed, 6),
            "released_gpu_hours": round(released, 6),
            "busy_gpu_hours_outside_office_hours": outside,
        }
        | wait_figures,
        assumptions=_assumptions(usage, rules),
        break_even=_break_even(saved.cash, sum(hours), usage.currency),
        time=tuple(times),
        findings=tuple(_findings(usage, rules, staying, idle, freed, saved.freed)),
        tables=_tables(by_workload, waits),
    )


def _released(pods: Iterable[Pod], staying: Iterable[Piece]) -> dict[str, float]:
    """GPU-hours by workload that its pods no longer hold."""
    released: defaultdict[str, float] = defaultdict(float)
    for pod in pods:
        released[pod.workload] += pod.gpu_ms / MS_PER_HOUR
    for piece in staying:
        released[piece.pod.workload] -= (piece.to_ms - piece.from_ms) * piece.pod.gpus / MS_PER_HOUR
    return released


def _busy_outside(pods: Iterable[Pod], office: Sequence[Span], idle: Idle) -> float:
    """GPU-hours outside of office hours, without batch work, that were busy or not measured."""
    gpu_ms = 0.0
    for pod in pods:
        if not is_batch(pod):
            closed = subtract([pod.span], [*office, *idle.get(pod.key, ())])
            gpu_ms += sum(end - begin for begin, end in closed) * pod.gpus
    return round(gpu_ms / MS_PER_HOUR, 6)


def _waited(count: int, hours: float, longest: float) -> tuple[dict[str, Value], str]:
    """Figures of waits, and a sentence; the sum and the longest in hours."""
    minutes = longest * 60
    figures: dict[str, Value] = {
        "waits": count,
        "wait_hours": round(hours, 6),
        "longest_wait_minutes": round(minutes, 6),
    }
    if not count:
        return figures, "No work would have waited."
    return (
        figures,
        f"{count:,} wait{'' if count == 1 else 's'}, {hours:,.1f} hours in total; the longest takes {minutes:,.1f} minutes.",
    )


def _break_even(cash: Decimal, wait_hours: float, currency: str) -> Texts:
    """Conditions that end the saving."""
    if cash <= 0:
        return (
            "The bill stays the same: no node is empty for long enough, or the nodes are paid in any case.",
        )
    if not wait_hours:
        return ()
    return (
        f"It saves money if an hour of waiting costs less than {cash / to_decimal(wait_hours):,.2f} {currency}.",
    )


def _findings(
    usage: Usage,
    rules: ScheduleRules,
    staying: Iterable[Piece],
    idle: Idle,
    freed: float,
    freed_cost: Decimal,
) -> Iterator[str]:
    pods = usage.fleet.pods
    if freed_cost:
        yield (
            f"{freed:,.1f} GPU-hours ({freed_cost:,.2f} {usage.currency}) would be free on nodes that stay: "
            "capacity for other work, not cash."
        )
    if any(pod.workload_type == "inference" for pod in pods):
        yield (
            "Each service keeps one replica in every hour with requests, and in all hours if its requests are not counted "
            "(gpucost collect progress)."
        )
    if batch := {piece.pod.uid for piece in staying if piece.returns and is_batch(piece.pod)}:
        yield f"{len(batch)} batch pods would lose their GPUs while idle: they need checkpoints to continue."
    if rules.patience_ms and not any(pod.key in idle for pod in pods):
        yield "No pod was idle for that long. GPUs whose exporter gives no pod label are never released."
    reasons = Counter(filter(None, map(why_it_stays, usage.fleet.nodes)))
    yield from (f"{text}." for text in staying_nodes(reasons))


def why_it_stays(node: Node) -> str:
    """The reason that an empty node is not removed."""
    if not node.has_users:
        return "plain hosts without a metric of GPU users. Set [[hosts]] user_label"
    if (why := why_not(node)) or node.capacity_type != "reserved":
        return why
    return "in a capacity reservation, paid in any case; cancelling it would save its cost"


def _assumptions(usage: Usage, rules: ScheduleRules) -> Assumptions:
    rows = [
        *stated(rules),
        Assumption("a released pod comes back in", RESTART_MINUTES, "minutes", START_SOURCE),
    ]
    if rules.office is not None:
        hours = sum(end - begin for begin, end in rules.office) / MS_PER_HOUR
        rows.append(Assumption("office hours in the period", round(hours, 2), "hours", "option"))
    if rules.only_notebooks:
        rows.append(Assumption("released", "only notebooks", "of type development", "default"))
    return *rows, Assumption("usage, idleness and prices", usage.period_name, "", "store")


def _tables(released: Mapping[str, float], several: Iterable[Wait]) -> Tables:
    waits = Counter(wait.pod.workload for wait in several)
    lines = [(name, max(0.0, round(hours, 2)), waits[name]) for name, hours in released.items()]
    lines = [line for line in lines if line[1] > 0 or line[2]]
    lines.sort(key=lambda line: (-line[1], -line[2], line[0]))
    columns = ("workload", "released_gpu_hours", "waits")
    return Rows.top("Whom it touches", columns, lines, "{} more workloads are affected.")


@frozen_dataclass
class DescribedNodes(OptionGroup):
    """Equal nodes that are always on, and the hours that they are needed."""

    on_demand_price: flags.OnDemandPrice | None = None
    nodes: flags.Nodes = 1
    gpus: flags.Gpus = GPUS_PER_NODE
    active_hours_per_day: flags.ActiveHours | None = None
    days: flags.Days = DAYS


def hours_up(needed: float, provision_minutes: float = PROVISION_MINUTES) -> float:
    """Hours of a day that a node is up if it is needed for so many: it is provisioned first, which is paid."""
    return min(needed + provision_minutes / 60, 24.0)


def described(nodes: DescribedNodes, rules: ScheduleRules, currency: str) -> Answer:
    """Nodes that are always on, compared with the hours that they are needed. Raises UsageError if an option is missing."""
    price, per_day, days = nodes.on_demand_price, nodes.active_hours_per_day, nodes.days
    if price is None:
        raise UsageError("the price of a node is missing", "give --on-demand-price 32.77, per hour")
    if per_day is None:
        raise UsageError("the hours that nodes are needed are missing", "give --active-hours-per-day 10")
    always = 24 * days if days > DAYS else HOURS_PER_MONTH
    each = hours_up(per_day, rules.provision_minutes)
    wait = each - per_day
    today, scenario = (
        position(currency, [CostBlock(nodes.nodes * hours, price, nodes.gpus)])
        for hours in (always, each * days)
    )
    starts = days * nodes.nodes if wait else 0
    figures, text = _waited(starts, starts * wait, wait)
    return Answer(
        kind="schedule",
        title=f"A schedule for {nodes.nodes:,} node{'' if nodes.nodes == 1 else 's'} scaled to zero",
        period=f"{always:g} hours",
        today=today,
        scenario=scenario,
        figures={"cash_saving": today.cost - scenario.cost} | figures,
        assumptions=(
            Assumption("on-demand price", price, "per node-hour", "option"),
            Assumption("always on", always, "hours", "default"),
            *stated(nodes),
            *stated(rules, "provision_minutes"),
        ),
        break_even=(f"It saves money while a node is needed for less than all of the {always:,.1f} hours.",),
        time=(text,),
    )
