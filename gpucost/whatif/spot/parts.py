"""Parts of workloads that move together, and their cost at any rate of interruptions."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from gpucost.periods import MS_PER_HOUR, Span, merge, most_at_once
from gpucost.records import frozen_dataclass, grouped
from gpucost.whatif.answer import Rows
from gpucost.whatif.avoidable import NOTHING
from gpucost.whatif.cost import NO_TIME, fleet_costs
from gpucost.whatif.flags import round_money, total
from gpucost.whatif.fleet import Fleet, Workload
from gpucost.whatif.spot.advice import FREE, NOT, SERVING, Advice, suitability
from gpucost.whatif.spot.formulas import Work, exact
from gpucost.whatif.spot.interruptions import Rate
from gpucost.whatif.spot.moves import Moves, SpotOptions, SpotQuery

# Above this factor of time, work practically never ends.
ENDLESS = 1e3
# Interruptions per node-hour of the table of savings.
RATES = (0.001, 0.01, 0.05, 0.15, 0.5)


@frozen_dataclass
class SpotPart:
    """Node-hours of a workload (None: unallocated) at one rate of interruptions, and their cost today and there.

    `run_hours` is the length of its pods, weighted by length: the work that an interruption may cost.
    """

    owner: Workload | None
    rate: Rate
    advice: Advice
    gang: int
    run_hours: float
    options: SpotOptions
    hours: float
    today: Decimal
    there: Decimal

    def work(self, per_hour: float, hits: float | None = None) -> Work:
        """The work at a rate per node-hour and stops per interruption of a node; work that starts over loses a whole run."""
        work = self.options.work(per_hour, self.options.hits(self.gang) if hits is None else hits)
        if not self.advice.starts_over:
            return work
        return replace(work, checkpoint=self.run_hours or work.checkpoint, write=0.0)

    def cost_at(self, per_hour: float, hits: float | None = None) -> float:
        """Its cost there at a rate per node-hour; infinite if it would never end."""
        if self.owner is None:
            return float(self.there)
        factor = exact(self.work(per_hour, hits))
        if factor > ENDLESS:
            return math.inf
        share = self.options.on_demand_share
        return float(self.today) * share + float(self.there) * (1 - share) * factor

    @property
    def low(self) -> float:
        """Its cost there at the low end of its rate, if it stops as often as one node."""
        return self.cost_at(self.rate.low or self.rate.per_hour, 1.0)

    @property
    def high(self) -> float:
        """Its cost there at the high end of its rate."""
        # each node of a gang is interrupted alone; with anchors on demand the rest continues
        most_hits = 1.0 if self.options.on_demand_share else float(self.gang)
        return self.cost_at(self.rate.high or self.rate.per_hour, most_hits)

    @property
    def saving(self) -> Decimal:
        """Today's cost less that on spot; nothing if it would never end."""
        cost = self.cost_at(self.rate.per_hour)
        return self.today - round_money(cost) if math.isfinite(cost) else NOTHING

    @property
    def longer_hours(self) -> float:
        """The hours that interruptions, checkpoints and waits for capacity add."""
        work, wait = self.work(self.rate.per_hour), self.options.capacity_wait_minutes / 60
        return self.hours * (exact(work) * (1 + work.gang_rate * wait) - 1)


SpotParts = Sequence[SpotPart]


def parts_of(question: SpotQuery, moved: Moves) -> list[SpotPart]:
    """The parts of all workloads on nodes that can move, and unallocated time of the whole fleet.

    Costs are those of `fleet_costs` per node, before interruptions.
    """
    usage = question.usage
    gang_of, advices, runs = gangs(usage.fleet), suitability(question), _run_hours(usage.fleet)
    amounts: dict[tuple[Workload | None, Rate], list[tuple[Any, ...]]] = defaultdict(list)
    for item in moved:
        node = item.node
        before, after = (fleet_costs(Fleet((at,), item.pods)) for at in (node, item.there))
        held: dict[Workload | None, float] = defaultdict(float)
        for pod in item.pods:
            held[pod.owner] += pod.gpu_ms
        capacity, taken = node.gpus * node.length_ms, sum(held.values())
        # a node can be over-allocated at one time and empty at another
        if not usage.is_narrowed and (capacity - taken >= NO_TIME or before.of(None)):
            held[None] = max(capacity - taken, NO_TIME)
        for owner, gpu_ms in held.items():
            hours = gpu_ms * node.hours / max(capacity, taken)
            amounts[owner, item.rate].append((hours, before.of(owner), after.of(owner)))
    parts = []
    for (owner, rate), rows in amounts.items():
        gang, run_hours, advice = 1, 0.0, Advice(NOT, FREE)
        if owner:
            gang, run_hours, advice = gang_of[owner] * usage.times, runs[owner], advices[owner]
        sums = (usage.times * sum(column) for column in zip(*rows, strict=True))
        parts.append(SpotPart(owner, rate, advice, gang, run_hours, question.options, *sums))
    return parts


def gangs(fleet: Fleet) -> dict[Workload, int]:
    """The most nodes that each workload held at one moment; 1 for replicas, which do not need each other."""
    spans = grouped(((pod.owner, pod.node), pod.span) for pod in fleet.pods)
    held: dict[Workload, list[Span]] = defaultdict(list)
    for (owner, _), on_node in spans.items():
        held[owner] += merge(on_node)
    return {owner: 1 if SERVING.match(owner[2]) else most_at_once(several) for owner, several in held.items()}


def _run_hours(fleet: Fleet) -> dict[Workload, float]:
    """The length of each workload's pods, weighted by length: a long pod loses more, and is hit more often."""
    lengths = grouped((pod.owner, pod.length_ms) for pod in fleet.pods)
    return {
        owner: sum(ms * ms for ms in hours) / sum(hours) / MS_PER_HOUR for owner, hours in lengths.items()
    }


def savings_by_rate(parts: SpotParts) -> Rows:
    """The saving at five rates, with and without checkpoints; None if the work would never end."""
    today = total(part.today for part in parts)
    lines = []
    for rate in RATES:
        savings = []
        for starts_over in (False, True):
            again = [replace(part, advice=part.advice._replace(starts_over=starts_over)) for part in parts]
            cost = sum(part.cost_at(rate) for part in again)
            savings.append(today - round_money(cost) if math.isfinite(cost) else None)
        lines.append((rate, *savings))
    columns = ("interruptions per node-hour", "saving with checkpoints", "saving without")
    note = "The same work at each rate. Without checkpoints, an interrupted run starts over."
    return Rows("Saving by rate of interruptions", columns, tuple(lines), note)
