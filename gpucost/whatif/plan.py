"""Several changes to groups of workloads, in order; each is counted on what the steps before it left."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from gpucost.config.tables import TableFile, nearest
from gpucost.errors import DataError
from gpucost.periods import MS_PER_HOUR
from gpucost.records import grouped, record
from gpucost.whatif.answer import Answer, Assumption, Line, Position, Rows, stated
from gpucost.whatif.avoidable import why_not
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.curve import MONTH, Evidence, counted
from gpucost.whatif.flags import HOURS_PER_MONTH, HOURS_PER_YEAR, kept, to_decimal
from gpucost.whatif.fleet import Fleet, Node, PodKey, Price, Scope
from gpucost.whatif.packing import PackedPod, pack, slots
from gpucost.whatif.spot.advice import NOT, advise
from gpucost.whatif.spot.formulas import exact
from gpucost.whatif.spot.interruptions import Place, Rate, prior_rate
from gpucost.whatif.spot.moves import SpotOptions, rate_assumption

_HINT = "gpucost whatif plan --example prints a plan with all that matters"
_FILTERS = ("teams", "namespaces", "workloads", "clusters")
_TIMES = ("checkpoint_minutes", "checkpoint_write_minutes", "restart_minutes")
_ROUNDING = 1e-6
_COLUMNS = ("step", "change", "groups", "today", "after", "saving")
_NOTE = "Each step is counted on what the steps before it left."


def _number(value: Any) -> Any:
    if isinstance(value, bool | str):
        raise ValueError("should be a number")
    return value


_NUMBER = BeforeValidator(_number)
_Amount = Annotated[Decimal, _NUMBER, Field(gt=0, le=10**12, allow_inf_nan=False)]
_Count = Annotated[int, _NUMBER, Field(ge=1)]
_Above = Annotated[float, _NUMBER, Field(gt=0, allow_inf_nan=False)]
_FromZero = Annotated[float, _NUMBER, Field(ge=0, allow_inf_nan=False)]
_Names = list[Annotated[str, Field(min_length=1)]]


class _Table(BaseModel):
    """A table of the file: no other keys than these."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Group(_Table):
    """Workloads, described with `price_per_gpu_hour` or read from the store by the four filters.

    Each described pod runs for `hours` (None: the whole period).
    """

    name: Annotated[str, Field(min_length=1)]
    pods: Annotated[_Count, Field(le=100_000)] = 1
    gpus_per_pod: _Count = 1
    hours: _Above | None = None
    price_per_gpu_hour: _Amount | None = None
    teams: _Names = []
    namespaces: _Names = []
    workloads: _Names = []
    clusters: _Names = []

    @model_validator(mode="after")
    def _described_or_stored(self) -> Group:
        stored = self.model_fields_set & set(_FILTERS)
        described = self.model_fields_set - stored - {"name"}
        if bool(stored) == bool(described) or (described and not self.price_per_gpu_hour):
            raise ValueError(
                f"{self.name} needs price_per_gpu_hour, or {', '.join(_FILTERS)} and no other key"
            )
        return self

    @property
    def is_stored(self) -> bool:
        return self.price_per_gpu_hour is None

    @property
    def scope(self) -> Scope:
        """The part of the store that it names."""
        return Scope(*map(tuple, (self.teams, self.namespaces, self.workloads, self.clusters)))

    def described(self, context: Context) -> list[Node]:
        """Its pods as nodes of their own."""
        hours, prices = self.hours or context.hours, _prices(self.price_per_gpu_hour, self.gpus_per_pod)
        end_ms = context.start_ms + round(hours * MS_PER_HOUR)
        node = Node("", float(self.gpus_per_pod), context.start_ms, end_ms, prices)
        return [replace(node, name=f"{self.name}/{number}") for number in range(self.pods)]


class _Step(_Table):
    """A change to some groups."""

    change: str
    groups: Annotated[_Names, Field(min_length=1)]

    def __str__(self) -> str:
        return f"{self.change} of {', '.join(self.groups)}"


class Share(_Step):
    """Up to `ways` pods with one GPU each on one GPU, at the price of the first; pods with several GPUs keep them."""

    change: Literal["share"] = "share"
    ways: Annotated[_Count, Field(le=48)]
    utilization_percent: Annotated[_FromZero, Field(le=100)]
    margin_percent: _FromZero = 10.0
    headroom_percent: Annotated[_FromZero, Field(le=90)] = 20.0

    def applied(self, nodes: Sequence[Node]) -> list[Node]:
        free = 1 - self.headroom_percent / 100
        busy = self.utilization_percent / 100 * (1 + self.margin_percent / 100)
        if busy * 2 > free + _ROUNDING:
            raise DataError(
                f"{self}: pods {self.utilization_percent:g} % busy cannot share a GPU within the margins",
                "leave out that step",
            )
        several = [node for node in nodes if abs(node.gpus - 1) >= _ROUNDING]
        single = [node for node in nodes if abs(node.gpus - 1) < _ROUNDING]
        pods = [PackedPod(node, busy, 0.0, node.from_ms, node.to_ms) for node in single]
        packed = pack(pods, slots(activity=free, ways=self.ways))
        return [*(replace(gpu.first, from_ms=gpu.from_ms, to_ms=gpu.to_ms) for gpu in packed), *several]


class Spot(_Step):
    """Spot nodes in place of nodes on demand; interruptions make work longer."""

    change: Literal["spot"] = "spot"
    price_per_gpu_hour: _Amount
    interruptions_per_hour: _FromZero | None = None
    checkpoint_minutes: _Above | None = None

    @property
    def options(self) -> SpotOptions:
        """How work continues after an interruption."""
        minutes = self.checkpoint_minutes
        return SpotOptions(checkpoint_minutes=minutes) if minutes else SpotOptions()

    def moves(self, node: Node) -> bool:
        """Whether the step changes the node."""
        return node.capacity_type in ("on_demand", "unknown")

    def rate(self, node: Node) -> Rate:
        """Interruptions per node-hour: the plan's, otherwise the published rate of the family."""
        if self.interruptions_per_hour is not None:
            return Rate(self.interruptions_per_hour, "plan")
        return prior_rate(Place(node.instance_type or "", node.provider, node.region))

    def factor(self, node: Node) -> float:
        """Paid hours per useful hour (whatif/spot/formulas.py)."""
        rate = self.rate(node).per_hour
        return exact(self.options.work(rate)) if rate or self.checkpoint_minutes else 1.0

    def applied(self, nodes: Sequence[Node]) -> list[Node]:
        return [self._moved(node) if self.moves(node) else node for node in nodes]

    def _moved(self, node: Node) -> Node:
        factor = self.factor(node)
        if not math.isfinite(factor):
            raise DataError(
                f"{self}: with so many interruptions work never ends on spot",
                "fewer interruptions_per_hour, or more checkpoints",
            )
        prices = _prices(self.price_per_gpu_hour, node.gpus)
        return replace(_longer(node, factor), prices=prices, capacity_type="spot")


class Schedule(_Step):
    """GPUs for a part of the time only."""

    change: Literal["schedule"] = "schedule"
    active_percent: Annotated[_Above, Field(le=100)]

    def applied(self, nodes: Sequence[Node]) -> list[Node]:
        return [_longer(node, self.active_percent / 100) for node in nodes]


class Reserve(_Step):
    """`gpus` paid around the clock at the price of a commitment; the rest stays on demand.

    `gpus` None: as many as the rules of `whatif reserve` allow for what the steps before it left.
    """

    change: Literal["reserve"] = "reserve"
    price_per_gpu_hour: _Amount
    gpus: _Count | None = None
    term_years: Literal[1, 3] = 1


Step = Share | Spot | Schedule | Reserve
_STEPS: dict[str, type[Step]] = {kind.model_fields["change"].default: kind for kind in get_args(Step)}


class Plan(_Table):
    """A plan as its file has it."""

    name: str = ""
    groups: Annotated[list[Group], Field(min_length=1)]
    steps: Annotated[list[Annotated[Step, Field(discriminator="change")]], Field(min_length=1)]


def _prices(per_gpu_hour: Decimal | None, gpus: float) -> tuple[Price, ...]:
    return (Price(kept((per_gpu_hour or Decimal(0)) * to_decimal(gpus)), "plan"),)


def _longer(node: Node, times: float) -> Node:
    return replace(node, to_ms=node.from_ms + round(node.length_ms * times))


def read_plan(path: Path) -> Plan:
    """The plan in a file. Raises DataError with file, line and key, and the nearest key that exists."""
    file = TableFile.read(path, _STEPS, _HINT)
    plan = file.parsed(Plan)
    names = [group.name for group in plan.groups]
    file.unique("groups", names)
    reserved: set[str] = set()
    for number, step in enumerate(plan.steps):
        place = ("steps", number, "groups")
        for name in step.groups:
            if name not in names:
                raise file.error(place, f"there is no group {name!r}", nearest(name, names))
            if name in reserved:
                raise file.error(place, f"{name} is reserved already: its commitment comes last")
        if isinstance(step, Reserve):
            reserved.update(step.groups)
    return plan.model_copy(update={"name": plan.name or path.stem})


@record
class Context:
    """`fleets`: usage of the groups that are read from the store; `period` names theirs, None without such groups."""

    currency: str
    fleets: Mapping[str, Fleet]
    period: str | None = None
    hours: float = HOURS_PER_MONTH
    file: str = "plan"
    start_ms: int = 0
    evidence: Evidence = MONTH


class Stage(NamedTuple):
    """The groups' nodes after a step.

    `fixed` is what no step changes: nodes that are paid in any case, and commitments. `parts` names the nodes that
    stand for a part of a machine, and whether the group fills that machine.
    """

    nodes: Mapping[str, list[Node]]
    fixed: Position
    parts: Mapping[str, bool]
    obligation: Decimal = Decimal(0)

    @property
    def total(self) -> Position:
        """What everything costs."""
        return _position(self.fixed.currency, self.of(self.nodes)) + self.fixed

    def stays(self, node: Node, step: Step) -> bool:
        """Whether a step leaves the machine of this node, and so its price: sharing empties GPUs, not machines."""
        is_filled = self.parts.get(node.name)
        return is_filled is False or (is_filled is True and isinstance(step, Share))

    def of(self, groups: Iterable[str]) -> list[Node]:
        """The nodes of these groups, each once."""
        return list(chain.from_iterable(self.nodes[name] for name in dict.fromkeys(groups)))


def _position(currency: str, nodes: Sequence[Node]) -> Position:
    costs = fleet_costs(Fleet(tuple(nodes)))
    return Position(costs.node_cost, currency, costs.gpu_hours, costs.node_hours)


def answer(plan: Plan, context: Context) -> Answer:
    """What each step and the whole plan save. Raises DataError if a step is impossible."""
    stage, findings = _today(plan, context)
    today = scenario = stage.total
    assumptions = list(_assumptions(plan, stage, context))
    lines: list[Line] = []
    times: list[str] = []
    for number, step in enumerate(plan.steps, start=1):
        name, before, cost = f"Step {number} ({step})", stage, scenario.cost
        stage = _reserved(step, before, context) if isinstance(step, Reserve) else _changed(step, before)
        scenario = stage.total
        saving = cost - scenario.cost
        lines.append((number, step.change, ", ".join(step.groups), cost, scenario.cost, saving))
        findings += [f"{name}: {text}." for text in _findings(step, before, saving, context)]
        if isinstance(step, Spot):
            most = max(map(step.factor, filter(step.moves, before.of(step.groups))), default=1.0)
            times.append(f"{name}: work takes up to {most:.3f} times as long.")
    commits = any(isinstance(step, Reserve) for step in plan.steps)
    return Answer(
        kind="plan",
        title=plan.name,
        period=context.period or f"{context.hours:g} hours",
        today=today,
        scenario=scenario,
        figures={"obligation": round(stage.obligation, 2)} if commits else {},
        assumptions=tuple(assumptions),
        time=tuple(times),
        findings=tuple(findings),
        tables=Rows.of("Business case", _COLUMNS, lines, _NOTE),
    )


def _today(plan: Plan, context: Context) -> tuple[Stage, list[str]]:
    """Everything as it is, and notes about pods that count elsewhere or cannot be changed.

    Each pod counts in the first group that names it, on a node of its own at its share of its node's price.
    """
    seen: set[tuple[PodKey, str, int]] = set()
    nodes: dict[str, list[Node]] = {}
    fixed: list[Node] = []
    parts: dict[str, bool] = {}
    for group in plan.groups:
        own = nodes[group.name] = [] if group.is_stored else group.described(context)
        fleet = context.fleets.get(group.name, Fleet())
        places, filled = fleet.by_name, set(_filled(fleet))
        for pod in fleet.pods:
            key, place = (pod.key, pod.node, pod.from_ms), places[pod.place]
            if key in seen:
                continue
            seen.add(key)
            node = place.sized(pod.gpus, f"{group.name}/{len(seen)}")
            node = replace(node, from_ms=pod.from_ms, to_ms=pod.to_ms, cluster="default")
            (fixed if why_not(place) else own).append(node)
            if pod.gpus < place.gpus - _ROUNDING:
                parts[node.name] = pod.place in filled
    notes = []
    if fixed:
        notes.append(f"{len(fixed)} pods run on nodes that are paid in any case: no step changes them.")
    if twice := sum(len(fleet.pods) for fleet in context.fleets.values()) - len(seen):
        notes.append(f"{twice} pods are named by several groups: each counts in the first of them alone.")
    return Stage(nodes, _position(context.currency, fixed), parts), notes


def _filled(fleet: Fleet) -> Iterator[tuple[str, str]]:
    """The nodes that pods hold whole, from the start of the first to the end of the last."""
    for place, pods in grouped((pod.place, pod) for pod in fleet.pods).items():
        length = max(pod.to_ms for pod in pods) - min(pod.from_ms for pod in pods)
        used = sum(pod.gpu_ms for pod in pods)
        if used >= (fleet.by_name[place].gpus - _ROUNDING) * length:
            yield place


def _changed(step: Share | Spot | Schedule, now: Stage) -> Stage:
    """Everything after the step."""
    nodes = dict(now.nodes)
    for name in set(step.groups):
        staying = [node for node in nodes[name] if now.stays(node, step)]
        edited = step.applied([node for node in nodes[name] if not now.stays(node, step)])
        nodes[name] = [*staying, *(node for node in edited if node.length_ms > 0)]
    return now._replace(nodes=nodes)


def _reserved(step: Reserve, now: Stage, context: Context) -> Stage:
    """Everything after a commitment: its price in all hours, and for the GPUs above it their mean price.

    The curve is hourly, as in `whatif reserve`. No later step changes these groups (`read_plan`).
    """
    on_demand = [node for node in now.of(step.groups) if node.capacity_type == "on_demand"]
    costs = fleet_costs(Fleet(tuple(on_demand)))
    if not costs.node_cost:
        raise DataError(f"{step}: none of its GPUs are on demand", "leave out that step")
    end_ms = context.start_ms + round(context.hours * MS_PER_HOUR)
    curve = counted(((node.from_ms, node.to_ms, node.gpus) for node in on_demand), context.start_ms, end_ms)
    ratio = float(step.price_per_gpu_hour) * costs.gpu_hours / float(costs.node_cost)
    gpus = step.gpus or context.evidence.safe_level(curve, ratio)
    if not gpus:
        return now
    committed, above = gpus * curve.hours, costs.gpu_hours - curve.used(gpus)
    rest = costs.node_cost * to_decimal(above / costs.gpu_hours)
    cost = kept(step.price_per_gpu_hour * to_decimal(committed) + rest)
    gpu_hours = committed + above
    node_hours = costs.node_hours * gpu_hours / costs.gpu_hours
    paid = Position(cost, context.currency, round(gpu_hours, 6), round(node_hours, 6))
    left = dict(now.nodes)
    for name in step.groups:
        left[name] = [node for node in left[name] if node.capacity_type != "on_demand"]
    owed = step.price_per_gpu_hour * gpus * HOURS_PER_YEAR * step.term_years
    return Stage(left, now.fixed + paid, now.parts, now.obligation + owed)


def _findings(step: Step, before: Stage, saving: Decimal, context: Context) -> Iterator[str]:
    """What limits a step or may go wrong with it."""
    parts = sum(before.stays(node, step) for node in before.of(step.groups))
    if parts and not isinstance(step, Reserve):
        yield f"{parts} pods hold parts of nodes that stay, which saves no cash: see gpucost whatif {step.change}"
    if saving < 0:
        yield f"costs {-saving:,.2f} more than it saves"
    if isinstance(step, Reserve) and not step.gpus and context.evidence.shortage:
        yield context.evidence.shortage
    if isinstance(step, Share):
        yield "memory is not checked, and time slicing isolates nothing: see gpucost whatif share"
    if isinstance(step, Spot):
        fleets = [context.fleets[name] for name in step.groups if name in context.fleets]
        pods = {pod.owner: pod for pod in chain.from_iterable(fleet.pods for fleet in fleets)}.values()
        lost = sum(advise(pod.workload, pod.namespace, pod.workload_type).suits == NOT for pod in pods)
        if lost:
            yield f"an interruption loses state or requests of {lost} of {len(pods)} workloads"


def _assumptions(plan: Plan, start: Stage, context: Context) -> Iterator[Assumption]:
    yield Assumption("always on", context.hours, "hours", "store" if context.period else "default")
    for group in plan.groups:
        if group.is_stored:
            stored = f"{group.scope}, {context.period}"
            yield Assumption(f"{group.name}: usage and prices", stored, "", "store")
        else:
            yield Assumption(f"{group.name}: price", group.price_per_gpu_hour, "per GPU-hour", context.file)
    for number, step in enumerate(plan.steps, start=1):
        name, given = f"step {number}, {step.change}", step.model_fields_set
        for key, value in step:
            if key not in _Step.model_fields and value is not None:
                yield Assumption(f"{name}: {key}", value, "", context.file if key in given else "default")
        if not isinstance(step, Spot) or step.interruptions_per_hour == 0:
            continue
        if step.interruptions_per_hour is None:
            rates = {rate.source: rate for rate in map(step.rate, filter(step.moves, start.of(step.groups)))}
            yield from (rate_assumption(rate, f"{name}: interruptions") for rate in rates.values())
        times = stated(step.options, *(time for time in _TIMES if time not in given))
        yield from (replace(time, name=f"{name}: {time.name}") for time in times)
