"""Parts of workloads that move together, and their cost at any rate of interruptions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal

from gpucost.periods import MS_PER_HOUR
from gpucost.records import record
from gpucost.whatif.answer import Line, Rows
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.flags import kept, total
from gpucost.whatif.fleet import Fleet, Pod, Workload
from gpucost.whatif.spot.advice import FREE, NOT, SAFE, Advice, suitability
from gpucost.whatif.spot.formulas import Formula, crossing, exact
from gpucost.whatif.spot.interruptions import Rate
from gpucost.whatif.spot.market import Target
from gpucost.whatif.spot.moves import Moves, SpotOptions, SpotQuery, gangs

# Above this factor of time work practically never ends; above this factor of paid hours it has no cost.
ENDLESS, ENDLESS_COST = 1e3, 1e9
# Interruptions per node-hour at which savings are shown.
RATES = (0.001, 0.01, 0.05, 0.15, 0.5)
# a workload, how often its nodes are interrupted, and their provider
PartKey = tuple[Workload, Rate, str | None]


@record
class Part:
    """What a workload (None: unallocated) held of nodes with one rate: node-hours, and their cost before and there.

    `run_hours` is the length of its pods, weighted by length: the work that an interruption may cost.
    """

    owner: Workload | None
    rate: Rate
    provider: str | None
    advice: Advice
    gang: int
    hours: float
    today: Decimal
    there: Decimal
    asked: SpotOptions
    run_hours: float = 0.0

    @property
    def options(self) -> SpotOptions:
        """The options as they hold for it: work that starts over loses a whole run, and no notice helps it."""
        return self.without_checkpoints() if self.advice.starts_over else self.asked

    @property
    def hits(self) -> float:
        """How often it stops per interruption of a node."""
        return self.asked.hits(self.gang)

    def without_checkpoints(self) -> SpotOptions:
        """The options if an interruption costs all of a run."""
        minutes = self.run_hours * 60 or self.asked.checkpoint_minutes
        return replace(
            self.asked, checkpoint_minutes=minutes, checkpoint_write_minutes=0.0, notice_seconds=0.0
        )

    def cost_at(
        self,
        per_hour: float,
        formula: Formula = exact,
        hits: float | None = None,
        options: SpotOptions | None = None,
    ) -> float:
        """Its cost there at a rate per node-hour; infinite if it would never end."""
        if self.owner is None:
            return float(self.there)
        how = options or self.options
        factor = formula(how.work(per_hour, self.hits if hits is None else hits, self.provider))
        if factor > ENDLESS_COST:
            return math.inf
        if how.to is Target.on_demand:
            return float(self.there) / factor
        share = how.kept_on_demand
        return float(self.today) * share + float(self.there) * (1 - share) * factor

    def cost(self, formula: Formula = exact) -> Decimal | None:
        """Its cost there at its rate; None if it would never end."""
        return as_money(self.cost_at(self.rate.per_hour, formula))


def as_money(cost: float) -> Decimal | None:
    """A cost with nine decimals; None if it is infinite."""
    return kept(cost) if math.isfinite(cost) else None


def parts_of(options: SpotOptions, question: SpotQuery, moved: Moves) -> list[Part]:
    """The parts of all workloads on nodes that can move, and unallocated time of the whole fleet."""
    usage = question.usage
    names: dict[PartKey, str] = {}
    pods: list[Pod] = []
    for pod in usage.fleet.pods:
        if item := moved.get(pod.place):
            name = names.setdefault((pod.owner, item.rate, item.node.provider), f"part-{len(names)}")
            pods.append(replace(pod, workload=name, namespace="default"))
    before = Fleet(tuple(item.node for item in moved.values()), tuple(pods))
    there = before.with_nodes(
        lambda node: replace(node, prices=moved[node.key].prices, capacity_type=options.to.capacity_type)
    )
    costs_before, costs_there = fleet_costs(before), fleet_costs(there)
    gang_of, advices, runs = gangs(usage.fleet), suitability(options, question), _run_hours(usage.fleet)
    hours_of = _hours_by_part(moved)
    parts = []
    for (owner, rate, provider), name in names.items():
        label = (owner[0], "default", name)
        was, then = (
            costs.by_workload.get(label, Decimal(0)) * usage.times for costs in (costs_before, costs_there)
        )
        gang, hours = gang_of[owner] * usage.times, hours_of[owner, rate, provider]
        parts.append(
            Part(owner, rate, provider, advices[owner], gang, hours, was, then, options, runs[owner])
        )
    free_hours = sum(item.hours.get(None, 0.0) for item in moved.values())
    if free_hours and not usage.is_narrowed:
        was, then = (costs.unallocated_cost * usage.times for costs in (costs_before, costs_there))
        advice = Advice(NOT if options.to is Target.spot else SAFE, FREE)
        rate = next(iter(moved.values())).rate
        parts.append(Part(None, rate, None, advice, 1, free_hours, was, then, options))
    return parts


def _run_hours(fleet: Fleet) -> dict[Workload, float]:
    """The length of each workload's pods, weighted by length: a long one loses more, and is hit more often."""
    lengths: dict[Workload, list[int]] = defaultdict(list)
    for pod in fleet.pods:
        lengths[pod.owner].append(pod.length_ms)
    return {owner: sum(ms * ms for ms in own) / sum(own) / MS_PER_HOUR for owner, own in lengths.items()}


def _hours_by_part(moved: Moves) -> dict[PartKey, float]:
    hours: dict[PartKey, float] = defaultdict(float)
    for item in moved.values():
        for owner, held in item.hours.items():
            if owner:
                hours[owner, item.rate, item.node.provider] += held
    return hours


def break_even(parts: Sequence[Part], formula: Formula = exact) -> float | None:
    """The rate per node-hour at which a fixed set of work costs as much on spot as on demand; None if there is none."""
    today = sum(float(part.today) for part in parts)
    if not today:
        return None
    return crossing(lambda rate: sum(part.cost_at(rate, formula) for part in parts) / today, 1.0)


def savings_by_rate(parts: Sequence[Part]) -> tuple[Rows, ...]:
    """What the work would save at five rates, with and without checkpoints; no cost if it would never end."""
    today = total(part.today for part in parts)
    lines: list[Line] = []
    for rate in RATES:
        with_checkpoints = sum(part.cost_at(rate, options=part.asked) for part in parts)
        without = sum(part.cost_at(rate, options=part.without_checkpoints()) for part in parts)
        lines.append((rate, *(_saving(today, cost) for cost in (with_checkpoints, without))))
    columns = ("interruptions per node-hour", "saving with checkpoints", "saving without")
    note = "Of the same work at each rate. Without checkpoints an interrupted run starts over."
    return Rows.of("Saving by rate of interruptions", columns, lines, note)


def _saving(today: Decimal, cost: float) -> Decimal | None:
    """What is saved; None for work that would practically never end."""
    return today - kept(cost) if cost < ENDLESS * float(today) else None


def cases(parts: Sequence[Part], today: Decimal) -> Rows:
    """Cost and time of moved work at the low end, the middle and the high end of the rate."""
    lines: list[Line] = []
    ends = {"as given": [(part, part.rate.per_hour, part.hits) for part in parts]}
    has_range = all(part.rate.low is not None and part.rate.high is not None for part in parts)
    if has_range or any(part.hits > 1 for part in parts):
        ends = {
            "low": [(part, _or(part.rate.low, part), 1.0) for part in parts],
            "middle": ends["as given"],
            "high": [(part, _or(part.rate.high, part), _most_hits(part)) for part in parts],
        }
    hours = sum(part.hours for part in parts)
    for name, rated in ends.items():
        cost = float(today) + sum(
            part.cost_at(rate, hits=hits) - float(part.today) for part, rate, hits in rated
        )
        up, longer = _times(rated)
        rate = sum(rate * part.hours for part, rate, _ in rated) / hours
        if not math.isfinite(cost) or up > hours * ENDLESS:
            lines.append((name, rate, None, None, None, None))
        else:
            money = kept(cost)
            lines.append((name, rate, money, today - money, round(up, 1), round(longer / hours * 100, 2)))
    columns = ("interruptions", "per node-hour", "cost", "saving", "node-hours", "% longer")
    note = "Time includes waits for capacity."
    if any(part.hits > 1 for part in parts):
        note += (
            " A gang of n nodes stops √n times as often as one node in the middle, n times at the high end: derived, "
            "as any of 4 nodes was hit 1.1 to 2.0 times as often as one."
        )
    return Rows("What moves, by how often it is interrupted", columns, tuple(lines), note)


def _or(rate: float | None, part: Part) -> float:
    return part.rate.per_hour if rate is None else rate


def _most_hits(part: Part) -> float:
    """Each node of a gang is interrupted alone; with anchors on demand the rest goes on."""
    return 1.0 if part.asked.kept_on_demand else float(part.gang)


def _times(rated: Iterable[tuple[Part, float, float]]) -> tuple[float, float]:
    """Node-hours that are up, and how many hours longer work takes."""
    up = longer = 0.0
    for part, rate, hits in rated:
        work = part.options.work(rate, hits, part.provider)
        times = exact(work)
        up += part.hours + part.hours * (1 - part.options.kept_on_demand) * (times - 1)
        longer += part.hours * (times - 1) + part.hours * times * work.gang_rate * part.options.wait_hours
    return up, longer
