"""Several changes over named groups of workloads, in order, each counted on what those before it left."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn

from gpucost.config.load import line_numbers
from gpucost.errors import DataError
from gpucost.periods import MS_PER_HOUR
from gpucost.whatif.answer import Answer, Assumption, Position, Rows, Value
from gpucost.whatif.fleet import HOURS_PER_MONTH, Fleet, Node, Pod, Price, Scenario
from gpucost.whatif.share import Item, pack, slots
from gpucost.whatif.spot.simulate import Work, exact


class Change(StrEnum):
    """What a step does."""

    share = "share"
    spot = "spot"
    schedule = "schedule"
    rightsize = "rightsize"


@dataclass(frozen=True, slots=True)
class Group:
    """Workloads of one kind. Described: `price_per_gpu_hour` is there; else the store's, by the four filters.

    Described pods run `hours` (None: the whole period), or `runs_per_day` times a day `hours_per_run`.
    """

    name: str
    category: str
    pods: int = 1
    gpus_per_pod: int = 1
    hours: float | None = None
    runs_per_day: float | None = None
    hours_per_run: float | None = None
    price_per_gpu_hour: Decimal | None = None
    teams: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()

    @property
    def is_stored(self) -> bool:
        return self.price_per_gpu_hour is None

    @property
    def filters(self) -> tuple[tuple[str, ...], ...]:
        return (self.teams, self.namespaces, self.workloads, self.clusters)


@dataclass(frozen=True, slots=True)
class Step:
    """A change of some groups; of the other fields those count that NEEDS and ALLOWS name for its `change`."""

    change: Change
    groups: tuple[str, ...]
    price_per_gpu_hour: Decimal | None = None
    interruptions_per_hour: float = 0.0
    checkpoint_minutes: float | None = None
    checkpoint_write_minutes: float = 0.0
    restart_minutes: float = 0.0
    ways: int | None = None
    utilization_percent: float | None = None
    margin_percent: float = 10.0
    headroom_percent: float = 20.0
    active_percent: float | None = None
    active_hours_per_day: float | None = None
    gpus_per_pod: int | None = None
    time_factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan as its file has it. `days` None: 30, or those of the period read from the store."""

    path: str
    name: str
    groups: tuple[Group, ...]
    steps: tuple[Step, ...]
    days: float | None = None


# Keys of each kind of step beside change and groups.
ALLOWS: Mapping[Change, tuple[str, ...]] = {
    Change.share: ("ways", "utilization_percent", "margin_percent", "headroom_percent"),
    Change.spot: (
        "price_per_gpu_hour", "interruptions_per_hour", "checkpoint_minutes", "checkpoint_write_minutes", "restart_minutes",
    ),
    Change.schedule: ("active_percent", "active_hours_per_day"),
    Change.rightsize: ("price_per_gpu_hour", "gpus_per_pod", "time_factor"),
}  # fmt: skip
NEEDS: Mapping[Change, tuple[str, ...]] = {
    Change.share: ("ways",),
    Change.spot: ("price_per_gpu_hour",),
    Change.schedule: (),
    Change.rightsize: ("price_per_gpu_hour",),
}
_TOP = ("name", "days", "groups", "steps")
_FILTERS = ("teams", "namespaces", "workloads", "clusters")
_DESCRIBING = ("pods", "gpus_per_pod", "hours", "runs_per_day", "hours_per_run", "price_per_gpu_hour")
_COUNTS = ("pods", "gpus_per_pod", "ways")
_MAY_BE_ZERO = (
    "interruptions_per_hour",
    "checkpoint_write_minutes",
    "restart_minutes",
    "utilization_percent",
    "margin_percent",
    "headroom_percent",
)
_AT_MOST = {
    "active_percent": 100,
    "utilization_percent": 100,
    "headroom_percent": 90,
    "active_hours_per_day": 24,
    "pods": 100_000,
    "ways": 48,
}
_HINT = "gpucost whatif plan --example prints a plan with all that matters"


def read_plan(path: Path) -> Plan:
    """The plan in a file. Raises DataError, naming file, line and key, and the nearest key that there is."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}", _HINT) from None
    try:
        return _Reader(str(path), text).plan(tomllib.loads(text, parse_float=Decimal))
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path} is no TOML: {error}", _HINT) from None


class _Reader:
    """One file: checks what stands in it, and knows on which line."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.lines = path, line_numbers(text)

    def plan(self, raw: Mapping[str, Any]) -> Plan:
        self._known(raw, _TOP, "", 0)
        groups = tuple(self._group(item, number) for number, item in enumerate(self._tables(raw, "groups")))
        names = [group.name for group in groups]
        for number, name in enumerate(names):
            if name in names[:number]:
                self._fail("groups", number, "name", f"there are two groups called {name!r}")
        steps = tuple(self._step(item, number, names) for number, item in enumerate(self._tables(raw, "steps")))
        days = self._number(raw, "days", "", 0)
        name = self._text(raw, "name", "", 0) or Path(self.path).stem
        return Plan(self.path, name, groups, steps, None if days is None else float(days))

    def _group(self, raw: Mapping[str, Any], number: int) -> Group:
        self._known(raw, tuple(field.name for field in fields(Group)), "groups", number)
        name = self._text(raw, "name", "groups", number)
        if not name:
            self._fail("groups", number, None, "a group without a name")
        given = [key for key in _FILTERS if key in raw]
        described = [key for key in _DESCRIBING if key in raw]
        if given and described:
            self._fail("groups", number, described[0], f"{given[0]} reads {name} from the store, {described[0]} describes it")
        if not given and "price_per_gpu_hour" not in raw:
            self._fail(
                "groups",
                number,
                None,
                f"{name} is neither described (price_per_gpu_hour) nor read from the store ({', '.join(_FILTERS)})",
            )
        if ("runs_per_day" in raw) != ("hours_per_run" in raw):
            self._fail("groups", number, None, f"{name} needs both runs_per_day and hours_per_run")
        if "runs_per_day" in raw and "hours" in raw:
            self._fail("groups", number, "hours", f"{name} tells its hours twice: by runs_per_day and by hours")
        numbers = {key: self._number(raw, key, "groups", number) for key in described}
        values: dict[str, Any] = {key: _typed(key, value) for key, value in numbers.items() if value is not None}
        values |= {key: self._names(raw, key, "groups", number) for key in given}
        return Group(name=name, category=self._text(raw, "category", "groups", number) or name, **values)

    def _step(self, raw: Mapping[str, Any], number: int, names: Sequence[str]) -> Step:
        text = self._text(raw, "change", "steps", number)
        if text not in list(Change):
            told = f"{text!r} is no change" if text else "a step without a change"
            self._fail("steps", number, "change", told, _nearest(text, [change.value for change in Change]))
        change = Change(text)
        allowed = ALLOWS[change]
        self._known(raw, ("change", "groups", *allowed), "steps", number)
        for key in NEEDS[change]:
            if key not in raw:
                self._fail("steps", number, None, f"{change} needs {key}")
        chosen = self._names(raw, "groups", "steps", number)
        if not chosen:
            self._fail("steps", number, None, f"{change} names no groups")
        for name in chosen:
            if name not in names:
                self._fail("steps", number, "groups", f"there is no group {name!r}", _nearest(name, names))
        if change is Change.schedule and ("active_percent" in raw) == ("active_hours_per_day" in raw):
            self._fail("steps", number, None, "schedule needs either active_percent or active_hours_per_day")
        numbers = {key: self._number(raw, key, "steps", number) for key in allowed}
        if numbers.get("interruptions_per_hour") and numbers.get("checkpoint_minutes") is None:
            self._fail("steps", number, "interruptions_per_hour", "with interruptions spot needs checkpoint_minutes")
        return Step(change, chosen, **{key: _typed(key, value) for key, value in numbers.items() if value is not None})

    def _tables(self, raw: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
        tables = raw.get(key)
        if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
            raise DataError(f"{self.path}: there is no [[{key}]]", _HINT)
        return tables

    def _known(self, raw: Mapping[str, Any], keys: Sequence[str], table: str, number: int) -> None:
        for key in raw:
            if key not in keys:
                self._fail(table, number, key, f"unknown key {key!r}", _nearest(key, keys))

    def _text(self, raw: Mapping[str, Any], key: str, table: str, number: int) -> str:
        value = raw.get(key, "")
        if not isinstance(value, str):
            self._fail(table, number, key, f"{key} is no text: {value}")
        return str(value)

    def _names(self, raw: Mapping[str, Any], key: str, table: str, number: int) -> tuple[str, ...]:
        value = raw.get(key, [])
        if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
            self._fail(table, number, key, f'{key} is no list of names: ["one", "another"]')
        return tuple(value)

    def _number(self, raw: Mapping[str, Any], key: str, table: str, number: int) -> Decimal | None:
        if key not in raw:
            return None
        value, most = raw[key], _AT_MOST.get(key)
        try:
            exact = Decimal("NaN") if isinstance(value, bool | str) else Decimal(value)
        except (InvalidOperation, TypeError, ValueError):
            exact = Decimal("NaN")
        good = exact.is_finite() and (exact > 0 or (exact == 0 and key in _MAY_BE_ZERO)) and (most is None or exact <= most)
        if not good or (key in _COUNTS and exact != int(exact)):
            kind = "whole number" if key in _COUNTS else "number"
            end = "" if most is None else f" and at most {most}"
            self._fail(table, number, key, f"{key} is no {kind} {'from' if key in _MAY_BE_ZERO else 'above'} 0{end}: {value}")
        return exact

    def _fail(self, table: str, number: int, key: str | None, message: str, fix: str | None = None) -> NoReturn:
        at: tuple[str | int, ...] = (table, number) if table else ()
        line = self.lines.get((*at, key) if key else at) or self.lines.get(at)
        where = f"{self.path}, line {line}" if line else self.path
        place = f" in [[{table}]] {number + 1}" if table else ""
        raise DataError(f"{where}{place}: {message}", fix or _HINT)


def _nearest(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"


def _typed(key: str, value: Decimal) -> Any:
    if key in _COUNTS:
        return int(value)
    return value if key == "price_per_gpu_hour" else float(value)


_ROUNDING = 1e-6

Nodes = tuple[Node, ...]


def described(group: Group, hours: float, days: float) -> Nodes:
    """The pods of a described group over a period of `hours`; runs of a day follow one another on the same GPUs."""
    if group.price_per_gpu_hour is None:
        raise ValueError(f"{group.name} is not described")
    each, count = (hours if group.hours is None else group.hours), float(group.pods)
    if group.runs_per_day is not None and group.hours_per_run is not None:
        count, each = group.pods * group.runs_per_day, days * group.hours_per_run
    price = Price(round(group.price_per_gpu_hour * group.gpus_per_pod, 9), "plan")
    node = Node("", float(group.gpus_per_pod), 0, round(each * MS_PER_HOUR), (price,))
    whole = tuple(replace(node, name=f"{group.name}/{number}") for number in range(int(count)))
    part = count - int(count)  # two and a half runs a day
    rest = replace(node, name=f"{group.name}/part", to_ms=round(each * part * MS_PER_HOUR))
    return (*whole, rest) if rest.to_ms > 0 else whole


def stored(group: Group, fleet: Fleet) -> Nodes:
    """The pods of the store, each on a node of its own at its share of the price of the node that it was on."""
    nodes = {(node.cluster, node.name): node for node in fleet.nodes}
    made = []
    for number, pod in enumerate(fleet.pods):
        node = nodes[pod.cluster, pod.node]
        made.append(node.part(pod.gpus, pod, f"{group.name}/{number}"))
    return tuple(made)


def apply(step: Step, group: Group, nodes: Nodes, days: float) -> Nodes:
    """The group's nodes once the step is done. Raises DataError where it cannot be done."""
    edits: dict[Change, Callable[[], Nodes]] = {
        Change.share: lambda: _share(step, group, nodes),
        Change.spot: lambda: tuple(_spot(step, node) for node in nodes),
        Change.schedule: lambda: tuple(_schedule(step, group, node, days) for node in nodes),
        Change.rightsize: lambda: tuple(_rightsize(step, node) for node in nodes),
    }
    return tuple(node for node in edits[step.change]() if node.to_ms > node.from_ms)


def spot_factor(step: Step) -> float:
    """Paid hours per useful hour on spot, exactly for exponential interruptions (whatif/spot/formulas.py)."""
    if step.checkpoint_minutes is None:
        return 1.0
    return exact(
        Work(
            step.interruptions_per_hour,
            step.checkpoint_minutes / 60,
            step.checkpoint_write_minutes / 60,
            step.restart_minutes / 60,
        )
    )


def _spot(step: Step, node: Node) -> Node:
    factor = spot_factor(step)
    if not math.isfinite(factor):
        raise DataError(
            "with so many interruptions nothing is ever finished on spot", "fewer interruptions_per_hour, or more checkpoints"
        )
    return replace(_priced(node, step), capacity_type="spot", to_ms=node.from_ms + round((node.to_ms - node.from_ms) * factor))


def _schedule(step: Step, group: Group, node: Node, days: float) -> Node:
    length = node.to_ms - node.from_ms
    if step.active_percent is not None:
        kept = round(length * step.active_percent / 100)
    elif group.is_stored:
        # on which days a pod was there is its own affair: of each day the same share
        kept = round(length * (step.active_hours_per_day or 0) / 24)
    else:
        kept = min(length, round((step.active_hours_per_day or 0) * days * MS_PER_HOUR))
    return replace(node, to_ms=node.from_ms + kept)


def _rightsize(step: Step, node: Node) -> Node:
    gpus = float(step.gpus_per_pod) if step.gpus_per_pod is not None else node.gpus
    end = node.from_ms + round((node.to_ms - node.from_ms) * step.time_factor)
    return _priced(replace(node, gpus=gpus, to_ms=end, gpu_model=None), step)


def _priced(node: Node, step: Step) -> Node:
    price = round((step.price_per_gpu_hour or Decimal(0)) * Decimal(str(node.gpus)), 9)
    return replace(node, prices=(Price(price, "plan"),))


def _share(step: Step, group: Group, nodes: Nodes) -> Nodes:
    """Up to `ways` pods with one GPU each on one GPU, at the price of the first; what holds several GPUs keeps them."""
    ways, free = step.ways or 1, 1 - step.headroom_percent / 100
    busy = (step.utilization_percent or 0.0) / 100 * (1 + step.margin_percent / 100)
    if busy * 2 > free + _ROUNDING:
        raise DataError(
            f"pods of {group.name} are {step.utilization_percent:g} % busy: with the margins no two of them share a GPU",
            "leave out that step, or margin_percent and headroom_percent say otherwise",
        )
    single = {node.name: node for node in nodes if abs(node.gpus - 1) < _ROUNDING}
    items = [Item(name, busy, 0.0, node.from_ms, node.to_ms) for name, node in single.items()]
    shared = []
    for gpu in pack(items, slots(activity=free, memory_mib=None, ways=ways)):
        first = single[gpu.items[0].key]
        prices = (replace(first.prices[0], from_ms=None), *first.prices[1:]) if first.prices else ()
        shared.append(replace(first, from_ms=gpu.from_ms, to_ms=gpu.to_ms, prices=prices))
    return (*shared, *(node for node in nodes if node.name not in single))


Stage = dict[str, Nodes]  # group -> its nodes

_DAYS = 30.0


@dataclass(frozen=True, slots=True)
class Context:
    """`fleets`: usage of the groups that are read from the store; `hours` and `days` of their period, None without any."""

    currency: str
    fleets: Mapping[str, Fleet]
    period: str | None = None
    hours: float | None = None
    days: float | None = None


def answer(plan: Plan, context: Context) -> Scenario[Answer]:
    """What each step, each category and the whole plan save. Raises DataError where a step cannot be done."""
    hours = context.hours or HOURS_PER_MONTH
    days = plan.days or context.days or _DAYS
    fleets, twice = _once(plan, context.fleets)
    start: Stage = {
        group.name: stored(group, fleets[group.name]) if group.is_stored else described(group, hours, days)
        for group in plan.groups
    }
    stages = _stages(plan, start, plan.steps, days)
    costs = yield from _costs(stages)
    savings = [_total(costs[number]) - _total(costs[number + 1]) for number in range(len(plan.steps))]
    today, scenario = (
        Position(_total(costs[at]), context.currency, _hours(stages[at], gpus=True), _hours(stages[at], gpus=False))
        for at in (0, len(stages) - 1)
    )
    return Answer(
        kind="plan",
        title=plan.name,
        period=context.period or f"{hours:g} hours",
        today=today,
        scenario=scenario,
        figures={
            "yearly_saving": round((today.cost - scenario.cost) * Decimal(str(round(8760 / hours, 12))), 2),
            "steps": [
                {"step": number, "change": step.change.value, "groups": list(step.groups), "saving": saving}
                for number, (step, saving) in enumerate(zip(plan.steps, savings, strict=True), start=1)
            ],
        },
        assumptions=_assumptions(plan, context, hours, days),
        break_even=(yield from _break_even(plan, start, days, savings, today.cost)),
        time=_time(plan),
        findings=_findings(plan, savings, twice),
        tables=(_by_category(plan, costs[0], costs[-1]), _by_step(plan, costs, savings)),
    )


def _once(plan: Plan, fleets: Mapping[str, Fleet]) -> tuple[dict[str, Fleet], int]:
    """The stored fleets, a pod in the first group alone that holds it; and how many more times pods were named."""
    seen: set[tuple[str, str, str, int]] = set()
    kept: dict[str, Fleet] = {}
    twice = 0
    for group in plan.groups:
        if group.is_stored:
            pods = []
            for pod in fleets[group.name].pods:
                key = (pod.cluster, pod.uid, pod.node, pod.from_ms)
                twice += key in seen
                if key not in seen:
                    pods.append(pod)
                seen.add(key)
            kept[group.name] = replace(fleets[group.name], pods=tuple(pods))
    return kept, twice


def _stages(plan: Plan, start: Stage, steps: Sequence[Step], days: float) -> list[Stage]:
    """The groups today, and after each step."""
    groups = {group.name: group for group in plan.groups}
    stages = [start]
    for step in steps:
        changed = {name: apply(step, groups[name], stages[-1][name], days) for name in step.groups}
        stages.append(stages[-1] | changed)
    return stages


def _costs(stages: Sequence[Stage]) -> Scenario[list[dict[str, Decimal]]]:
    """What each group costs in each stage: stages are clusters of one fleet, groups its workloads."""
    fleet = Fleet()
    for number, stage in enumerate(stages):
        for group, own in stage.items():
            nodes = tuple(replace(node, cluster=f"stage-{number}") for node in own)
            pods = (Pod(n.name, group, n.gpus, n.from_ms, n.to_ms, uid=n.name, cluster=n.cluster) for n in nodes)
            fleet += Fleet(nodes, tuple(pods)).folded()
    told = (yield (fleet,))[0].by_workload
    return [
        {group: told.get((f"stage-{number}", "default", group), Decimal(0)) for group in stage}
        for number, stage in enumerate(stages)
    ]


def _total(costs: Mapping[str, Decimal]) -> Decimal:
    return sum(costs.values(), Decimal(0))


def _hours(stage: Stage, *, gpus: bool) -> float:
    return round(
        sum((node.to_ms - node.from_ms) * (node.gpus if gpus else 1) for own in stage.values() for node in own) / MS_PER_HOUR, 9
    )


def _by_category(plan: Plan, before: Mapping[str, Decimal], after: Mapping[str, Decimal]) -> Rows:
    lines: list[tuple[Value, ...]] = []
    for category in dict.fromkeys(group.category for group in plan.groups):
        names = [group.name for group in plan.groups if group.category == category]
        lines.append(_line(category, sum((before[n] for n in names), Decimal(0)), sum((after[n] for n in names), Decimal(0))))
    lines.append(_line("total", _total(before), _total(after)))
    return Rows("Before and after", ("category", "before", "after", "saving", "saving_percent"), tuple(lines))


def _line(name: str, before: Decimal, after: Decimal) -> tuple[Value, ...]:
    percent = round(float((before - after) / before * 100), 1) if before else None
    return (name, round(before, 6), round(after, 6), round(before - after, 6), percent)


def _by_step(plan: Plan, costs: Sequence[Mapping[str, Decimal]], savings: Sequence[Decimal]) -> Rows:
    lines: list[tuple[Value, ...]] = [
        (number, step.change.value, ", ".join(step.groups), round(_total(costs[number]), 6), round(saving, 6))
        for number, (step, saving) in enumerate(zip(plan.steps, savings, strict=True), start=1)
    ]
    note = "Each step is counted on what the steps before it left."
    return Rows("Step by step", ("step", "change", "groups", "cost_after", "saving"), tuple(lines), note)


def _break_even(plan: Plan, start: Stage, days: float, savings: Sequence[Decimal], today: Decimal) -> Scenario[tuple[str, ...]]:
    """What is left of the plan without the step that it rests on most."""
    if not savings or max(savings) <= 0:
        return ("No step saves anything.",)
    top = savings.index(max(savings))
    step = plan.steps[top]
    without = [other for number, other in enumerate(plan.steps) if number != top]
    (costs,) = yield from _costs(_stages(plan, start, without, days)[-1:])
    left = today - _total(costs)
    return (f"Without step {top + 1} ({step.change} of {', '.join(step.groups)}) the rest of the plan saves {left:,.2f}.",)


def _time(plan: Plan) -> tuple[str, ...]:
    told = []
    for number, step in enumerate(plan.steps, start=1):
        who = f"Step {number} ({', '.join(step.groups)})"
        if step.change is Change.share:
            told.append(f"{who}: pods take turns; while several of a GPU are busy, each is slower by as many.")
        elif step.change is Change.spot:
            factor = spot_factor(step)
            many = f"takes {factor:.3f} times as long" if factor > 1 else "takes as long as it did: no interruptions are counted"
            told.append(f"{who}: work {many}.")
        elif step.change is Change.schedule:
            told.append(f"{who}: there are no GPUs the rest of the time, and they have to come up again before work goes on.")
        else:
            told.append(f"{who}: work takes {step.time_factor:g} times as long.")
    return tuple(told)


def _findings(plan: Plan, savings: Sequence[Decimal], twice: int) -> tuple[str, ...]:
    told = [
        f"Step {number} ({step.change} of {', '.join(step.groups)}) costs {-saving:,.2f} more than it saves."
        for number, (step, saving) in enumerate(zip(plan.steps, savings, strict=True), start=1)
        if saving < 0
    ]
    if twice:
        told.append(f"{twice} pods are named by several groups: each counts in the first of them alone.")
    if any(step.change is Change.share for step in plan.steps):
        if any(step.change is Change.share and step.utilization_percent is None for step in plan.steps):
            told.append("A step shares GPUs without utilization_percent: as many pods as ways says are taken to fit.")
        told.append("Sharing by time slicing keeps nothing apart, and memory is not looked at here: gpucost whatif share does.")
    return tuple(told)


def _assumptions(plan: Plan, context: Context, hours: float, days: float) -> tuple[Assumption, ...]:
    told = [
        Assumption("always on", hours, "hours", "default" if context.hours is None else "store"),
        Assumption(
            "what counts per day runs", days, "days", plan.path if plan.days else "default" if context.days is None else "store"
        ),
    ]
    for group in plan.groups:
        told.append(_of_group(plan, context, group))
    for number, step in enumerate(plan.steps, start=1):
        for key in ALLOWS[step.change]:
            value = getattr(step, key)
            if value is not None:
                told.append(Assumption(f"step {number}, {step.change}: {key}", value, "", plan.path))
    return tuple(told)


def _of_group(plan: Plan, context: Context, group: Group) -> Assumption:
    if group.is_stored:
        named = ", ".join((*group.teams, *group.namespaces, *group.workloads, *group.clusters))
        return Assumption(f"{group.name}: usage and prices", f"{named}, {context.period}", "", "store")
    return Assumption(f"{group.name}: price", group.price_per_gpu_hour, "per GPU-hour", plan.path)
