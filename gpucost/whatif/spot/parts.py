"""Parts of workloads that move together, and their cost at any rate of interruptions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from gpucost.periods import MS_PER_HOUR
from gpucost.records import grouped, record
from gpucost.whatif.answer import Line, Rows
from gpucost.whatif.avoidable import NOTHING
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.flags import kept, total
from gpucost.whatif.fleet import Fleet, Workload
from gpucost.whatif.spot.advice import FREE, NOT, Advice, suitability
from gpucost.whatif.spot.formulas import Work, exact
from gpucost.whatif.spot.interruptions import Rate
from gpucost.whatif.spot.moves import Moves, SpotOptions, SpotQuery, gangs

# Above this factor of time work practically never ends.
ENDLESS = 1e3
# Interruptions per node-hour at which savings are shown.
RATES = (0.001, 0.01, 0.05, 0.15, 0.5)

# a workload, how often its nodes are interrupted, and their provider
PartKey = tuple[Workload | None, Rate, str | None]


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
    options: SpotOptions
    run_hours: float = 0.0

    @property
    def hits(self) -> float:
        """How often it stops per interruption of a node."""
        return self.options.hits(self.gang)

    def work(self, per_hour: float, hits: float) -> Work:
        """The work at a rate per node-hour; if it starts over it loses a whole run, and no notice helps it."""
        work = self.options.work(per_hour, hits, self.provider)
        if not self.advice.starts_over:
            return work
        return replace(work, checkpoint=self.run_hours or work.checkpoint, write=0.0, notice=0.0)

    def cost_at(self, per_hour: float, hits: float | None = None) -> float:
        """Its cost there at a rate per node-hour; infinite if it would never end."""
        if self.owner is None:
            return float(self.there)
        factor = exact(self.work(per_hour, self.hits if hits is None else hits))
        if factor > ENDLESS:
            return math.inf
        share = self.options.on_demand_share
        return float(self.today) * share + float(self.there) * (1 - share) * factor

    @property
    def saving(self) -> Decimal:
        """What moving saves; nothing if it would never end."""
        cost = self.cost_at(self.rate.per_hour)
        return self.today - kept(cost) if math.isfinite(cost) else NOTHING

    def at(self, end: str) -> tuple[float, float]:
        """Interruptions per node-hour, and how often it stops for each: at the low or high end of its rate, or as given."""
        # each node of a gang is interrupted alone; with anchors on demand the rest goes on
        most_hits = 1.0 if self.options.on_demand_share else float(self.gang)
        ends = {"low": (self.rate.low, 1.0), "high": (self.rate.high, most_hits)}
        per_hour, hits = ends.get(end, (None, self.hits))
        return self.rate.per_hour if per_hour is None else per_hour, hits


def parts_of(question: SpotQuery, moved: Moves) -> list[Part]:
    """The parts of all workloads on nodes that can move, and unallocated time of the whole fleet."""
    fleet, times = question.usage.fleet, question.usage.times
    gang_of, advices, runs = gangs(fleet), suitability(question), _run_hours(fleet)
    hours: dict[PartKey, float] = defaultdict(float)
    today: dict[PartKey, Decimal] = defaultdict(Decimal)
    there: dict[PartKey, Decimal] = defaultdict(Decimal)
    for item in moved.values():
        before, after = (fleet_costs(Fleet((node,), item.pods)) for node in (item.node, item.there))
        for owner, held in item.hours.items():
            key = owner, item.rate, item.node.provider
            hours[key] += held
            today[key] += times * before.of(owner)
            there[key] += times * after.of(owner)
    parts = []
    for key, held in hours.items():
        owner, gang, run_hours, advice = key[0], 1, 0.0, Advice(NOT, FREE)
        if owner:
            gang, run_hours, advice = gang_of[owner] * times, runs[owner], advices[owner]
        parts.append(Part(*key, advice, gang, held, today[key], there[key], question.options, run_hours))
    return parts


def _run_hours(fleet: Fleet) -> dict[Workload, float]:
    """The length of each workload's pods, weighted by length: a long one loses more, and is hit more often."""
    lengths = grouped((pod.owner, pod.length_ms) for pod in fleet.pods)
    return {owner: sum(ms * ms for ms in own) / sum(own) / MS_PER_HOUR for owner, own in lengths.items()}


def savings_by_rate(parts: Sequence[Part]) -> Rows:
    """What the work would save at five rates, with and without checkpoints; no cost if it would never end."""
    today = total(part.today for part in parts)
    lines: list[Line] = []
    for rate in RATES:
        savings = []
        for starts_over in (False, True):
            again = [replace(part, advice=part.advice._replace(starts_over=starts_over)) for part in parts]
            cost = sum(part.cost_at(rate) for part in again)
            savings.append(today - kept(cost) if math.isfinite(cost) else None)
        lines.append((rate, *savings))
    columns = ("interruptions per node-hour", "saving with checkpoints", "saving without")
    note = "Of the same work at each rate. Without checkpoints an interrupted run starts over."
    return Rows("Saving by rate of interruptions", columns, tuple(lines), note)


def outcome(parts: Sequence[Part], end: str) -> tuple[float, float]:
    """What the work costs more there, and how many percent longer it takes with waits for capacity, at an end of its rate."""
    more = longer = 0.0
    for part in parts:
        rate, hits = part.at(end)
        work, wait = part.work(rate, hits), part.options.capacity_wait_minutes / 60
        more += part.cost_at(rate, hits) - float(part.today)
        longer += part.hours * (exact(work) * (1 + work.gang_rate * wait) - 1)
    return more, longer / sum(part.hours for part in parts) * 100
