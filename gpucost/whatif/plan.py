"""Several changes over named groups of workloads, in order, each counted on what those before it left."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property, partial
from itertools import accumulate, chain, count, pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from gpucost import inputs
from gpucost.config.tables import TableFile, nearest
from gpucost.errors import DataError
from gpucost.options import Names
from gpucost.periods import MS_PER_HOUR
from gpucost.records import grouped, record
from gpucost.whatif.answer import Answer, Assumption, Line, Position, Rows, stated
from gpucost.whatif.avoidable import why_not
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.curve import counted
from gpucost.whatif.flags import HOURS_PER_MONTH, to_decimal, total
from gpucost.whatif.fleet import Fleet, Node, PodKey, Price, Scope
from gpucost.whatif.packing import PackedPod, pack, peak, slots
from gpucost.whatif.spot.advice import NOT, advise
from gpucost.whatif.spot.formulas import exact
from gpucost.whatif.spot.interruptions import Rate, prior_rate
from gpucost.whatif.spot.moves import SpotOptions, rate_assumption

_HINT = "gpucost whatif plan --example prints a plan with all that matters"
_FILTERS = ("teams", "namespaces", "workloads", "clusters")
_OF_ANY = ("capacity_gpus", "gb_per_start", "price_per_gb")  # keys of a group, described or stored
_ROUNDING = 1e-6
_DAYS = 30.0
_CHECKPOINTS = ("checkpoint_minutes", "checkpoint_write_minutes", "restart_minutes")

Nodes = Sequence[Node]
Groups = Mapping[str, Nodes]


def _plain(value: Any) -> Any:
    if isinstance(value, bool | str):
        raise ValueError("should be a number")
    return value


_PLAIN = BeforeValidator(_plain)
_Amount = Annotated[Decimal, _PLAIN, Field(gt=0, le=10**12, allow_inf_nan=False)]
_Count = Annotated[int, _PLAIN, Field(ge=1)]
_Above = Annotated[float, _PLAIN, Field(gt=0, allow_inf_nan=False)]
_FromZero = Annotated[float, _PLAIN, Field(ge=0, allow_inf_nan=False)]
_Percent = Annotated[_FromZero, Field(le=100)]
_Names = list[Annotated[str, Field(min_length=1)]]


class _Table(BaseModel):
    """A table of the file: no other keys than these."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Group(_Table):
    """Workloads of one kind. Described: `price_per_gpu_hour` is there; else the store's, by the four filters.

    Described pods run `hours` (None: the whole period), or `runs_per_day` times a day `hours_per_run`.
    """

    name: Annotated[str, Field(min_length=1)]
    category: str = ""  # the name, where there is none
    pods: Annotated[_Count, Field(le=100_000)] = 1
    gpus_per_pod: _Count = 1
    hours: _Above | None = None
    runs_per_day: _Above | None = None
    hours_per_run: _Above | None = None
    price_per_gpu_hour: _Amount | None = None
    capacity_gpus: _Count | None = None
    gb_per_start: _Amount | None = None
    price_per_gb: _Amount | None = None
    teams: _Names = []
    namespaces: _Names = []
    workloads: _Names = []
    clusters: _Names = []

    @model_validator(mode="after")
    def _described_or_stored(self) -> Group:
        filters = [key for key in _FILTERS if key in self.model_fields_set]
        describing = sorted(self.model_fields_set - {"name", "category", *_OF_ANY, *_FILTERS})
        if filters and describing:
            raise ValueError(f"{filters[0]} reads {self.name} from the store, {describing[0]} describes it")
        if not filters and not self.price_per_gpu_hour:
            raise ValueError(
                f"{self.name} is neither described (price_per_gpu_hour) nor read from the store ({', '.join(_FILTERS)})"
            )
        if bool(self.runs_per_day) != bool(self.hours_per_run):
            raise ValueError(f"{self.name} needs both runs_per_day and hours_per_run")
        if self.runs_per_day and self.hours:
            raise ValueError(f"{self.name} tells its hours twice: by runs_per_day and by hours")
        if bool(self.gb_per_start) != bool(self.price_per_gb):
            raise ValueError(f"{self.name} needs both gb_per_start and price_per_gb")
        if self.gb_per_start and not filters and not self.runs_per_day:
            raise ValueError(
                f"{self.name} starts never: gb_per_start needs runs_per_day, or a group of the store"
            )
        return self

    @property
    def is_stored(self) -> bool:
        return self.price_per_gpu_hour is None

    @property
    def scope(self) -> Scope:
        """What of the store it is."""
        return Scope(*map(tuple, (self.teams, self.namespaces, self.workloads, self.clusters)))

    def described(self, context: Context) -> Nodes:
        """Its pods over the period; runs of a day follow one another on the same GPUs."""
        length, pods = self.hours or context.hours, float(self.pods)
        if self.runs_per_day and self.hours_per_run:
            pods, length = self.pods * self.runs_per_day, context.days * self.hours_per_run
        price, start_ms = _price(self.price_per_gpu_hour or Decimal(0), self.gpus_per_pod), context.start_ms
        node = Node("", float(self.gpus_per_pod), start_ms, start_ms + round(length * MS_PER_HOUR), price)
        whole = [replace(node, name=f"{self.name}/{number}") for number in range(int(pods))]
        part = replace(_lasting(node, pods % 1), name=f"{self.name}/part")
        return [*whole, part] if part.length_ms else whole  # two and a half runs a day


class _Step(_Table):
    """A change of some groups; what is known of its risk, effort and confidence may stand with it."""

    change: str
    groups: Annotated[_Names, Field(min_length=1)]
    risk: str = ""
    effort: Literal["", "low", "medium", "high"] = ""
    confidence: Literal["", "low", "medium", "high"] = ""

    @property
    def kind(self) -> str:
        """What it is by `_USUAL`."""
        return self.change

    @property
    def keys(self) -> set[str]:
        """The keys of this change alone."""
        return set(type(self).model_fields) - set(_Step.model_fields)

    def __str__(self) -> str:
        return f"{self.change} of {', '.join(self.groups)}"


class Share(_Step):
    """Up to `ways` pods with one GPU each on one GPU, at the price of the first; what holds several GPUs keeps them."""

    change: Literal["share"] = "share"
    ways: Annotated[_Count, Field(le=48)]
    utilization_percent: _Percent | None = None
    margin_percent: _FromZero = 10.0
    headroom_percent: Annotated[_FromZero, Field(le=90)] = 20.0


class _OnSpot(_Step):
    """Spot nodes, whose work takes longer by its interruptions; what is not given is as `whatif spot` takes it."""

    interruptions_per_hour: _FromZero | None = None
    checkpoint_minutes: _Above | None = None
    checkpoint_write_minutes: _FromZero | None = None
    restart_minutes: _FromZero | None = None
    on_demand_share: Annotated[_FromZero, Field(lt=1)] | None = None

    only: ClassVar[Names] = ()  # capacity types that move; none named: all

    @property
    def options(self) -> SpotOptions:
        """How work goes on after an interruption."""
        return SpotOptions(
            **{name: value for name in _CHECKPOINTS if (value := getattr(self, name)) is not None}
        )

    def rate(self, node: Node) -> Rate:
        """Interruptions per node-hour: those given, otherwise the published rate of the family."""
        if self.interruptions_per_hour is not None:
            return Rate(self.interruptions_per_hour, "plan")
        return prior_rate(node.provider, node.region, node.instance_type or "")

    def factor(self, node: Node) -> float:
        """Paid hours per useful hour, exactly for exponential interruptions without notice (whatif/spot/formulas.py)."""
        rate = self.rate(node).per_hour
        return exact(replace(self.options.work(rate), notice=0.0)) if rate or self.checkpoint_minutes else 1.0

    def moves(self, node: Node) -> bool:
        """Whether the node is one that the step changes."""
        return not self.only or node.capacity_type in self.only

    def moving(self, stage: Stage) -> list[Node]:
        """The nodes that the step changes."""
        return list(filter(self.moves, _nodes(stage.nodes, self.groups)))


class Spot(_OnSpot):
    """On spot nodes where it runs today. What is on spot already stays, as does what is reserved and paid anyway."""

    change: Literal["spot"] = "spot"
    price_per_gpu_hour: _Amount

    only: ClassVar[Names] = ("on_demand", "unknown")


_CACHE = {"cache_price_per_gb_month", "cache_read_price_per_gb", "versions"}
_NEEDED = ("price_per_gpu_hour", "wait_minutes", "egress_gb")


class Move(_OnSpot):
    """Spot nodes elsewhere: each start waits on a paid node, and data moves there and back. Or only the data moves.

    With `cache_price_per_gb_month` a cache downloads each version of the groups' gb_per_start once; each start reads it there.
    """

    change: Literal["move"] = "move"
    price_per_gpu_hour: _Amount | None = None
    wait_minutes: _FromZero | None = None
    egress_gb: _FromZero | None = None
    price_per_gb: _Amount | None = None
    cache_price_per_gb_month: _Amount | None = None
    cache_read_price_per_gb: Annotated[Decimal, _PLAIN, Field(ge=0, allow_inf_nan=False)] = Decimal(0)
    versions: _Count = 1

    @property
    def is_cached(self) -> bool:
        return self.cache_price_per_gb_month is not None

    @property
    def kind(self) -> str:
        return "cache" if self.is_cached else self.change

    @property
    def keys(self) -> set[str]:
        return super().keys & _CACHE if self.is_cached else super().keys - _CACHE

    @model_validator(mode="after")
    def _of_work_or_data(self) -> Move:
        given = self.model_fields_set - set(_Step.model_fields)
        if self.is_cached and (others := sorted(given - self.keys)):
            raise ValueError(f"move with a cache takes no {others[0]}: it moves no work")
        missing = next((key for key in _NEEDED if key not in given), None)
        if not self.is_cached and missing:
            raise ValueError(f"move needs {missing}, or cache_price_per_gb_month")
        if self.egress_gb and self.price_per_gb is None:
            raise ValueError("with egress_gb move needs price_per_gb")
        return self


class Reserve(_Step):
    """`gpus` paid around the clock at the price of a commitment, whose term binds; what they don't hold stays as it is.

    `gpus` None: as many as cost least for what the steps before it left.
    """

    change: Literal["reserve"] = "reserve"
    price_per_gpu_hour: _Amount
    gpus: _Count | None = None
    term_years: Literal[1, 3] = 1


class Schedule(_Step):
    """GPUs for a part of the time alone."""

    change: Literal["schedule"] = "schedule"
    active_percent: Annotated[_Above, Field(le=100)] | None = None
    active_hours_per_day: Annotated[_Above, Field(le=24)] | None = None

    @property
    def share(self) -> float:
        """Of the time, 0-1."""
        return (self.active_percent or 0) / 100 or (self.active_hours_per_day or 0) / 24

    @model_validator(mode="after")
    def _one_of_both(self) -> Schedule:
        if (self.active_percent is None) == (self.active_hours_per_day is None):
            raise ValueError("schedule needs either active_percent or active_hours_per_day")
        return self


class Rightsize(_Step):
    """Other GPUs, on which work takes `time_factor` times as long."""

    change: Literal["rightsize"] = "rightsize"
    price_per_gpu_hour: _Amount
    gpus_per_pod: _Count | None = None
    time_factor: _Above = 1.0


Step = Share | Spot | Schedule | Rightsize | Reserve | Move
_STEPS: dict[str, type[Step]] = {kind.model_fields["change"].default: kind for kind in get_args(Step)}


class Plan(_Table):
    """A plan as its file has it. `days` None: 30, or those of the period read from the store."""

    name: str = ""
    days: _Above | None = None
    groups: Annotated[list[Group], Field(min_length=1)]
    steps: Annotated[list[Annotated[Step, Field(discriminator="change")]], Field(min_length=1)]


def _price(per_gpu_hour: Decimal, gpus: float) -> tuple[Price, ...]:
    return (Price(round(per_gpu_hour * to_decimal(gpus), 9), "plan"),)


def _lasting(node: Node, times: float) -> Node:
    return replace(node, to_ms=node.from_ms + round(node.length_ms * times))


def read_plan(path: Path) -> Plan:
    """The plan in a file. Raises DataError, naming file, line and key, and the nearest key that there is."""
    try:
        file = TableFile(path, inputs.text(path, inputs.SETTINGS), _STEPS, _HINT)
    except (OSError, UnicodeDecodeError) as error:
        raise inputs.unreadable(path, error, _HINT) from None
    plan = file.parsed(Plan)
    names = [group.name for group in plan.groups]
    file.unique("groups", names)
    for number, step in enumerate(plan.steps):
        if unknown := next((name for name in step.groups if name not in names), None):
            place = ("steps", number, "groups")
            raise file.error(place, f"there is no group {unknown!r}", nearest(unknown, names))
    return plan.model_copy(update={"name": plan.name or path.stem})


@record
class Context:
    """`fleets`: usage of the groups that are read from the store; `period` names theirs, None without such groups."""

    currency: str
    fleets: Mapping[str, Fleet]
    period: str | None = None
    hours: float = HOURS_PER_MONTH
    days: float = _DAYS
    file: str = "plan"
    start_ms: int = 0

    @property
    def end_ms(self) -> int:
        return self.start_ms + round(self.hours * MS_PER_HOUR)


@record
class Commitment:
    """`gpus` of the groups' nodes of these kinds, paid in all hours from the period's first to its last."""

    groups: Names
    kinds: frozenset[tuple[str | None, str | None]]
    gpus: int
    price_per_gpu_hour: Decimal

    def covers(self, node: Node) -> bool:
        """Whether it holds for a node of its groups: other GPUs and spot it is no help for."""
        return node.capacity_type == "on_demand" and _kind(node) in self.kinds


@dataclass(frozen=True)
class Stage:
    """How things are after a step: the groups' nodes, what moving data costs each group, and what was committed to.

    `starts` are those of each group that has some. `staying` names the nodes that stand for a part of a machine, and with True
    those that are paid in any case: freeing them saves no cash.
    """

    context: Context
    nodes: Groups
    charges: Mapping[str, Decimal]
    commitments: tuple[Commitment, ...] = ()
    starts: Mapping[str, float] = field(default_factory=dict)
    staying: Mapping[str, bool] = field(default_factory=dict)

    @cached_property
    def paid(self) -> Groups:
        """The nodes as they are paid: what a commitment holds at its price, and what of it nobody used on a node of its own."""
        paid, start = dict(self.nodes), self.context.start_ms
        for number, commitment in enumerate(self.commitments):
            gpus, price = commitment.gpus, commitment.price_per_gpu_hour
            holds = _holds(filter(commitment.covers, _nodes(paid, commitment.groups)), gpus)
            for group in commitment.groups:
                parts = (_parts(node, holds.get(node.name), price, number) for node in paid[group])
                paid[group] = list(chain.from_iterable(parts))
            used_ms = sum(
                (until - since) * held for since, until, held in chain.from_iterable(holds.values())
            )
            unused = round((gpus * self.context.hours * MS_PER_HOUR - used_ms) / max(gpus, 1))
            if unused > 0:
                node = Node(
                    f"commitment {number}",
                    float(gpus),
                    start,
                    start + unused,
                    _price(price, gpus),
                    "reserved",
                )
                paid[commitment.groups[0]] = [*paid[commitment.groups[0]], node]
        return paid

    @cached_property
    def costs(self) -> dict[str, Decimal]:
        """What each group costs."""
        return {
            group: fleet_costs(Fleet(tuple(nodes))).node_cost + self.charges[group]
            for group, nodes in self.paid.items()
        }

    @cached_property
    def total(self) -> Position:
        costs = fleet_costs(Fleet(tuple(_nodes(self.paid, self.paid))))
        cost = total(self.costs.values())
        return Position(cost, self.context.currency, costs.gpu_hours, costs.node_hours)


def _nodes(groups: Groups, names: Iterable[str]) -> list[Node]:
    """The nodes of these groups, each once."""
    return list(chain.from_iterable(groups[name] for name in dict.fromkeys(names)))


Spans = list[tuple[int, int, float]]


def _holds(nodes: Iterable[Node], gpus: int) -> Mapping[str, Spans]:
    """From when until when how many of `gpus` hold each node, by its name. Those that began first come first."""
    order = sorted(nodes, key=lambda node: (node.from_ms, node.name))
    begins = [(node.from_ms, True, at) for at, node in enumerate(order)]
    ends = [(node.to_ms, False, at) for at, node in enumerate(order)]
    changes = [[(node.from_ms, 0.0)] for node in order]
    free, first, begun = float(gpus), 0, 0  # nodes from `first` on, of those that began, wait for GPUs
    # at one moment, nodes that end make room for those that begin
    for moment, is_begin, at in sorted(begins + ends):
        if is_begin:
            begun = at + 1
        else:
            free += changes[at][-1][1]
            changes[at].append((moment, 0.0))
        while free > _ROUNDING and first < begun:
            node, own = order[first], changes[first]
            more = min(free, node.gpus - own[-1][1])
            if more <= _ROUNDING or node.to_ms <= moment:
                first += 1
                continue
            own.append((moment, own[-1][1] + more))
            free -= more
    holds: dict[str, Spans] = defaultdict(list)
    for node, own in zip(order, changes, strict=True):
        for (since, held), (until, _) in pairwise(own):
            if since < until:
                holds[node.name].append((since, until, held))
    return holds


def _parts(node: Node, spans: Spans | None, price: Decimal, number: int) -> Iterator[Node]:
    """What a commitment holds of a node, at its price, and the rest as it was; the node where it holds for no such nodes."""
    if spans is None:
        yield node
    for since, until, held in spans or ():
        for gpus, kind in ((held, "reserved"), (node.gpus - held, node.capacity_type)):
            if gpus > _ROUNDING:
                part = node.sized(gpus, f"{node.name}/{number}.{since}.{kind}")
                prices = _price(price, gpus) if kind == "reserved" else part.prices
                yield replace(part, from_ms=since, to_ms=until, capacity_type=kind, prices=prices)


class _Done(NamedTuple):
    """A step, and how things are before and after it."""

    number: int
    step: Step
    before: Stage
    after: Stage

    @property
    def saving(self) -> Decimal:
        return self.before.total.cost - self.after.total.cost


def answer(plan: Plan, context: Context) -> Answer:
    """What each step, each category and the whole plan save. Raises DataError where a step cannot be done."""
    context = replace(context, days=plan.days or context.days)
    start, twice = _today(plan, context)
    stages = _stages(plan, start, plan.steps)
    steps = [_Done(*parts) for parts in zip(count(1), plan.steps, stages, stages[1:], strict=False)]
    today, scenario = start.total, stages[-1].total
    return Answer(
        kind="plan",
        title=plan.name,
        period=context.period or f"{context.hours:g} hours",
        today=today,
        scenario=scenario,
        figures={
            "yearly_saving": round(
                (today.cost - scenario.cost) * to_decimal(round(8760 / context.hours, 12)), 2
            ),
            "steps": [
                {
                    "step": one.number,
                    "change": one.step.change,
                    "groups": one.step.groups,
                    "saving": one.saving,
                }
                for one in steps
            ],
        },
        assumptions=tuple(_assumptions(plan, start)),
        break_even=(_break_even(plan, steps),),
        time=tuple(
            f"Step {one.number} ({', '.join(one.step.groups)}): {_takes(one.step, one.before)}"
            for one in steps
        ),
        findings=tuple(_findings(steps, twice)),
        tables=(
            _by_category(plan, start, stages[-1]),
            _business_case(plan, steps),
            *_queues(plan, start, stages[-1]),
        ),
    )


def _today(plan: Plan, context: Context) -> tuple[Stage, int]:
    """Things as they are, and how many more times pods were named.

    A pod is in the first stored group alone that holds it, on a node of its own at its share of the price of the node that it
    was on.
    """
    seen: set[tuple[PodKey, str, int]] = set()
    nodes: dict[str, Nodes] = {}
    starts: dict[str, float] = {}
    staying: dict[str, bool] = {}
    for group in plan.groups:
        name = group.name
        if not group.is_stored:
            nodes[name] = group.described(context)
            if group.runs_per_day:
                starts[name] = group.runs_per_day * group.pods * context.days
            continue
        fleet = context.fleets[name]
        places = fleet.by_name
        pods = {(pod.key, pod.node, pod.from_ms): pod for pod in fleet.pods}
        new = [pod for key, pod in pods.items() if key not in seen]
        seen |= pods.keys()
        nodes[name] = held = []
        for number, pod in enumerate(new):
            place = places[pod.place]
            part = place.sized(pod.gpus, f"{name}/{number}")
            held.append(replace(part, from_ms=pod.from_ms, to_ms=pod.to_ms, cluster="default"))
            if pod.gpus < place.gpus - _ROUNDING or why_not(place):
                staying[part.name] = bool(why_not(place))
        first = max(context.start_ms, min((node.from_ms for node in fleet.nodes), default=0))
        starts[name] = len({pod.key for pod in new if pod.from_ms > first})
    charges = {
        group.name: (group.gb_per_start or 0)
        * (group.price_per_gb or 0)
        * to_decimal(starts.get(group.name, 0))
        for group in plan.groups
    }
    twice = sum(len(fleet.pods) for fleet in context.fleets.values()) - len(seen)
    return Stage(context, nodes, charges, (), starts, staying), twice


def _stages(plan: Plan, start: Stage, steps: Iterable[Step]) -> list[Stage]:
    """Things today, and after each step."""
    groups = {group.name: group for group in plan.groups}
    return list(accumulate(steps, partial(_after, groups), initial=start))


def _after(groups: Mapping[str, Group], now: Stage, step: Step) -> Stage:
    """Things once the step is done. Raises DataError where it cannot be done."""
    if isinstance(step, Reserve):
        return replace(now, commitments=(*now.commitments, _committed(step, now)))
    nodes, charges = dict(now.nodes), dict(now.charges)
    if isinstance(step, Move) and step.is_cached:
        charges |= {name: _cached(step, groups[name], now) for name in step.groups if name in now.starts}
        return replace(now, charges=charges)
    staying = {
        name
        for name, is_paid in now.staying.items()
        if isinstance(step, Share | Schedule) or (isinstance(step, Move) and is_paid)
    }
    for name in step.groups:
        going = [node for node in nodes[name] if node.name not in staying]
        kept = [node for node in nodes[name] if node.name in staying]
        edited = _edited(step, groups[name], going, now.context)
        nodes[name] = [node for node in (*kept, *edited) if node.length_ms > 0]
    if isinstance(step, Move):
        charges[step.groups[0]] += to_decimal(step.egress_gb or 0) * (step.price_per_gb or 0)
    return replace(now, nodes=nodes, charges=charges)


def _edited(
    step: Share | Spot | Move | Rightsize | Schedule, group: Group, nodes: Nodes, context: Context
) -> Iterable[Node]:
    """The group's nodes once the step is done. Raises DataError where it cannot be done."""
    match step:
        case Share():
            return _shared(step, group, nodes)
        case Spot() | Move():
            # described runs of a day share a node
            waits = context.days if group.runs_per_day else 1.0
            minutes = step.wait_minutes or 0 if isinstance(step, Move) else 0
            wait_ms = round(waits * minutes * MS_PER_HOUR / 60)
            return chain.from_iterable(_on_spot(node, step, wait_ms) for node in nodes)
        case Rightsize():
            return [
                _priced(node, step, float(step.gpus_per_pod or node.gpus), step.time_factor) for node in nodes
            ]
    if step.active_percent or group.is_stored:
        # on which days a pod was there is its own affair: of each day the same share
        return [_lasting(node, step.share) for node in nodes]
    kept = round(step.share * 24 * context.days * MS_PER_HOUR)
    return [replace(node, to_ms=min(node.to_ms, node.from_ms + kept)) for node in nodes]


def _priced(node: Node, step: Spot | Move | Rightsize, gpus: float, times: float) -> Node:
    """The node with so many GPUs, of any model, at the step's price, up so many times as long."""
    price = _price(step.price_per_gpu_hour or Decimal(0), gpus)
    return replace(_lasting(node, times), gpus=gpus, gpu_model=None, instance_type=step.change, prices=price)


def _on_spot(node: Node, step: Spot | Move, wait_ms: int) -> Iterator[Node]:
    """The node on spot, and what of it stays on demand."""
    if not step.moves(node):
        yield node
        return
    share, factor = step.on_demand_share or 0.0, step.factor(node)
    if not math.isfinite(factor):
        raise DataError(
            "with so many interruptions nothing is ever finished on spot",
            "fewer interruptions_per_hour, or more checkpoints",
        )
    moved = _priced(node, step, node.gpus * (1 - share), factor)
    yield replace(moved, capacity_type="spot", to_ms=moved.to_ms + wait_ms)
    if share:
        yield node.sized(node.gpus * share, f"{node.name}/on-demand")


def _kind(node: Node) -> tuple[str | None, str | None]:
    return node.gpu_model, node.instance_type


def _committed(step: Reserve, stage: Stage) -> Commitment:
    """What the step commits to: so many GPUs, or as many as cost least for what is not committed yet."""
    nodes = [node for node in _nodes(stage.paid, step.groups) if node.capacity_type == "on_demand"]
    gpus, costs = step.gpus, fleet_costs(Fleet(tuple(nodes)))
    if gpus is None:
        spans = ((node.from_ms, node.to_ms, node.gpus) for node in nodes)
        curve = counted(spans, stage.context.start_ms, stage.context.end_ms)
        cost = float(costs.node_cost)
        gpus = curve.best_level(float(step.price_per_gpu_hour) * costs.gpu_hours / cost) if cost else 0
    return Commitment(tuple(step.groups), frozenset(map(_kind, nodes)), gpus, step.price_per_gpu_hour)


def _cached(step: Move, group: Group, stage: Stage) -> Decimal:
    """What the group's data costs with a cache: each version fetched once, kept, and read at each start."""
    if not group.gb_per_start or not group.price_per_gb:
        raise DataError(
            f"{group.name} downloads nothing that a cache could keep",
            "gb_per_start and price_per_gb say what",
        )
    kept = (step.cache_price_per_gb_month or Decimal(0)) * to_decimal(stage.context.hours) / HOURS_PER_MONTH
    read = step.cache_read_price_per_gb * to_decimal(stage.starts[group.name])
    return round(group.gb_per_start * (group.price_per_gb * step.versions + kept + read), 9)


def _shared(step: Share, group: Group, nodes: Nodes) -> Nodes:
    free = 1 - step.headroom_percent / 100
    busy = (step.utilization_percent or 0.0) / 100 * (1 + step.margin_percent / 100)
    if busy * 2 > free + _ROUNDING:
        raise DataError(
            f"pods of {group.name} are {step.utilization_percent:g} % busy: with the margins no two of them share a GPU",
            "leave out that step, or margin_percent and headroom_percent say otherwise",
        )
    several = [node for node in nodes if abs(node.gpus - 1) >= _ROUNDING]
    items = [
        PackedPod(node, busy, 0.0, node.from_ms, node.to_ms)
        for node in nodes
        if abs(node.gpus - 1) < _ROUNDING
    ]
    gpus = pack(items, slots(activity=free, ways=step.ways))
    return [*(replace(gpu.first, from_ms=gpu.from_ms, to_ms=gpu.to_ms) for gpu in gpus), *several]


def _by_category(plan: Plan, before: Stage, after: Stage) -> Rows:
    categories = grouped((group.category or group.name, group.name) for group in plan.groups)
    lines: list[Line] = []
    for category, names in [*categories.items(), ("total", list(before.costs))]:
        then, now = (total(stage.costs[name] for name in names) for stage in (before, after))
        percent = round(float((then - now) / then * 100), 1) if then else None
        lines.append((category, round(then, 6), round(now, 6), round(then - now, 6), percent))
    return Rows("Before and after", ("category", "before", "after", "saving", "saving_percent"), tuple(lines))


def _business_case(plan: Plan, steps: Iterable[_Done]) -> Rows:
    columns = ("step", "change", "groups", "today", "after", "saving", "risk", "effort", "confidence")
    lines: list[Line] = []
    for one in steps:
        step, money = one.step, (one.before.total.cost, one.after.total.cost, one.saving)
        rounded = (round(amount, 2) for amount in money)
        lines.append(
            (
                one.number,
                step.change,
                ", ".join(step.groups),
                *rounded,
                step.risk or _risk(one),
                step.effort or _USUAL[step.kind][0],
                step.confidence or _confidence(step, plan),
            )
        )
    return Rows(
        "Business case", columns, tuple(lines), "Each step is counted on what the steps before it left."
    )


def _break_even(plan: Plan, steps: Sequence[_Done]) -> str:
    """What is left of the plan without the step that it rests on most."""
    top = max(steps, key=lambda one: one.saving)
    if top.saving <= 0:
        return "No step saves anything."
    start, others = steps[0].before, [one.step for one in steps if one is not top]
    left = start.total.cost - _stages(plan, start, others)[-1].total.cost
    return f"Without step {top.number} ({top.step}) the rest of the plan saves {left:,.2f}."


# What is usual of a change: the effort, the risk, and what it does to the time that work takes.
_USUAL = {
    "share": (
        "medium",
        "pods of a GPU slow each other, and share its memory unguarded",
        "pods take turns; while several of a GPU are busy, each is slower by as many.",
    ),
    "schedule": (
        "low",
        "who needs GPUs at other hours has none",
        "there are no GPUs the rest of the time, and they have to come up again before work goes on.",
    ),
    "rightsize": (
        "medium",
        "work may not take {time_factor:g} times as long: try it first",
        "work takes {time_factor:g} times as long.",
    ),
    "cache": (
        "medium",
        "one more thing to run; a stale cache serves old data",
        "a start reads the cache; the time that saves is not counted: gpucost whatif move counts it.",
    ),
    "reserve": ("low", "", "no work waits: they are the same machines."),
    "spot": ("medium", "", ""),
    "move": ("high", "", ""),
}


def _takes(step: Step, stage: Stage) -> str:
    """What the step does to the time that work takes."""
    if not isinstance(step, _OnSpot) or step.kind == "cache":
        return _USUAL[step.kind][2].format(**step.model_dump())
    factors = {step.factor(node) for node in step.moving(stage)} or {1.0}
    least, most = min(factors), max(factors)
    span = f"{least:.3f} to {most:.3f}" if most - least > _ROUNDING else f"{most:.3f}"
    slower = (
        f"work takes {span} times as long"
        if most > 1
        else "work takes as long as it did: no interruptions are counted"
    )
    waits = f"; each start waits {step.wait_minutes:g} min more" if isinstance(step, Move) else ""
    return f"{slower}{waits}."


def _used(done: _Done) -> str:
    """How much of the newest commitment's GPU-hours is used."""
    gpus = done.after.commitments[-1].gpus
    if not gpus:
        return "nothing is worth committing to"
    unused = done.after.total.gpu_hours - done.before.total.gpu_hours
    return f"{(1 - unused / (gpus * done.after.context.hours)) * 100:.1f} % used in the period"


def _risk(done: _Done) -> str:
    """What may go wrong with the step, in short."""
    step, fleets = done.step, done.before.context.fleets
    if isinstance(step, Reserve):
        return f"paid for {step.term_years} year{'s' * (step.term_years > 1)}, used or not: {_used(done)}"
    if not isinstance(step, _OnSpot) or step.kind == "cache":
        return _USUAL[step.kind][1].format(**step.model_dump())
    pods = chain.from_iterable(fleets[name].pods for name in step.groups if name in fleets)
    owners = {pod.owner: pod for pod in pods}
    lost = sum(advise(pod.workload, pod.namespace, pod.workload_type).suits == NOT for pod in owners.values())
    rates = (step.rate(node).per_hour for node in step.moving(done.before))
    often = f"interrupted {max(rates, default=0.0):.3g} times a node-hour"
    return often + (f"; {lost} of {len(owners)} workloads lose state or requests then" if lost else "")


def _confidence(step: Step, plan: Plan) -> str:
    """high: usage is measured and every number given; medium: some are defaults; low: usage is described."""
    if any(not group.is_stored for group in plan.groups if group.name in step.groups):
        return "low"
    needed = step.keys - {*Schedule.model_fields, "on_demand_share", "price_per_gb", "gpus", "gpus_per_pod"}
    if isinstance(step, _OnSpot) and step.interruptions_per_hour == 0:
        needed -= {*_CHECKPOINTS}
    return "high" if needed <= step.model_fields_set else "medium"


_P = 0.05  # of work waits longer than the 95th percentile


def _queues(plan: Plan, start: Stage, end: Stage) -> tuple[Rows, ...]:
    """How full each group's GPUs are and how long work waits for them, before and after, if none are added."""
    lines: list[Line] = []
    for group in plan.groups:
        before, after = (stage.nodes[group.name] for stage in (start, end))
        most, _ = peak(before, lambda node: node.gpus) if group.is_stored else (0, 0)
        gpus = group.capacity_gpus or math.ceil(most - _ROUNDING)
        if not gpus:
            continue
        steps = [step for step in plan.steps if group.name in step.groups and step.kind != "cache"]
        if group.runs_per_day:
            now, then = (_by_formula(group, some, before[0], gpus) for some in ([], steps))
        else:
            now, then = (_replayed(nodes, gpus, start.context) for nodes in (before, after))
        if moves := [step for step in steps if isinstance(step, Move)]:
            then = 0.0, moves[0].wait_minutes or 0.0
        figures = (now[0], then[0], now[1], then[1])
        rounded = (round(one, 1) if math.isfinite(one) else None for one in figures)
        lines.append((group.name, gpus, *rounded))
    note = (
        "If no GPUs are added. Waits of stored work are replayed, first come first served, on as many GPUs as it held at most;"
        " those of described runs follow from M/M/c queues. unknown: work comes faster than it is done."
    )
    columns = (
        "group",
        "gpus",
        "busy % today",
        "busy % after",
        "p95 wait minutes today",
        "p95 wait minutes after",
    )
    return Rows.of("Queueing", columns, lines, note)


def _replayed(nodes: Nodes, gpus: int, context: Context) -> tuple[float, float]:
    """Per cent of the GPU time in use, and the 95th percentile of waits in minutes, where work runs in the order that it came."""
    running: list[tuple[int, float]] = []
    free, now, waits = float(gpus), 0, []
    for node in sorted(nodes, key=lambda one: (one.from_ms, one.name)):
        now = max(now, node.from_ms)
        needed = min(node.gpus, float(gpus))
        while running and (running[0][0] <= now or free < needed - _ROUNDING):
            end, back = heapq.heappop(running)
            now, free = max(now, end), free + back
        waits.append(now - node.from_ms)
        free -= needed
        heapq.heappush(running, (now + node.length_ms, needed))
    used = sum(node.hours * node.gpus for node in nodes) / (gpus * context.hours) * 100
    rank = max(0, math.ceil((1 - _P) * len(waits)) - 1)
    return used, sorted(waits)[rank] / MS_PER_HOUR * 60 if waits else 0.0


def _by_formula(group: Group, steps: Iterable[Step], node: Node, gpus: int) -> tuple[float, float]:
    """The same of described runs that come at random (Poisson) and last exponentially long: Erlang's C formula for M/M/c.

    L. Kleinrock, Queueing Systems, vol. 1 (1975), section 3.5.
    """
    each, hours, there = float(group.gpus_per_pod), group.hours_per_run or 0.0, float(gpus)
    for step in steps:
        match step:
            case Spot() | Move():
                kept = step.on_demand_share or 0.0
                hours *= kept + (1 - kept) * step.factor(node)
            case Rightsize():
                hours, each = hours * step.time_factor, float(step.gpus_per_pod or each)
            case Share():
                there *= step.ways if each == 1 else 1
            case Schedule():
                there *= step.share
    servers = int(there / each + _ROUNDING)
    offered = (group.runs_per_day or 0.0) * group.pods / 24 * hours  # runs under way on the mean
    if not servers or offered >= servers:
        return offered * each / there * 100, math.inf
    blocked = 1.0
    for number in range(1, servers + 1):
        blocked = offered * blocked / (number + offered * blocked)
    waiting = blocked / (1 - offered / servers * (1 - blocked))
    wait = math.log(waiting / _P) * hours / (servers - offered) if waiting > _P else 0.0
    return offered / servers * 100, wait * 60


def _findings(steps: Sequence[_Done], twice: int) -> Iterator[str]:
    sharing = [one.step for one in steps if isinstance(one.step, Share)]
    staying = len(steps[0].before.staying)
    if staying and (sharing or any(isinstance(one.step, Schedule) for one in steps)):
        yield (
            f"{staying} pods hold parts of nodes, or nodes that are paid in any case: to share or schedule them frees GPUs on "
            "nodes that stay, and saves no cash. gpucost whatif share shows what it frees."
        )
    for one in steps:
        if one.saving < 0:
            yield f"Step {one.number} ({one.step}) costs {-one.saving:,.2f} more than it saves."
    if twice:
        yield f"{twice} pods are named by several groups: each counts in the first of them alone."
    if any(step.utilization_percent is None for step in sharing):
        yield "A step shares GPUs without utilization_percent: as many pods as ways says are taken to fit."
    if sharing:
        yield "Sharing by time slicing keeps nothing apart, and memory is not looked at here: gpucost whatif share does."


def _assumptions(plan: Plan, start: Stage) -> Iterator[Assumption]:
    context = start.context
    source, file = "store" if context.period else "default", context.file
    yield Assumption("always on", context.hours, "hours", source)
    yield Assumption("what counts per day runs", context.days, "days", file if plan.days else source)
    for group in plan.groups:
        if group.is_stored:
            stored = f"{group.scope}, {context.period}"
            yield Assumption(f"{group.name}: usage and prices", stored, "", "store")
        else:
            yield Assumption(f"{group.name}: price", group.price_per_gpu_hour, "per GPU-hour", file)
        for key, value in group:
            if key in _OF_ANY and value is not None:
                yield Assumption(f"{group.name}: {key}", value, "", file)
    for number, step in enumerate(plan.steps, start=1):
        name, given = f"step {number}, {step.change}", step.model_fields_set
        for key, value in step:
            if key in step.keys and value is not None:
                yield Assumption(f"{name}: {key}", value, "", file if key in given else "default")
        if not isinstance(step, _OnSpot) or step.kind == "cache":
            continue
        if step.interruptions_per_hour is None:
            rates = {rate.source: rate for rate in map(step.rate, step.moving(start))}
            for rate in rates.values():
                yield rate_assumption(rate, f"{name}: interruptions")
        if step.interruptions_per_hour != 0:
            for one, key in zip(stated(step.options, *_CHECKPOINTS), _CHECKPOINTS, strict=True):
                if key not in given:
                    yield replace(one, name=f"{name}: {one.name}")
