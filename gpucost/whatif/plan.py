"""Several changes over named groups of workloads, in order, each counted on what those before it left."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from gpucost.config.load import Key, line_numbers
from gpucost.errors import DataError
from gpucost.periods import MS_PER_HOUR
from gpucost.records import record
from gpucost.suggest import did_you_mean
from gpucost.whatif.answer import Answer, Assumption, Position, Rows, Value
from gpucost.whatif.flags import HOURS_PER_MONTH
from gpucost.whatif.fleet import Fleet, Node, Pod, Price, Scenario
from gpucost.whatif.share import PackedPod, pack, slots
from gpucost.whatif.spot.simulate import Work, exact

_HINT = "gpucost whatif plan --example prints a plan with all that matters"
_FILTERS = ("teams", "namespaces", "workloads", "clusters")
_ROUNDING = 1e-6
_DAYS = 30.0

Nodes = Sequence[Node]
Stage = Mapping[str, Nodes]  # group -> its nodes


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
    teams: _Names = []
    namespaces: _Names = []
    workloads: _Names = []
    clusters: _Names = []

    @model_validator(mode="after")
    def _described_or_stored(self) -> Group:
        filters = [key for key in _FILTERS if key in self.model_fields_set]
        describing = sorted(self.model_fields_set - {"name", "category", *_FILTERS})
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
        return self

    @property
    def is_stored(self) -> bool:
        return self.price_per_gpu_hour is None

    def described(self, hours: float, days: float) -> Nodes:
        """Its pods over a period of `hours`; runs of a day follow one another on the same GPUs."""
        length, count = (hours if self.hours is None else self.hours), float(self.pods)
        if self.runs_per_day is not None and self.hours_per_run is not None:
            count, length = self.pods * self.runs_per_day, days * self.hours_per_run
        price = _price(self.price_per_gpu_hour or Decimal(0), self.gpus_per_pod)
        node = Node("", float(self.gpus_per_pod), 0, round(length * MS_PER_HOUR), price)
        whole = [replace(node, name=f"{self.name}/{number}") for number in range(int(count))]
        part = replace(node, name=f"{self.name}/part", to_ms=round(length * (count % 1) * MS_PER_HOUR))
        return [*whole, part] if part.to_ms > 0 else whole  # two and a half runs a day


class _Step(_Table):
    """A change of some groups."""

    change: str
    groups: Annotated[_Names, Field(min_length=1)]

    def __str__(self) -> str:
        return f"{self.change} of {', '.join(self.groups)}"


class Share(_Step):
    """Up to `ways` pods with one GPU each on one GPU, at the price of the first; what holds several GPUs keeps them."""

    change: Literal["share"] = "share"
    ways: Annotated[_Count, Field(le=48)]
    utilization_percent: _Percent | None = None
    margin_percent: _FromZero = 10.0
    headroom_percent: Annotated[_FromZero, Field(le=90)] = 20.0

    time: ClassVar[str] = "pods take turns; while several of a GPU are busy, each is slower by as many."


class Spot(_Step):
    """Spot nodes, whose work takes longer by its interruptions."""

    change: Literal["spot"] = "spot"
    price_per_gpu_hour: _Amount
    interruptions_per_hour: _FromZero = 0.0
    checkpoint_minutes: _Above | None = None
    checkpoint_write_minutes: _FromZero = 0.0
    restart_minutes: _FromZero = 0.0
    on_demand_share: Annotated[_FromZero, Field(lt=1)] | None = None

    @model_validator(mode="after")
    def _has_checkpoints(self) -> Spot:
        if self.interruptions_per_hour and self.checkpoint_minutes is None:
            raise ValueError("with interruptions spot needs checkpoint_minutes")
        return self

    @property
    def factor(self) -> float:
        """Paid hours per useful hour, exactly for exponential interruptions (whatif/spot/simulate.py)."""
        if self.checkpoint_minutes is None:
            return 1.0
        saved, write, restart = self.checkpoint_minutes, self.checkpoint_write_minutes, self.restart_minutes
        return exact(Work(self.interruptions_per_hour, saved / 60, write / 60, restart / 60))

    @property
    def time(self) -> str:
        if self.factor > 1:
            return f"work takes {self.factor:.3f} times as long."
        return "work takes as long as it did: no interruptions are counted."


class Schedule(_Step):
    """GPUs for a part of the time alone."""

    change: Literal["schedule"] = "schedule"
    active_percent: Annotated[_Above, Field(le=100)] | None = None
    active_hours_per_day: Annotated[_Above, Field(le=24)] | None = None

    time: ClassVar[str] = "there are no GPUs the rest of the time, and they have to come up again before work goes on."

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

    @property
    def time(self) -> str:
        return f"work takes {self.time_factor:g} times as long."


Step = Share | Spot | Schedule | Rightsize
_STEPS: dict[str, type[Step]] = {"share": Share, "spot": Spot, "schedule": Schedule, "rightsize": Rightsize}


class Plan(_Table):
    """A plan as its file has it. `days` None: 30, or those of the period read from the store."""

    name: str = ""
    days: _Above | None = None
    groups: Annotated[list[Group], Field(min_length=1)]
    steps: Annotated[list[Annotated[Step, Field(discriminator="change")]], Field(min_length=1)]


def _price(per_gpu_hour: Decimal, gpus: float) -> tuple[Price, ...]:
    return (Price(round(per_gpu_hour * Decimal(str(gpus)), 9), "plan"),)


def _lasting(node: Node, times: float, of: float = 1) -> Node:
    return replace(node, to_ms=node.from_ms + round(node.length_ms * times / of))


def read_plan(path: Path) -> Plan:
    """The plan in a file. Raises DataError, naming file, line and key, and the nearest key that there is."""
    try:
        text = path.read_text(encoding="utf-8")
        plan = Plan.model_validate(tomllib.loads(text, parse_float=Decimal))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}", _HINT) from None
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path} is no TOML: {error}", _HINT) from None
    except ValidationError as error:
        raise _wrong(path, line_numbers(text), error) from None
    names = [group.name for group in plan.groups]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise _at(path, line_numbers(text), ("groups", number, "name"), f"there are two groups called {name!r}")
    for number, step in enumerate(plan.steps):
        if unknown := next((name for name in step.groups if name not in names), None):
            message = f"there is no group {unknown!r}"
            raise _at(path, line_numbers(text), ("steps", number, "groups"), message, _nearest(unknown, names))
    return plan.model_copy(update={"name": plan.name or path.stem})


_SHOULD_BE = {
    "model_type": "should be a table",
    "list_type": "should be a list",
    "decimal_type": "should be a number",
    "int_type": "should be a whole number",
    "int_from_float": "should be a whole number",
}


def _wrong(path: Path, lines: Mapping[Key, int], error: ValidationError) -> DataError:
    """The first error; unknown keys before what is missing without them."""
    detail = min(error.errors(include_url=False), key=lambda one: one["type"] != "extra_forbidden")
    kind, loc, fix = detail["type"], detail["loc"], _HINT
    table: type[BaseModel] = Group if loc[0] == "groups" and len(loc) > 1 else Plan
    if loc[0] == "steps" and len(loc) > 2:  # the change stands in it as well
        table, loc = _STEPS[str(loc[2])], (*loc[:2], *loc[3:])
    key = "" if len(loc) == 2 else str(loc[0] if len(loc) == 1 else loc[2])
    message = detail["msg"].removeprefix("Value error, ").replace("Input should", "should")
    if kind == "extra_forbidden":
        message, fix = f"unknown key {key!r}", _nearest(key, table.model_fields)
    elif kind == "missing":
        message = f"{table.__name__.lower()} needs {key}"
    elif kind.startswith("union_tag"):
        change = detail.get("ctx", {}).get("tag", "")
        loc = (*loc[:2], "change")
        message, fix = f"{change!r} is no change" if change else "a step without a change", _nearest(change, _STEPS)
    elif key:
        value = detail["input"]
        message = f"{key}: {_SHOULD_BE.get(kind, message)}, got {repr(value) if isinstance(value, str) else value}"
    return _at(path, lines, loc, message, fix)


def _at(path: Path, lines: Mapping[Key, int], loc: Key, message: str, fix: str = _HINT) -> DataError:
    line = lines.get(loc[:3]) or lines.get(loc[:2])
    where = f"{path}, line {line}" if line else f"{path}"
    place = f" in [[{loc[0]}]] {int(loc[1]) + 1}" if len(loc) > 1 else ""
    return DataError(f"{where}{place}: {message}", fix)


def _nearest(name: str, known: Collection[str]) -> str:
    return did_you_mean(name, known, f"there are {', '.join(known)}", cutoff=0.5, shown=repr)


@record
class Context:
    """`fleets`: usage of the groups that are read from the store; `hours` and `days` of their period, None without any."""

    currency: str
    fleets: Mapping[str, Fleet]
    period: str | None = None
    hours: float | None = None
    days: float | None = None
    file: str = "plan"


def answer(plan: Plan, context: Context) -> Scenario[Answer]:
    """What each step, each category and the whole plan save. Raises DataError where a step cannot be done."""
    hours = context.hours or HOURS_PER_MONTH
    days = plan.days or context.days or _DAYS
    start, twice = _today(plan, context, hours, days)
    stages = _stages(plan, start, plan.steps, days)
    costs = yield from _costs(stages)
    totals = [sum(of_groups.values(), Decimal(0)) for of_groups in costs]
    savings = [before - after for before, after in pairwise(totals)]
    steps = list(zip(range(1, len(savings) + 1), plan.steps, savings, strict=True))
    today, scenario = (_position(totals[at], context.currency, stages[at]) for at in (0, -1))
    return Answer(
        kind="plan",
        title=plan.name,
        period=context.period or f"{hours:g} hours",
        today=today,
        scenario=scenario,
        figures={
            "yearly_saving": round((today.cost - scenario.cost) * Decimal(str(round(8760 / hours, 12))), 2),
            "steps": [
                {"step": number, "change": step.change, "groups": step.groups, "saving": saving} for number, step, saving in steps
            ],
        },
        assumptions=tuple(_assumptions(plan, context, hours, days)),
        break_even=(yield from _break_even(plan, start, days, savings, today.cost)),
        time=tuple(f"Step {number} ({', '.join(step.groups)}): {step.time}" for number, step, _ in steps),
        findings=tuple(_findings(steps, twice)),
        tables=(
            _by_category(plan, costs[0], costs[-1]),
            Rows(
                "Step by step",
                ("step", "change", "groups", "cost_after", "saving"),
                tuple(
                    (number, step.change, ", ".join(step.groups), round(totals[number], 6), round(saving, 6))
                    for number, step, saving in steps
                ),
                "Each step is counted on what the steps before it left.",
            ),
        ),
    )


def _today(plan: Plan, context: Context, hours: float, days: float) -> tuple[Stage, int]:
    """The groups' nodes, a pod in the first stored group alone that holds it; and how many more times pods were named.

    A stored pod is on a node of its own at its share of the price of the node that it was on.
    """
    seen: set[tuple[tuple[str, str], str, int]] = set()
    stage: dict[str, Nodes] = {group.name: group.described(hours, days) for group in plan.groups}
    for name in (group.name for group in plan.groups if group.is_stored):
        fleet = context.fleets[name]
        nodes = fleet.by_name
        new = {key: pod for pod in fleet.pods if (key := (pod.key, pod.node, pod.from_ms)) not in seen}
        stage[name] = [nodes[pod.place].part(pod.gpus, pod, f"{name}/{number}") for number, pod in enumerate(new.values())]
        seen |= new.keys()
    return stage, sum(len(fleet.pods) for fleet in context.fleets.values()) - len(seen)


def _stages(plan: Plan, start: Stage, steps: Sequence[Step], days: float) -> list[Stage]:
    """The groups today, and after each step."""
    groups = {group.name: group for group in plan.groups}
    stages = [start]
    for step in steps:
        edited = {name: _edited(step, groups[name], stages[-1][name], days) for name in step.groups}
        left = {name: [node for node in nodes if node.to_ms > node.from_ms] for name, nodes in edited.items()}
        stages.append({**stages[-1], **left})
    return stages


def _edited(step: Step, group: Group, nodes: Nodes, days: float) -> Nodes:
    """The group's nodes once the step is done. Raises DataError where it cannot be done."""
    match step:
        case Share():
            return _shared(step, group, nodes)
        case Spot():
            if not math.isfinite(step.factor):
                raise DataError(
                    "with so many interruptions nothing is ever finished on spot",
                    "fewer interruptions_per_hour, or more checkpoints",
                )
            return [part for node in nodes for part in _on_spot(node, step)]
        case Rightsize():
            return [_priced(node, step, float(step.gpus_per_pod or node.gpus), step.time_factor) for node in nodes]
        case Schedule(active_percent=float(percent)):
            return [_lasting(node, percent, 100) for node in nodes]
    hours = step.active_hours_per_day or 0
    if group.is_stored:
        # on which days a pod was there is its own affair: of each day the same share
        return [_lasting(node, hours, 24) for node in nodes]
    kept = round(hours * days * MS_PER_HOUR)
    return [replace(node, to_ms=min(node.to_ms, node.from_ms + kept)) for node in nodes]


def _priced(node: Node, step: Spot | Rightsize, gpus: float, times: float) -> Node:
    """The node with so many GPUs, of any model, at the step's price, up so many times as long."""
    return replace(_lasting(node, times), gpus=gpus, gpu_model=None, prices=_price(step.price_per_gpu_hour, gpus))


def _on_spot(node: Node, step: Spot) -> Iterator[Node]:
    """The node on spot, and what of it stays on demand."""
    share = step.on_demand_share or 0.0
    yield replace(_priced(node, step, node.gpus * (1 - share), step.factor), capacity_type="spot")
    if share:
        part = Decimal(str(share))
        prices = tuple(replace(price, per_node_hour=round(price.per_node_hour * part, 9)) for price in node.prices)
        yield replace(node, name=f"{node.name}/on-demand", gpus=node.gpus * share, prices=prices)


def _shared(step: Share, group: Group, nodes: Nodes) -> Nodes:
    free = 1 - step.headroom_percent / 100
    busy = (step.utilization_percent or 0.0) / 100 * (1 + step.margin_percent / 100)
    if busy * 2 > free + _ROUNDING:
        raise DataError(
            f"pods of {group.name} are {step.utilization_percent:g} % busy: with the margins no two of them share a GPU",
            "leave out that step, or margin_percent and headroom_percent say otherwise",
        )
    single = {node.name: node for node in nodes if abs(node.gpus - 1) < _ROUNDING}
    items = [PackedPod(name, busy, 0.0, node.from_ms, node.to_ms) for name, node in single.items()]
    shared = []
    for gpu in pack(items, slots(activity=free, memory_mib=None, ways=step.ways)):
        first = single[gpu.items[0].key]
        prices = (replace(first.prices[0], from_ms=None), *first.prices[1:]) if first.prices else ()
        shared.append(replace(first, from_ms=gpu.from_ms, to_ms=gpu.to_ms, prices=prices))
    return [*shared, *(node for node in nodes if node.name not in single)]


def _costs(stages: Sequence[Stage]) -> Scenario[list[dict[str, Decimal]]]:
    """What each group costs in each stage: stages are clusters of one fleet, groups its workloads."""
    fleet = Fleet()
    for number, stage in enumerate(stages):
        for group, own in stage.items():
            nodes = tuple(replace(node, cluster=f"stage-{number}") for node in own)
            pods = (Pod(n.name, group, n.gpus, n.from_ms, n.to_ms, uid=n.name, cluster=n.cluster) for n in nodes)
            fleet += Fleet(nodes, tuple(pods)).folded()
    (costs,) = yield (fleet,)
    return [
        {group: costs.by_workload.get((f"stage-{number}", "default", group), Decimal(0)) for group in stage}
        for number, stage in enumerate(stages)
    ]


def _position(cost: Decimal, currency: str, stage: Stage) -> Position:
    nodes = [node for own in stage.values() for node in own]
    gpu_hours, hours = (
        sum(node.length_ms * (node.gpus if gpus else 1) for node in nodes) / MS_PER_HOUR for gpus in (True, False)
    )
    return Position(cost, currency, round(gpu_hours, 9), round(hours, 9))


def _by_category(plan: Plan, before: Mapping[str, Decimal], after: Mapping[str, Decimal]) -> Rows:
    categories: dict[str, list[str]] = {}
    for group in plan.groups:
        categories.setdefault(group.category or group.name, []).append(group.name)
    lines: list[tuple[Value, ...]] = []
    for category, names in [*categories.items(), ("total", list(before))]:
        then, now = (sum((costs[name] for name in names), Decimal(0)) for costs in (before, after))
        percent = round(float((then - now) / then * 100), 1) if then else None
        lines.append((category, round(then, 6), round(now, 6), round(then - now, 6), percent))
    return Rows("Before and after", ("category", "before", "after", "saving", "saving_percent"), tuple(lines))


def _break_even(plan: Plan, start: Stage, days: float, savings: Sequence[Decimal], today: Decimal) -> Scenario[tuple[str, ...]]:
    """What is left of the plan without the step that it rests on most."""
    if max(savings) <= 0:
        return ("No step saves anything.",)
    top = savings.index(max(savings))
    step = plan.steps[top]
    without = [*plan.steps[:top], *plan.steps[top + 1 :]]
    (costs,) = yield from _costs(_stages(plan, start, without, days)[-1:])
    left = today - sum(costs.values(), Decimal(0))
    return (f"Without step {top + 1} ({step}) the rest of the plan saves {left:,.2f}.",)


def _findings(steps: Sequence[tuple[int, Step, Decimal]], twice: int) -> Iterator[str]:
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


def _assumptions(plan: Plan, context: Context, hours: float, days: float) -> Iterator[Assumption]:
    source = "default" if context.hours is None else "store"
    yield Assumption("always on", hours, "hours", source)
    yield Assumption("what counts per day runs", days, "days", context.file if plan.days else source)
    for group in plan.groups:
        if group.is_stored:
            named = ", ".join(name for key in _FILTERS for name in getattr(group, key))
            yield Assumption(f"{group.name}: usage and prices", f"{named}, {context.period}", "", "store")
        else:
            yield Assumption(f"{group.name}: price", group.price_per_gpu_hour, "per GPU-hour", context.file)
    for number, step in enumerate(plan.steps, start=1):
        for key in type(step).model_fields:
            value = getattr(step, key)
            if key not in ("groups", "change") and value is not None:
                yield Assumption(f"step {number}, {step.change}: {key}", value, "", context.file)
