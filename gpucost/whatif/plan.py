"""Several changes over named groups of workloads, in order, each counted on what those before it left."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from gpucost import inputs
from gpucost.config.tables import TableFile, nearest
from gpucost.errors import DataError
from gpucost.periods import MS_PER_HOUR
from gpucost.records import record
from gpucost.whatif.answer import Answer, Assumption, Line, Position, Rows, stated
from gpucost.whatif.avoidable import why_not
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.curve import counted
from gpucost.whatif.flags import HOURS_PER_MONTH, to_decimal, total
from gpucost.whatif.fleet import Fleet, Node, Pod, PodKey, Price
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


_Amount = Annotated[Decimal, BeforeValidator(_plain), Field(gt=0, le=10**12, allow_inf_nan=False)]
_Count = Annotated[int, BeforeValidator(_plain), Field(ge=1)]
_Above = Annotated[float, BeforeValidator(_plain), Field(gt=0, allow_inf_nan=False)]
_FromZero = Annotated[float, BeforeValidator(_plain), Field(ge=0, allow_inf_nan=False)]
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
        if not filters and self.price_per_gpu_hour is None:
            raise ValueError(
                f"{self.name} is neither described (price_per_gpu_hour) nor read from the store ({', '.join(_FILTERS)})"
            )
        if (self.runs_per_day is None) != (self.hours_per_run is None):
            raise ValueError(f"{self.name} needs both runs_per_day and hours_per_run")
        if self.runs_per_day is not None and self.hours is not None:
            raise ValueError(f"{self.name} tells its hours twice: by runs_per_day and by hours")
        if (self.gb_per_start is None) != (self.price_per_gb is None):
            raise ValueError(f"{self.name} needs both gb_per_start and price_per_gb")
        if self.gb_per_start is not None and not filters and self.runs_per_day is None:
            raise ValueError(
                f"{self.name} starts never: gb_per_start needs runs_per_day, or a group of the store"
            )
        return self

    @property
    def is_stored(self) -> bool:
        return self.price_per_gpu_hour is None

    def described(self, start_ms: int, hours: float, days: float) -> Nodes:
        """Its pods over a period of `hours`; runs of a day follow one another on the same GPUs."""
        length, count = (hours if self.hours is None else self.hours), float(self.pods)
        if self.runs_per_day is not None and self.hours_per_run is not None:
            count, length = self.pods * self.runs_per_day, days * self.hours_per_run
        price = _price(self.price_per_gpu_hour or Decimal(0), self.gpus_per_pod)
        node = Node("", float(self.gpus_per_pod), start_ms, start_ms + round(length * MS_PER_HOUR), price)
        whole = [replace(node, name=f"{self.name}/{number}") for number in range(int(count))]
        part = replace(
            node, name=f"{self.name}/part", to_ms=start_ms + round(length * (count % 1) * MS_PER_HOUR)
        )
        return [*whole, part] if part.to_ms > start_ms else whole  # two and a half runs a day


class _Step(_Table):
    """A change of some groups; what is known of its risk, effort and confidence may stand with it."""

    change: str
    groups: Annotated[_Names, Field(min_length=1)]
    risk: str = ""
    effort: Literal["", "low", "medium", "high"] = ""
    confidence: Literal["", "low", "medium", "high"] = ""

    usual: ClassVar[str] = "medium"

    @property
    def usual_effort(self) -> str:
        return self.usual

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

    only: ClassVar[tuple[str, ...]] = ()  # capacity types that move; none named: all

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


class Spot(_OnSpot):
    """On spot nodes where it runs today. What is on spot already stays, as does what is reserved and paid anyway."""

    change: Literal["spot"] = "spot"
    price_per_gpu_hour: _Amount

    only: ClassVar[tuple[str, ...]] = ("on_demand", "unknown")


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
    cache_read_price_per_gb: Annotated[Decimal, BeforeValidator(_plain), Field(ge=0, allow_inf_nan=False)] = (
        Decimal(0)
    )
    versions: _Count = 1

    @property
    def is_cached(self) -> bool:
        return self.cache_price_per_gb_month is not None

    @property
    def usual_effort(self) -> str:
        return "medium" if self.is_cached else "high"

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

    usual: ClassVar[str] = "low"


class Schedule(_Step):
    """GPUs for a part of the time alone."""

    change: Literal["schedule"] = "schedule"
    active_percent: Annotated[_Above, Field(le=100)] | None = None
    active_hours_per_day: Annotated[_Above, Field(le=24)] | None = None

    usual: ClassVar[str] = "low"

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


def _lasting(node: Node, times: float, of: float = 1) -> Node:
    return replace(node, to_ms=node.from_ms + round(node.length_ms * times / of))


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

    groups: tuple[str, ...]
    kinds: frozenset[tuple[str | None, str | None]]
    gpus: int
    price_per_gpu_hour: Decimal

    def covers(self, group: str, node: Node) -> bool:
        """Whether it holds for the node: other GPUs and spot it is no help for."""
        return group in self.groups and node.capacity_type == "on_demand" and _kind(node) in self.kinds


@record
class Stage:
    """How things are after a step: the groups' nodes, what moving data costs each group, and what was committed to.

    `staying` names the nodes that stand for a part of a machine, or for one that is paid in any case (`kept`): freeing them saves
    no cash.
    """

    nodes: Groups
    charges: Mapping[str, Decimal]
    commitments: tuple[Commitment, ...] = ()
    staying: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()


def answer(plan: Plan, context: Context) -> Answer:
    """What each step, each category and the whole plan save. Raises DataError where a step cannot be done."""
    context = replace(context, days=plan.days or context.days)
    start, starts, twice = _today(plan, context)
    stages = _stages(plan, start, starts, plan.steps, context)
    costs = _costs(stages, context)
    totals = [total(of_groups.values()) for of_groups in costs]
    savings = [before - after for before, after in pairwise(totals)]
    steps = list(zip(range(1, len(savings) + 1), plan.steps, savings, strict=True))
    today, scenario = (_position(totals[at], context.currency, _paid(stages[at], context)) for at in (0, -1))
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
                {"step": number, "change": step.change, "groups": step.groups, "saving": saving}
                for number, step, saving in steps
            ],
        },
        assumptions=tuple(_assumptions(plan, context, start)),
        break_even=_break_even(plan, start, starts, context, savings, today.cost),
        time=tuple(
            f"Step {number} ({', '.join(step.groups)}): {_takes(step, stages[number - 1])}"
            for number, step, _ in steps
        ),
        findings=tuple(_findings(steps, twice, len(start.staying))),
        tables=(
            _by_category(plan, costs[0], costs[-1]),
            Rows(
                "Business case",
                ("step", "change", "groups", "today", "after", "saving", "risk", "effort", "confidence"),
                tuple(
                    (
                        number,
                        step.change,
                        ", ".join(step.groups),
                        round(totals[number - 1], 2),
                        round(totals[number], 2),
                        round(saving, 2),
                        step.risk or _risk(step, stages[number - 1], stages[number], context),
                        step.effort or step.usual_effort,
                        step.confidence or _confidence(step, plan),
                    )
                    for number, step, saving in steps
                ),
                "Each step is counted on what the steps before it left.",
            ),
            *_queues(plan, stages, context),
        ),
    )


def _today(plan: Plan, context: Context) -> tuple[Stage, Mapping[str, float], int]:
    """Things as they are, each group's starts, and how many more times pods were named.

    A pod is in the first stored group alone that holds it, on a node of its own at its share of the price of the node that it
    was on.
    """
    seen: set[tuple[PodKey, str, int]] = set()
    staying: set[str] = set()
    paid_anyway: set[str] = set()
    nodes: dict[str, Nodes] = {
        group.name: group.described(context.start_ms, context.hours, context.days) for group in plan.groups
    }
    starts = {
        group.name: group.runs_per_day * group.pods * context.days
        for group in plan.groups
        if group.runs_per_day
    }
    for name in (group.name for group in plan.groups if group.is_stored):
        fleet = context.fleets[name]
        places = fleet.by_name
        new = {key: pod for pod in fleet.pods if (key := (pod.key, pod.node, pod.from_ms)) not in seen}
        nodes[name] = [
            replace(
                places[pod.place].sized(pod.gpus, f"{name}/{number}"),
                from_ms=pod.from_ms,
                to_ms=pod.to_ms,
                cluster="default",
            )
            for number, pod in enumerate(new.values())
        ]
        for number, pod in enumerate(new.values()):
            if why_not(places[pod.place]):
                paid_anyway.add(f"{name}/{number}")
            if pod.gpus < places[pod.place].gpus - _ROUNDING or why_not(places[pod.place]):
                staying.add(f"{name}/{number}")
        first = max(context.start_ms, min((node.from_ms for node in fleet.nodes), default=0))
        starts[name] = len({pod.key for pod in new.values() if pod.from_ms > first})
        seen |= new.keys()
    charges = {
        group.name: (group.gb_per_start or 0)
        * (group.price_per_gb or 0)
        * to_decimal(starts.get(group.name, 0))
        for group in plan.groups
    }
    return (
        Stage(nodes, charges, staying=frozenset(staying), kept=frozenset(paid_anyway)),
        starts,
        sum(len(fleet.pods) for fleet in context.fleets.values()) - len(seen),
    )


def _stages(
    plan: Plan, start: Stage, starts: Mapping[str, float], steps: Sequence[Step], context: Context
) -> list[Stage]:
    """Things today, and after each step."""
    groups = {group.name: group for group in plan.groups}
    stages = [start]
    for step in steps:
        now = stages[-1]
        match step:
            case Reserve():
                now = replace(now, commitments=(*now.commitments, _committed(step, now, context)))
            case Move(is_cached=True):
                cached = {
                    name: _cached(step, groups[name], starts[name], context)
                    for name in step.groups
                    if name in starts
                }
                now = replace(now, charges={**now.charges, **cached})
            case _:
                staying = now.kept if isinstance(step, Move) else frozenset()
                if isinstance(step, Share | Schedule):
                    staying = now.staying
                edited = {}
                for name in step.groups:
                    going = [node for node in now.nodes[name] if node.name not in staying]
                    kept = [node for node in now.nodes[name] if node.name in staying]
                    edited[name] = [*kept, *_edited(step, groups[name], going, context)]
                left = {
                    name: [node for node in nodes if node.to_ms > node.from_ms]
                    for name, nodes in edited.items()
                }
                now = replace(now, nodes={**now.nodes, **left})
                if isinstance(step, Move):
                    first, moved = step.groups[0], to_decimal(step.egress_gb or 0) * (step.price_per_gb or 0)
                    now = replace(now, charges={**now.charges, first: now.charges[first] + moved})
        stages.append(now)
    return stages


def _edited(
    step: Share | Spot | Move | Rightsize | Schedule, group: Group, nodes: Nodes, context: Context
) -> Nodes:
    """The group's nodes once the step is done. Raises DataError where it cannot be done."""
    match step:
        case Share():
            return _shared(step, group, nodes)
        case Spot() | Move():
            # described runs of a day share a node
            waits = context.days if group.runs_per_day is not None else 1.0
            minutes = step.wait_minutes or 0 if isinstance(step, Move) else 0
            wait_ms = round(waits * minutes * MS_PER_HOUR / 60)
            return [part for node in nodes for part in _on_spot(node, step, wait_ms)]
        case Rightsize():
            return [
                _priced(node, step, float(step.gpus_per_pod or node.gpus), step.time_factor) for node in nodes
            ]
        case Schedule(active_percent=float(percent)):
            return [_lasting(node, percent, 100) for node in nodes]
    hours = step.active_hours_per_day or 0
    if group.is_stored:
        # on which days a pod was there is its own affair: of each day the same share
        return [_lasting(node, hours, 24) for node in nodes]
    kept = round(hours * context.days * MS_PER_HOUR)
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


def _committed(step: Reserve, stage: Stage, context: Context) -> Commitment:
    """What the step commits to: so many GPUs, or as many as cost least for what is not committed yet."""
    nodes = [
        node
        for group, own in _paid(stage, context).items()
        for node in own
        if group in step.groups and node.capacity_type == "on_demand"
    ]
    gpus = step.gpus
    if gpus is None:
        gpu_hours = sum(node.hours * node.gpus for node in nodes)
        mean = sum(node.mean_price * node.hours for node in nodes) / gpu_hours if gpu_hours else 0.0
        curve = counted(
            ((node.from_ms, node.to_ms, node.gpus) for node in nodes), context.start_ms, context.end_ms
        )
        gpus = curve.best_level(float(step.price_per_gpu_hour) / mean) if mean else 0
    return Commitment(tuple(step.groups), frozenset(map(_kind, nodes)), gpus, step.price_per_gpu_hour)


def _cached(step: Move, group: Group, starts: float, context: Context) -> Decimal:
    """What the group's data costs with a cache: each version fetched once, kept, and read at each start."""
    if group.gb_per_start is None or group.price_per_gb is None:
        raise DataError(
            f"{group.name} downloads nothing that a cache could keep",
            "gb_per_start and price_per_gb say what",
        )
    kept = (step.cache_price_per_gb_month or Decimal(0)) * to_decimal(context.hours) / HOURS_PER_MONTH
    read = step.cache_read_price_per_gb * to_decimal(starts)
    return round(group.gb_per_start * (group.price_per_gb * step.versions + kept + read), 9)


def _paid(stage: Stage, context: Context) -> Groups:
    """The nodes as they are paid: what a commitment holds at its price, and what of it nobody used on a node of its own."""
    paid = {group: list(nodes) for group, nodes in stage.nodes.items()}
    for number, commitment in enumerate(stage.commitments):
        held = [
            (group, node) for group, nodes in paid.items() for node in nodes if commitment.covers(group, node)
        ]
        parts = list(_held(held, commitment, number))
        for group in commitment.groups:
            paid[group] = [node for node in paid[group] if not commitment.covers(group, node)]
        for group, node in parts:
            paid[group].append(node)
        used = sum(node.hours * node.gpus for _, node in parts if node.capacity_type == "reserved")
        unused = round((commitment.gpus * context.hours - used) / max(commitment.gpus, 1) * MS_PER_HOUR)
        if unused > 0 and commitment.gpus:
            price = _price(commitment.price_per_gpu_hour, commitment.gpus)
            start = context.start_ms
            node = Node(
                f"commitment {number}", float(commitment.gpus), start, start + unused, price, "reserved"
            )
            paid[commitment.groups[0]].append(node)
    return paid


def _held(
    nodes: Sequence[tuple[str, Node]], commitment: Commitment, number: int
) -> Iterator[tuple[str, Node]]:
    """The nodes in parts: what the commitment holds, at its price, and the rest as it was. Those that began first come first."""
    free = float(commitment.gpus)
    order = sorted(nodes, key=lambda one: (one[1].from_ms, one[1].name))
    held = [[(node.from_ms, 0.0)] for _, node in order]  # by node: since when it holds how many GPUs
    ends: list[tuple[int, int]] = []  # of nodes that are up, by their number in order of time
    waiting: deque[int] = deque()

    def take(moment: int) -> None:
        """Give what is free to those that wait, first come first."""
        nonlocal free
        while free > _ROUNDING and waiting:
            _, node = order[waiting[0]]
            _, had = held[waiting[0]][-1]
            more = min(free, node.gpus - had)
            if more <= _ROUNDING or node.to_ms <= moment:
                waiting.popleft()
                continue
            held[waiting[0]].append((moment, had + more))
            free -= more

    def end_until(moment: float) -> None:
        nonlocal free
        while ends and ends[0][0] <= moment:
            until, at = heapq.heappop(ends)
            free += held[at][-1][1]
            take(until)

    for at, (_, node) in enumerate(order):
        end_until(node.from_ms)
        heapq.heappush(ends, (node.to_ms, at))
        waiting.append(at)
        take(node.from_ms)
    end_until(math.inf)
    for (group, node), changes in zip(order, held, strict=True):
        for (since, gpus), (until, _) in pairwise([*changes, (node.to_ms, 0.0)]):
            for count, kind in ((gpus, "reserved"), (node.gpus - gpus, node.capacity_type)):
                if count > _ROUNDING and since < until:
                    part = node.sized(count, f"{node.name}/{number}.{since}.{kind}")
                    prices = (
                        _price(commitment.price_per_gpu_hour, count) if kind == "reserved" else part.prices
                    )
                    yield group, replace(part, from_ms=since, to_ms=until, capacity_type=kind, prices=prices)


def _shared(step: Share, group: Group, nodes: Nodes) -> Nodes:
    free = 1 - step.headroom_percent / 100
    busy = (step.utilization_percent or 0.0) / 100 * (1 + step.margin_percent / 100)
    if busy * 2 > free + _ROUNDING:
        raise DataError(
            f"pods of {group.name} are {step.utilization_percent:g} % busy: with the margins no two of them share a GPU",
            "leave out that step, or margin_percent and headroom_percent say otherwise",
        )
    single = [node for node in nodes if abs(node.gpus - 1) < _ROUNDING]
    items = [PackedPod(node, busy, 0.0, node.from_ms, node.to_ms) for node in single]
    shared = []
    for gpu in pack(items, slots(activity=free, ways=step.ways)):
        shared.append(replace(gpu.first, from_ms=gpu.from_ms, to_ms=gpu.to_ms))
    return [*shared, *(node for node in nodes if abs(node.gpus - 1) >= _ROUNDING)]


def _costs(stages: Sequence[Stage], context: Context) -> list[dict[str, Decimal]]:
    """What each group costs in each stage: groups are workloads of the stage's fleet."""
    fleets = []
    for stage in stages:
        fleet = Fleet()
        for group, nodes in _paid(stage, context).items():
            pods = (
                Pod(node.name, group, node.gpus, node.from_ms, node.to_ms, uid=node.name) for node in nodes
            )
            fleet += Fleet(tuple(nodes), tuple(pods))
        fleets.append(fleet)
    costs = [fleet_costs(fleet) for fleet in fleets]
    return [
        {
            name: one.by_workload.get(("default", "default", name), Decimal(0)) + stage.charges[name]
            for name in stage.nodes
        }
        for stage, one in zip(stages, costs, strict=True)
    ]


def _position(cost: Decimal, currency: str, paid: Groups) -> Position:
    nodes = [node for own in paid.values() for node in own]
    gpu_hours, hours = (
        sum(node.length_ms * (node.gpus if gpus else 1) for node in nodes) / MS_PER_HOUR
        for gpus in (True, False)
    )
    return Position(cost, currency, round(gpu_hours, 9), round(hours, 9))


def _by_category(plan: Plan, before: Mapping[str, Decimal], after: Mapping[str, Decimal]) -> Rows:
    categories: dict[str, list[str]] = {}
    for group in plan.groups:
        categories.setdefault(group.category or group.name, []).append(group.name)
    lines: list[Line] = []
    for category, names in [*categories.items(), ("total", list(before))]:
        then, now = (total(costs[name] for name in names) for costs in (before, after))
        percent = round(float((then - now) / then * 100), 1) if then else None
        lines.append((category, round(then, 6), round(now, 6), round(then - now, 6), percent))
    return Rows("Before and after", ("category", "before", "after", "saving", "saving_percent"), tuple(lines))


def _break_even(
    plan: Plan,
    start: Stage,
    starts: Mapping[str, float],
    context: Context,
    savings: Sequence[Decimal],
    today: Decimal,
) -> tuple[str, ...]:
    """What is left of the plan without the step that it rests on most."""
    if max(savings) <= 0:
        return ("No step saves anything.",)
    top = savings.index(max(savings))
    step = plan.steps[top]
    without = [*plan.steps[:top], *plan.steps[top + 1 :]]
    (costs,) = _costs(_stages(plan, start, starts, without, context)[-1:], context)
    left = today - total(costs.values())
    return (f"Without step {top + 1} ({step}) the rest of the plan saves {left:,.2f}.",)


def _takes(step: Step, stage: Stage) -> str:
    """What the step does to the time that work takes."""
    match step:
        case Share():
            return "pods take turns; while several of a GPU are busy, each is slower by as many."
        case Schedule():
            return (
                "there are no GPUs the rest of the time, and they have to come up again before work goes on."
            )
        case Rightsize():
            return f"work takes {step.time_factor:g} times as long."
        case Reserve():
            return "no work waits: they are the same machines."
        case Move(is_cached=True):
            return (
                "a start reads the cache; the time that saves is not counted: gpucost whatif move counts it."
            )
    nodes = {
        (node.provider, *_kind(node)): node
        for group in step.groups
        for node in stage.nodes[group]
        if step.moves(node)
    }
    factors = [step.factor(node) for node in nodes.values()] or [1.0]
    least, most = min(factors), max(factors)
    span = f"{least:.3f} to {most:.3f}" if most - least > _ROUNDING else f"{most:.3f}"
    slower = (
        f"work takes {span} times as long"
        if most > 1
        else "work takes as long as it did: no interruptions are counted"
    )
    return (
        f"{slower}; each start waits {step.wait_minutes:g} min more."
        if isinstance(step, Move)
        else f"{slower}."
    )


def _used(before: Stage, after: Stage, context: Context) -> str:
    """How much of the newest commitment's GPU-hours is used."""
    gpus = after.commitments[-1].gpus
    if not gpus:
        return "nothing is worth committing to"
    hours = [
        sum(node.hours * node.gpus for own in _paid(stage, context).values() for node in own)
        for stage in (before, after)
    ]
    used = 1 - (hours[1] - hours[0]) / (gpus * context.hours)
    return f"{used * 100:.1f} % used in the period"


def _risk(step: Step, stage: Stage, after: Stage, context: Context) -> str:
    """What may go wrong with the step, in short."""
    match step:
        case Share():
            return "pods of a GPU slow each other, and share its memory unguarded"
        case Schedule():
            return "who needs GPUs at other hours has none"
        case Rightsize():
            return f"work may not take {step.time_factor:g} times as long: try it first"
        case Move(is_cached=True):
            return "one more thing to run; a stale cache serves old data"
        case Reserve():
            return f"paid for {step.term_years} year{'s' * (step.term_years > 1)}, used or not: {_used(stage, after, context)}"
    pods = [
        pod for name in step.groups for pod in (context.fleets[name].pods if name in context.fleets else ())
    ]
    owners = {pod.owner: pod for pod in pods}
    lost = sum(advise(pod.workload, pod.namespace, pod.workload_type).suits == NOT for pod in owners.values())
    rates = {
        step.rate(node).per_hour for name in step.groups for node in stage.nodes[name] if step.moves(node)
    }
    often = f"interrupted {max(rates, default=0.0):.3g} times a node-hour"
    return often + (f"; {lost} of {len(owners)} workloads lose state or requests then" if lost else "")


def _confidence(step: Step, plan: Plan) -> str:
    """high: usage is measured and every number given; medium: some are defaults; low: usage is described."""
    stored = {group.name for group in plan.groups if group.is_stored}
    if not stored.issuperset(step.groups):
        return "low"
    own = {*Schedule.model_fields, "on_demand_share", "price_per_gb", "gpus", "gpus_per_pod"}
    asked = step.keys - own
    if isinstance(step, Spot | Move) and step.interruptions_per_hour == 0:
        asked -= {*_CHECKPOINTS}
    return "high" if asked <= step.model_fields_set else "medium"


_P = 0.05  # of work waits longer than the 95th percentile


def _queues(plan: Plan, stages: Sequence[Stage], context: Context) -> tuple[Rows, ...]:
    """How full each group's GPUs are and how long work waits for them, before and after, if none are added."""
    lines: list[Line] = []
    for group in plan.groups:
        before, after = (stages[at].nodes[group.name] for at in (0, -1))
        most, _ = peak(before, lambda node: node.gpus) if group.is_stored else (0, 0)
        gpus = group.capacity_gpus or math.ceil(most - _ROUNDING)
        if not gpus:
            continue
        moves = next(
            (
                step
                for step in plan.steps
                if isinstance(step, Move) and not step.is_cached and group.name in step.groups
            ),
            None,
        )
        if group.runs_per_day is not None:
            now, then = (_by_formula(group, steps, before[0], gpus) for steps in ([], plan.steps))
        else:
            now, then = (_replayed(nodes, gpus, context) for nodes in (before, after))
        if moves:
            then = 0.0, moves.wait_minutes or 0.0
        figures = [_rounded(one) for pair in zip(now, then, strict=True) for one in pair]
        lines.append((group.name, gpus, *figures))
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


def _rounded(value: float) -> float | None:
    return round(value, 1) if math.isfinite(value) else None


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
    for step in (step for step in steps if group.name in step.groups):
        match step:
            case Spot() | Move(is_cached=False):
                kept = step.on_demand_share or 0.0
                hours *= kept + (1 - kept) * step.factor(node)
            case Rightsize():
                hours, each = hours * step.time_factor, float(step.gpus_per_pod or each)
            case Share():
                there *= step.ways if each == 1 else 1
            case Schedule():
                there *= (step.active_percent or 0) / 100 or (step.active_hours_per_day or 0) / 24
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


def _findings(steps: Sequence[tuple[int, Step, Decimal]], twice: int, staying: int) -> Iterator[str]:
    if staying and any(isinstance(step, Share | Schedule) for _, step, _ in steps):
        yield (
            f"{staying} pods hold parts of nodes, or nodes that are paid in any case: to share or schedule them frees GPUs on "
            "nodes that stay, and saves no cash. gpucost whatif share shows what it frees."
        )
    for number, step, saving in steps:
        if saving < 0:
            yield f"Step {number} ({step}) costs {-saving:,.2f} more than it saves."
    if twice:
        yield f"{twice} pods are named by several groups: each counts in the first of them alone."
    sharing = [step for _, step, _ in steps if isinstance(step, Share)]
    if any(step.utilization_percent is None for step in sharing):
        yield "A step shares GPUs without utilization_percent: as many pods as ways says are taken to fit."
    if sharing:
        yield "Sharing by time slicing keeps nothing apart, and memory is not looked at here: gpucost whatif share does."


def _assumptions(plan: Plan, context: Context, start: Stage) -> Iterator[Assumption]:
    source = "store" if context.period else "default"
    yield Assumption("always on", context.hours, "hours", source)
    yield Assumption("what counts per day runs", context.days, "days", context.file if plan.days else source)
    for group in plan.groups:
        if group.is_stored:
            named = ", ".join(name for key in _FILTERS for name in getattr(group, key))
            yield Assumption(f"{group.name}: usage and prices", f"{named}, {context.period}", "", "store")
        else:
            yield Assumption(f"{group.name}: price", group.price_per_gpu_hour, "per GPU-hour", context.file)
        for key in _OF_ANY:
            if (value := getattr(group, key)) is not None:
                yield Assumption(f"{group.name}: {key}", value, "", context.file)
    for number, step in enumerate(plan.steps, start=1):
        name = f"step {number}, {step.change}"
        for key in type(step).model_fields:
            value = getattr(step, key)
            if key in step.keys and value is not None:
                yield Assumption(
                    f"{name}: {key}", value, "", context.file if key in step.model_fields_set else "default"
                )
        if isinstance(step, Spot) or (isinstance(step, Move) and not step.is_cached):
            nodes = [node for group in step.groups for node in start.nodes[group] if step.moves(node)]
            if step.interruptions_per_hour is None:
                rates = {rate.source: rate for rate in map(step.rate, nodes)}
                for rate in rates.values():
                    yield rate_assumption(rate, f"{name}: interruptions")
            if step.interruptions_per_hour != 0:
                for one, key in zip(stated(step.options, *_CHECKPOINTS), _CHECKPOINTS, strict=True):
                    if key not in step.model_fields_set:
                        yield replace(one, name=f"{name}: {one.name}")
