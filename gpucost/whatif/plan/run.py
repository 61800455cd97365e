"""A plan from its first group to its total: every stage of every group, attributed at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from gpucost.model import MS_PER_HOUR
from gpucost.whatif.answer import Answer, Assumption, Position, Rows, Value
from gpucost.whatif.fleet import HOURS_PER_MONTH, CostOf, Fleet, Node, Pod
from gpucost.whatif.plan.edits import Nodes, apply, described, spot_factor, stored
from gpucost.whatif.plan.schema import ALLOWS, Change, Group, Plan, Step

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


def answer(plan: Plan, context: Context, cost_of: CostOf) -> Answer:
    """What each step, each category and the whole plan save. Raises DataError where a step cannot be done."""
    hours = context.hours or HOURS_PER_MONTH
    days = plan.days or context.days or _DAYS
    fleets, twice = _once(plan, context.fleets)
    start: Stage = {
        group.name: stored(group, fleets[group.name]) if group.is_stored else described(group, hours, days)
        for group in plan.groups
    }
    stages = _stages(plan, start, plan.steps, days)
    costs = _costs(stages, cost_of)
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
        break_even=_break_even(plan, start, days, savings, today.cost, cost_of),
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


def _costs(stages: Sequence[Stage], cost_of: CostOf) -> list[dict[str, Decimal]]:
    """What each group costs in each stage: stages are clusters of one fleet, groups its workloads."""
    nodes, pods = [], []
    for number, stage in enumerate(stages):
        cluster = f"stage-{number}"
        for group, own in stage.items():
            for node in _folded(own):
                nodes.append(replace(node, cluster=cluster))
                pods.append(Pod(node.name, group, node.gpus, node.from_ms, node.to_ms, uid=node.name, cluster=cluster))
    told = cost_of(Fleet(tuple(nodes), tuple(pods))).by_workload if nodes else {}
    return [
        {group: told.get((f"stage-{number}", "default", group), Decimal(0)) for group in stage}
        for number, stage in enumerate(stages)
    ]


def _folded(nodes: Nodes) -> list[Node]:
    """Nodes that are up at once and cost the same as one node that costs their sum: as exact, and a group may be large."""
    alike = Counter((node.from_ms, node.to_ms, node.gpus, node.prices, node.capacity_type) for node in nodes)
    first = {(node.from_ms, node.to_ms, node.gpus, node.prices, node.capacity_type): node for node in reversed(nodes)}
    return [
        replace(
            first[key],
            gpus=first[key].gpus * count,
            prices=tuple(replace(price, per_node_hour=price.per_node_hour * count) for price in first[key].prices),
        )
        for key, count in alike.items()
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


def _break_even(
    plan: Plan, start: Stage, days: float, savings: Sequence[Decimal], today: Decimal, cost_of: CostOf
) -> tuple[str, ...]:
    """What is left of the plan without the step that it rests on most."""
    if not savings or max(savings) <= 0:
        return ("No step saves anything.",)
    top = savings.index(max(savings))
    step = plan.steps[top]
    without = [other for number, other in enumerate(plan.steps) if number != top]
    left = today - _total(_costs(_stages(plan, start, without, days)[-1:], cost_of)[0])
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
