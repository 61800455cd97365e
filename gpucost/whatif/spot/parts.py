"""Parts of workloads that move together, and their cost at any rate of interruptions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from gpucost.periods import MS_PER_HOUR
from gpucost.records import record
from gpucost.whatif.answer import Line, Rows
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.flags import kept, total
from gpucost.whatif.fleet import Fleet, Workload
from gpucost.whatif.spot.advice import FREE, NOT, Advice, suitability
from gpucost.whatif.spot.formulas import exact
from gpucost.whatif.spot.interruptions import Rate
from gpucost.whatif.spot.moves import Moves, SpotOptions, SpotQuery, gangs

# Above this factor of time work practically never ends; above this factor of paid hours it has no cost.
ENDLESS, ENDLESS_COST = 1e3, 1e9
# Interruptions per node-hour at which savings are shown.
RATES = (0.001, 0.01, 0.05, 0.15, 0.5)

# a workload, how often its nodes are interrupted, and their provider
PartKey = tuple[Workload, Rate, str | None]


@record
class Part:
    """What a workload (None: unallocated) held of nodes with one rate, in node-hours, and the cost of it before and there.

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
        self, per_hour: float, hits: float | None = None, options: SpotOptions | None = None
    ) -> float:
        """Its cost there at a rate per node-hour; infinite if it would never end."""
        if self.owner is None:
            return float(self.there)
        how = options or self.options
        factor = exact(how.work(per_hour, self.hits if hits is None else hits, self.provider))
        if factor > ENDLESS_COST:
            return math.inf
        share = how.kept_on_demand
        return float(self.today) * share + float(self.there) * (1 - share) * factor

    def cost(self) -> Decimal | None:
        """Its cost there at its rate; None if it would never end."""
        cost = self.cost_at(self.rate.per_hour)
        return kept(cost) if math.isfinite(cost) else None

    @property
    def saving(self) -> Decimal:
        """What moving saves; nothing if it would never end."""
        cost = self.cost()
        return Decimal(0) if cost is None else self.today - cost

    def at(self, end: str) -> tuple[float, float]:
        """Interruptions per node-hour, and how often it stops for each: at the low or high end of its rate, or as given."""
        if end == "low":
            return self.rate.per_hour if self.rate.low is None else self.rate.low, 1.0
        if end == "high":
            # each node of a gang is interrupted alone; with anchors on demand the rest goes on
            most_hits = 1.0 if self.asked.kept_on_demand else float(self.gang)
            return self.rate.per_hour if self.rate.high is None else self.rate.high, most_hits
        return self.rate.per_hour, self.hits


def parts_of(options: SpotOptions, question: SpotQuery, moved: Moves) -> list[Part]:
    """The parts of all workloads on nodes that can move, and unallocated time of the whole fleet."""
    fleet, times = question.usage.fleet, question.usage.times
    gang_of, advices, runs = gangs(fleet), suitability(options, question), _run_hours(fleet)
    hours: dict[PartKey | None, float] = defaultdict(float)
    today: dict[PartKey | None, Decimal] = defaultdict(Decimal)
    there: dict[PartKey | None, Decimal] = defaultdict(Decimal)
    for item in moved.values():
        before, then = (fleet_costs(Fleet((node,), item.pods)) for node in (item.node, item.there))
        today[None] += before.unallocated_cost * times
        there[None] += then.unallocated_cost * times
        for owner, held in item.hours.items():
            key = (owner, item.rate, item.node.provider) if owner else None
            hours[key] += held
            if owner:
                today[key] += before.by_workload.get(owner, Decimal(0)) * times
                there[key] += then.by_workload.get(owner, Decimal(0)) * times
    on_moved = [(pod.owner, moved[pod.place]) for pod in fleet.pods if pod.place in moved]
    parts = []
    for key in dict.fromkeys((owner, item.rate, item.node.provider) for owner, item in on_moved):
        owner, gang = key[0], gang_of[key[0]] * times
        parts.append(
            Part(*key, advices[owner], gang, hours[key], today[key], there[key], options, runs[owner])
        )
    if hours[None]:
        advice = Advice(NOT, FREE)
        rate = next(iter(moved.values())).rate
        parts.append(Part(None, rate, None, advice, 1, hours[None], today[None], there[None], options))
    return parts


def _run_hours(fleet: Fleet) -> dict[Workload, float]:
    """The length of each workload's pods, weighted by length: a long one loses more, and is hit more often."""
    lengths: dict[Workload, list[int]] = defaultdict(list)
    for pod in fleet.pods:
        lengths[pod.owner].append(pod.length_ms)
    return {owner: sum(ms * ms for ms in own) / sum(own) / MS_PER_HOUR for owner, own in lengths.items()}


def savings_by_rate(parts: Sequence[Part]) -> tuple[Rows, ...]:
    """What the work would save at five rates, with and without checkpoints; no cost if it would never end."""
    today = total(part.today for part in parts)
    endless = ENDLESS * float(today)
    lines: list[Line] = []
    for rate in RATES:
        with_checkpoints = sum(part.cost_at(rate, options=part.asked) for part in parts)
        without = sum(part.cost_at(rate, options=part.without_checkpoints()) for part in parts)
        costs = (with_checkpoints, without)
        lines.append((rate, *(today - kept(cost) if cost < endless else None for cost in costs)))
    columns = ("interruptions per node-hour", "saving with checkpoints", "saving without")
    note = "Of the same work at each rate. Without checkpoints an interrupted run starts over."
    return Rows.of("Saving by rate of interruptions", columns, lines, note)


def cases(parts: Sequence[Part], today: Decimal) -> Rows:
    """Cost and time of moved work at the low end, the middle and the high end of the rate."""
    lines: list[Line] = []
    has_gangs = any(part.hits > 1 for part in parts)
    has_range = all(part.rate.low is not None and part.rate.high is not None for part in parts)
    hours = sum(part.hours for part in parts)
    for end in ("low", "middle", "high") if has_range or has_gangs else ("as given",):
        more = up = longer = interruptions = 0.0
        for part in parts:
            rate, hits = part.at(end)
            work, held = part.options.work(rate, hits, part.provider), part.hours
            times = exact(work)
            more += part.cost_at(rate, hits=hits) - float(part.today)
            up += held + held * (1 - part.options.kept_on_demand) * (times - 1)
            longer += held * (times - 1) + held * times * work.gang_rate * part.options.wait_hours
            interruptions += rate * held
        line: Line = (None, None, None, None)
        if math.isfinite(more) and up <= hours * ENDLESS:
            cost = kept(float(today) + more)
            line = (cost, today - cost, round(up, 1), round(longer / hours * 100, 2))
        lines.append((end, interruptions / hours, *line))
    columns = ("interruptions", "per node-hour", "cost", "saving", "node-hours", "% longer")
    note = "Time includes waits for capacity."
    if has_gangs:
        note += (
            " A gang of n nodes stops √n times as often as one node in the middle, n times at the high end: derived, "
            "as any of 4 nodes was hit 1.1 to 2.0 times as often as one."
        )
    return Rows("What moves, by how often it is interrupted", columns, tuple(lines), note)
