"""A list of scenarios for groups of workloads; each is counted on the fleet that the scenarios before it left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import Field

from gpucost.config.model import Config, Conflicts, Count, Section, Text
from gpucost.config.tables import TableFile, nearest
from gpucost.errors import DataError
from gpucost.periods import MS_PER_HOUR
from gpucost.records import frozen_dataclass
from gpucost.whatif.answer import Answer, Assumption, Assumptions, Position, Rows, Texts, stated, today_of
from gpucost.whatif.avoidable import NOTHING, why_not
from gpucost.whatif.cost import CostBlock, fleet_costs, position
from gpucost.whatif.curve import MONTH, Evidence, counted
from gpucost.whatif.flags import HOURS_PER_MONTH, HOURS_PER_YEAR, PricePer, round_money, to_decimal
from gpucost.whatif.fleet import Fleet, Level, Node, Pod, Price, Scope, Usage, is_batch
from gpucost.whatif.packing import Change, emptied, saved, today_held
from gpucost.whatif.reserve import COMMITTABLE
from gpucost.whatif.schedule import ScheduleRules, hours_up, replicas, why_it_stays
from gpucost.whatif.share import Sizing, share
from gpucost.whatif.spot.advice import SAFE
from gpucost.whatif.spot.formulas import exact
from gpucost.whatif.spot.interruptions import Place, Rate, prior_rate
from gpucost.whatif.spot.market import Market
from gpucost.whatif.spot.moves import SpotOptions, SpotQuery, movable, rate_assumption
from gpucost.whatif.spot.parts import parts_of

_HINT = "gpucost whatif plan --example prints a complete plan"
_FILTERS = ("teams", "namespaces", "workloads", "clusters")
_TIMES = ("checkpoint_minutes", "checkpoint_write_minutes", "restart_minutes")
_COLUMNS = ("step", "change", "groups", "today", "after", "saving")
_NOTE = "Each step is counted on the fleet that the steps before it left."


_Amount = Annotated[Decimal, Field(gt=0, le=10**12, allow_inf_nan=False)]
_Above = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_FromZero = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Names = list[Text]
_NONE: _Names = []


class Group(Section):
    """Workloads, described with `price_per_gpu_hour` or read from the store by the four filters.

    Each described pod runs for `hours` (None: the whole period).
    """

    name: Text
    pods: Annotated[Count, Field(le=100_000)] = 1
    gpus_per_pod: Count = 1
    hours: _Above | None = None
    price_per_gpu_hour: _Amount | None = None
    teams: _Names = _NONE
    namespaces: _Names = _NONE
    workloads: _Names = _NONE
    clusters: _Names = _NONE

    def _conflicts(self) -> Conflicts:
        stored = self.model_fields_set & set(_FILTERS)
        described = self.model_fields_set - stored - {"name"}
        is_wrong = bool(stored) == bool(described) or bool(described and not self.price_per_gpu_hour)
        keys = ", ".join(_FILTERS)
        return {f"{self.name} needs price_per_gpu_hour, or {keys} and no other key": is_wrong}

    @property
    def scope(self) -> Scope:
        """The part of the store that it names."""
        return Scope(*map(tuple, (self.teams, self.namespaces, self.workloads, self.clusters)))

    def described(self, context: Context) -> Usage:
        """Its pods, each on a node of its own; an interruption of one stops no other."""
        start_ms, gpus, price = context.start_ms, self.gpus_per_pod, self.price_per_gpu_hour or NOTHING
        end_ms = start_ms + round((self.hours or context.hours) * MS_PER_HOUR)
        prices, workload = (Price(round_money(price * gpus), "plan"),), f"Deployment/{self.name}"
        names = [f"{self.name}/{number}" for number in range(self.pods)]
        nodes = tuple(Node(name, gpus, start_ms, end_ms, prices) for name in names)
        pods = tuple(Pod(name, workload, gpus, start_ms, end_ms, uid=name) for name in names)
        stated_price = Assumption(f"{self.name}: price", price, "per GPU-hour", context.file)
        fleet = Fleet(nodes, pods)
        return Usage(
            fleet, context.currency, context.period or "", self.name, True, assumptions=(stated_price,)
        )


class Outcome(NamedTuple):
    """The fleet after a step, the cost of GPUs that it frees on nodes that stay, notes, and the numbers that it rests on."""

    fleet: Fleet
    freed: Decimal = NOTHING
    time: Texts = ()
    findings: Texts = ()
    assumptions: Assumptions = ()


class _Step(Section):
    """A change to some groups."""

    change: str
    groups: Annotated[_Names, Field(min_length=1)]


class Share(_Step):
    """Several pods with one GPU each on one GPU, as `whatif share` packs pods of this activity."""

    change: Literal["share"] = "share"
    ways: Annotated[Count, Field(le=48)]
    utilization_percent: Annotated[_FromZero, Field(le=100)]
    margin_percent: _FromZero = 10.0
    headroom_percent: Annotated[_FromZero, Field(le=90)] = 20.0

    def applied(self, usage: Usage, _: Context) -> Outcome:
        """Each shared GPU is on the node of its first pod."""
        fleet, busy = usage.fleet, self.utilization_percent / 100
        sizing = Sizing(
            ways=self.ways, margin_percent=self.margin_percent, headroom_percent=self.headroom_percent
        )
        levels = {pod.key: Level(1, 1, 0.0, busy, busy) for pod in fleet.pods}
        sharing = share(usage, sizing, levels, {})
        found = saved(usage, sharing.change)
        if not (usage.is_described or found.cash or found.freed):
            return Outcome(fleet, findings=("shared GPUs would cost as much: no pod moves",))
        pods = tuple(replace(gpu.first, from_ms=gpu.from_ms, to_ms=gpu.to_ms) for gpu in sharing.gpus)
        # the last pod of a GPU may outlive the node of the first
        end_ms = max((pod.to_ms for pod in pods), default=0)
        longer = fleet.with_nodes(lambda node: replace(node, to_ms=max(node.to_ms, end_ms)))
        after = Fleet(longer.nodes, (*longer.without(sharing.change.pods).pods, *pods))
        note = "memory is not checked, and time slicing isolates nothing: see gpucost whatif share"
        return Outcome(after, found.freed, findings=(note,))


class Spot(_Step):
    """Spot nodes in place of on-demand nodes, for the work that `whatif spot` moves."""

    change: Literal["spot"] = "spot"
    price_per_gpu_hour: _Amount
    interruptions_per_hour: _FromZero | None = None
    checkpoint_minutes: _Above | None = None

    def applied(self, usage: Usage, context: Context) -> Outcome:
        """Pods on spot last longer by interruptions."""
        explicit, minutes = self.interruptions_per_hour, self.checkpoint_minutes
        market = Market(
            rate=context.rate if explicit is None else lambda _: Rate(explicit, "plan"),
            price=Price(self.price_per_gpu_hour, "plan"),
            price_per=PricePer.gpu,
        )
        options = (
            SpotOptions(checkpoint_minutes=minutes, explicit_options=_TIMES[:1]) if minutes else SpotOptions()
        )
        question = SpotQuery(usage, market, context.config, options)
        moved, _ = movable(question)
        parts = parts_of(question, moved)
        going = [part for part in parts if part.advice.suits == SAFE and part.saving > 0]
        longer = {(part.owner, part.rate): exact(part.work(part.rate.per_hour)) for part in going}
        there = {}
        for item in moved:
            node = replace(item.there, capacity_type="spot")
            for pod in item.pods:
                if times := longer.get((pod.owner, item.rate)):
                    there[pod] = node, times
        rates = {part.rate.source: rate_assumption(part.rate) for part in parts if explicit is None}
        return Outcome(
            _lasting(usage.fleet, there),
            time=(f"work takes up to {max(longer.values()):.3f} times as long",) if longer else (),
            findings=(f"{len(going)} of {len(parts)} workloads move: see gpucost whatif spot",),
            assumptions=(*rates.values(), *stated(options, *_TIMES[bool(minutes) :])),
        )


class Schedule(_Step):
    """GPUs for a part of each day only, provisioned at its start as in `whatif schedule`."""

    change: Literal["schedule"] = "schedule"
    active_percent: Annotated[_Above, Field(le=100)]

    def applied(self, usage: Usage, _: Context) -> Outcome:
        """Pods run for a part of their time, except for batch work and one replica of each service, as in `whatif schedule`.

        Nodes stay up that other pods hold, too, or that are paid in any case.
        """
        part, fleet = hours_up(24 * self.active_percent / 100) / 24, usage.fleet
        pods, nodes, is_stored = fleet.pods, fleet.by_name, not usage.is_described
        needed = replicas(pods)
        able = [pod for pod in pods if pod not in needed and not is_batch(pod)]
        off = {place for place in emptied(usage, able) if not (is_stored and why_it_stays(nodes[place]))}
        going = {pod: (nodes[pod.place], part) for pod in able if pod.place in off}
        then = tuple(
            held._replace(to_ms=held.from_ms + round((held.to_ms - held.from_ms) * part))
            for held in today_held(usage, going)
        )
        count = f"{len(pods) - len(going)} of {len(pods)} pods"
        note = f"{count} are needed, or on nodes that stay, which saves no cash: see gpucost whatif schedule"
        return Outcome(
            _lasting(fleet, going),
            saved(usage, Change(tuple(going), then)).freed,
            findings=(note,) if len(going) < len(pods) else (),
            assumptions=tuple(stated(ScheduleRules(), "provision_minutes")),
        )


def _lasting(fleet: Fleet, changed: Mapping[Pod, tuple[Node, float]]) -> Fleet:
    """The fleet with some pods on nodes of their own like these, for so many times as long."""
    nodes = []
    pods = []
    for pod, (node, times) in changed.items():
        pod_node = node.sized(pod.gpus, f"{node.name}/{pod.uid}@{pod.from_ms}")
        end_ms = pod.from_ms + round(pod.length_ms * times)
        nodes.append(replace(pod_node, from_ms=pod.from_ms, to_ms=end_ms))
        pods.append(replace(pod, node=pod_node.name, to_ms=end_ms))
    rest = fleet.without(changed)
    return Fleet((*rest.nodes, *nodes), (*rest.pods, *pods))


class Reserve(_Step):
    """`gpus` paid around the clock at the price of a commitment; the rest stays on demand.

    `gpus` None: as many as the rules of `whatif reserve` allow for the fleet that the steps before it left.
    """

    change: Literal["reserve"] = "reserve"
    price_per_gpu_hour: _Amount
    gpus: Count | None = None
    term_years: Literal[1, 3] = 1


Step = Share | Spot | Schedule | Reserve
_STEPS: dict[str, type[Step]] = {kind.model_fields["change"].default: kind for kind in get_args(Step)}


class Plan(Section):
    """A plan as its file has it."""

    name: str = ""
    groups: Annotated[list[Group], Field(min_length=1)]
    steps: Annotated[list[Annotated[Step, Field(discriminator="change")]], Field(min_length=1)]


def read_plan(path: Path) -> Plan:
    """The plan in a file. Raises DataError with file, line and key, and the nearest key that exists."""
    file = TableFile.read(path, _STEPS, _HINT)
    plan = file.parsed(Plan)
    names = [group.name for group in plan.groups]
    file.unique("groups", names)
    for number, step in enumerate(plan.steps):
        for name in step.groups:
            if name not in names:
                place = ("steps", number, "groups")
                raise file.error(place, f"group {name!r} is missing", nearest(name, names))
    return plan.model_copy(update={"name": plan.name or path.stem})


@frozen_dataclass
class Context:
    """Usage of the stored groups, their period, and evidence for commitments and interruptions.

    `period` is None without stored groups. Described groups run from `start_ms`, for `hours` by default.
    """

    currency: str
    usages: Mapping[str, Usage]
    period: str | None = None
    hours: float = HOURS_PER_MONTH
    file: str = "plan"
    start_ms: int = 0
    evidence: Evidence = MONTH
    rate: Callable[[Place], Rate] = prior_rate
    config: Config = field(default_factory=Config)


class _PlanRun:
    """A plan while its steps are applied: the usage of each group, and the cost that no step changes."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.fixed, self.obligation = Position(NOTHING, context.currency), NOTHING
        self.usages: dict[str, Usage] = {}
        self.seen: set[Pod] = set()
        self.time: list[str] = []
        self.findings: list[str] = []
        source = "store" if context.period else "default"
        self.assumptions = [Assumption("always on", context.hours, "hours", source)]

    @property
    def total(self) -> Position:
        """The cost of everything."""
        return sum(map(_held, self.usages.values()), self.fixed)

    def add(self, group: Group) -> None:
        """Read or describe a group. A pod counts in the first group that names it."""
        name = group.name
        usage = self.context.usages.get(name) or group.described(self.context)
        stored = f"{usage.scope_name}, {usage.period_name}"
        self.assumptions += usage.assumptions or [
            Assumption(f"{name}: usage and prices", stored, "", "store")
        ]
        twice = tuple(pod for pod in usage.fleet.pods if pod in self.seen)
        new = usage.fleet.without(twice)
        self.seen.update(new.pods)
        left = new.only(lambda node: usage.is_described or not why_not(node))
        paid = new.without(left.pods)
        self.usages[name] = usage._replace(
            fleet=left, others=usage.others + twice, is_narrowed=True, reported=None
        )
        self.fixed += _held(usage._replace(fleet=paid, reported=None))
        if usage.reported and not twice:
            # today is the report's figure to the last digit
            rounding = usage.reported.held_cost - _held(usage._replace(reported=None)).cost
            self.fixed += Position(rounding, self.context.currency)
        notes = {
            "run on nodes that are paid in any case: no step changes them": len(paid.pods),
            "are in several groups: each counts in the first of them only": len(twice),
        }
        self.findings += [f"{count} pods {note}." for note, count in notes.items() if count]

    def change(self, step: Share | Spot | Schedule, number: int, name: str) -> None:
        """Apply a step to a group."""
        usage, label = self.usages[name], f"Step {number} ({step.change} of {name})"
        if not usage.fleet.pods:
            return
        outcome = step.applied(usage, self.context)
        self.usages[name] = usage._replace(fleet=outcome.fleet)
        self.fixed += Position(outcome.freed, self.context.currency)
        self.time += [f"{label}: {text}." for text in outcome.time]
        self.findings += [f"{label}: {text}." for text in outcome.findings]
        for row in outcome.assumptions:
            self.assumptions.append(replace(row, name=f"step {number}, {step.change}: {row.name}"))

    def reserve(self, step: Reserve, label: str) -> None:
        """Pay a commitment in all hours, and the GPUs above it at their mean price on demand."""
        context, today, pods = self.context, Position(NOTHING, self.context.currency), list[Pod]()
        for name in dict.fromkeys(step.groups):
            free = _committable(self.usages[name])
            today += _held(free)
            pods += free.fleet.pods
        if not today.cost:
            why = "none of its GPUs are on demand and of a type without commitments in the bill"
            raise DataError(f"{label}: {why}", "leave out that step")
        end_ms = context.start_ms + round(context.hours * MS_PER_HOUR)
        curve = counted(((*pod.span, pod.gpus) for pod in pods), context.start_ms, end_ms)
        price, mean = step.price_per_gpu_hour, today.cost / to_decimal(today.gpu_hours)
        gpus = step.gpus or context.evidence.safe_level(curve, float(price / mean))
        if not gpus:
            why = context.evidence.shortage or "no GPU is in use enough to commit it"
            self.findings.append(f"{label}: {why}.")
            return
        for name in step.groups:
            usage = self.usages[name]
            self.usages[name] = usage._replace(fleet=usage.fleet.without(pods))
        # described pods may run for longer than the period of the curve
        above = max(0.0, today.gpu_hours - curve.used(gpus))
        paid = position(context.currency, [CostBlock(gpus * curve.hours, price), CostBlock(above, mean)])
        self.fixed += replace(paid, node_hours=today.node_hours * paid.gpu_hours / today.gpu_hours)
        self.obligation += price * gpus * HOURS_PER_YEAR * step.term_years


def _committable(usage: Usage) -> Usage:
    """Its on-demand nodes of types that no commitment of the bill covers."""
    key = usage.commitments.key
    fleet = usage.fleet.only(lambda node: node.capacity_type in COMMITTABLE and not key(node))
    return usage._replace(fleet=fleet)


def _held(usage: Usage) -> Position:
    """The cost of the GPUs that pods hold."""
    return today_of(usage, fleet_costs(usage.fleet), is_held=True)


def answer(plan: Plan, context: Context) -> Answer:
    """The saving of each step and of the whole plan. Raises GpucostError if a step is impossible."""
    run = _PlanRun(context)
    for group in plan.groups:
        run.add(group)
    today = scenario = run.total
    lines = []
    for number, step in enumerate(plan.steps, start=1):
        for key, value in step:
            if key not in _Step.model_fields and value is not None:
                source = context.file if key in step.model_fields_set else "default"
                run.assumptions.append(Assumption(f"step {number}, {step.change}: {key}", value, "", source))
        if isinstance(step, Reserve):
            run.reserve(step, f"Step {number} (reserve)")
        else:
            for name in dict.fromkeys(step.groups):
                run.change(step, number, name)
        cost, scenario = scenario.cost, run.total
        saving, groups = cost - scenario.cost, ", ".join(step.groups)
        lines.append((number, step.change, groups, cost, scenario.cost, saving))
        if round(saving, 2) <= 0:
            run.findings.append(f"Step {number} saves no cash.")
    commits = any(isinstance(step, Reserve) for step in plan.steps)
    return Answer(
        kind="plan",
        title=plan.name,
        period=context.period or f"{context.hours:g} hours",
        today=today,
        scenario=scenario,
        figures={"obligation": round(run.obligation, 2)} if commits else {},
        assumptions=tuple(dict.fromkeys(run.assumptions)),
        time=tuple(run.time),
        findings=tuple(run.findings),
        tables=Rows.of("Business case", _COLUMNS, lines, _NOTE),
    )
