"""Jobs replayed over the spot price history: what each way of buying would have cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import chain
from typing import NamedTuple

from gpucost.errors import GpucostError
from gpucost.periods import MS_PER_DAY, MS_PER_HOUR, Period, from_ms, iso
from gpucost.records import record
from gpucost.whatif.answer import Answer, Assumption, Position, Range, Rows, Value
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.flags import to_decimal, total
from gpucost.whatif.fleet import Fleet, Node, NodeKey, Pod, Price
from gpucost.whatif.spot.formulas import exact
from gpucost.whatif.spot.interruptions import Rate
from gpucost.whatif.spot.market import History, Lane, Place, PriceChanges, price_at, zones_in
from gpucost.whatif.spot.moves import SpotOptions, rate_assumption

ON_DEMAND = "on demand"
SWITCHING = "cheapest zone, switching"
FALLBACK = "spot, on demand where spot is dearer"


@record
class Job:
    """Work that keeps `nodes` nodes of `gpus` GPUs up for `hours` from `start_ms` on, and holds `held_gpus` of each.

    `on_demand` are steps of the on-demand price per node-hour.
    """

    start_ms: int
    hours: float
    gpus: float
    on_demand: Lane
    zones: tuple[PriceChanges, ...]
    held_gpus: float
    nodes: int = 1

    @property
    def end_ms(self) -> int:
        return self.start_ms + round(self.hours * MS_PER_HOUR)


@record
class TrainingRun:
    """A job bought in one way: price steps (since when, per node-hour) up to `end_ms`, and how often it moved."""

    steps: Lane
    end_ms: int
    moves: int = 0


def _changes(lanes: Iterable[Lane], start_ms: int, end_ms: int) -> list[int]:
    """The start, and the moments before the end at which one of the prices changes."""
    return sorted({start_ms, *(at for at, _ in chain(*lanes) if start_ms < at < end_ms)})


def switching(lanes: Sequence[Lane], job: Job, move_hours: float, known_until_ms: int) -> TrainingRun | None:
    """The job always runs where it is cheapest, and stays where it is on a tie.

    A move takes `move_hours`, paid at the new place's price. None where the prices end before the job does.
    """
    end, place, moves = job.end_ms, -1, 0
    steps: list[tuple[int, Decimal]] = []
    for at in _changes(lanes, job.start_ms, known_until_ms):
        if at >= end:
            break
        prices = [price_at(lane, at) for lane in lanes]
        cheapest = min(range(len(lanes)), key=prices.__getitem__)
        if place < 0:
            place = cheapest
        elif prices[cheapest] < prices[place]:
            place, moves, end = cheapest, moves + 1, end + round(move_hours * MS_PER_HOUR)
        if not steps or steps[-1][1] != prices[place]:
            steps.append((at, prices[place]))
    return TrainingRun(tuple(steps), end, moves) if end <= known_until_ms else None


def replay(job: Job, move_hours: float, on_demand_share: float) -> dict[str, TrainingRun]:
    """Every way of buying the job that history covers, by name."""
    start, end = job.start_ms, job.end_ms
    covered = [zone for zone in job.zones if zone.covers(start, end)]
    if not covered:
        return {}
    runs = {ON_DEMAND: TrainingRun(job.on_demand, end)}
    for zone in covered:
        steps = tuple((at, price_at(zone.steps, at)) for at in _changes([zone.steps], start, end))
        runs[f"stay in {zone.zone or zone.region}"] = TrainingRun(steps, end)
    first = min(covered, key=lambda zone: (price_at(zone.steps, start), zone.zone))
    lanes = {
        SWITCHING: ([zone.steps for zone in covered], min(zone.known_until_ms for zone in covered)),
        FALLBACK: ([first.steps, job.on_demand], first.known_until_ms),
    }
    for name, (steps_of, known_until) in lanes.items():
        if run := switching(steps_of, job, move_hours, known_until):
            runs[name] = run
    # a mean node of a fleet of which a share is bought on demand and the rest in the zone that was cheapest at the start
    part = to_decimal(on_demand_share)
    mixed = tuple(
        (at, part * price_at(job.on_demand, at) + (1 - part) * price_at(first.steps, at))
        for at in _changes([first.steps, job.on_demand], start, end)
    )
    return runs | {anchor_name(on_demand_share): TrainingRun(mixed, end)}


def anchor_name(on_demand_share: float) -> str:
    return f"{on_demand_share * 100:g} % on demand, the rest spot"


def costs(bought: Iterable[tuple[Job, TrainingRun]]) -> list[Decimal]:
    """The cost of each job."""
    amounts = []
    for job, run in bought:
        prices = tuple(Price(price, "spot_history", None, at) for at, price in run.steps)
        node = Node("node", job.gpus, job.start_ms, run.end_ms, prices)
        pod = Pod(node.name, "job", job.held_gpus, job.start_ms, run.end_ms)
        amounts.append(fleet_costs(Fleet((node,), (pod,))).cost * job.nodes)
    return amounts


_NO_RATE = Assumption("interruptions", 0, "per node-hour", "not counted without --interruptions-per-hour")
_MOST_STARTS = 120
_CENTS = Decimal("0.000001")
# the part on demand of the fleet that holds an anchor
_ANCHOR = 0.3


class SpotReplay(NamedTuple):
    """Jobs to replay. `is_sample`: the jobs are starts of one job, whose mean is told."""

    jobs: tuple[Job, ...]
    title: str
    period_name: str
    on_demand_source: str
    is_sample: bool
    left_out: int = 0


def job_starts(
    place: Place, job: Job, history: History, period: Period | None
) -> tuple[tuple[Job, ...], Period]:
    """The job, started once a day over the history of the place's zones (of `period`, if there is one).

    Raises GpucostError where there is no history, or none as long as the job.
    """
    zones = zones_in(history, place)
    if not zones:
        raise GpucostError(
            f"the store holds no spot prices of {place.instance_type}"
            + (f" in {place.region}" if place.region else ""),
            "gpucost collect spot pulls them, gpucost collect spot PATH loads files; gpucost prices history shows what is there",
        )
    if period:
        zones = [replace(zone, known_until_ms=min(zone.known_until_ms, period.end_ms)) for zone in zones]
    length = job.end_ms - job.start_ms
    end = max(zone.known_until_ms for zone in zones)
    # from where every zone is known, if that leaves room for the job
    firsts = [max(zone.steps[0][0], period.start_ms if period else 0) for zone in zones]
    begin = max(firsts) if end - max(firsts) >= length else min(firsts)
    if end - begin < length:
        known = f"{iso(from_ms(begin))} to {iso(from_ms(end))}" if begin < end else "none of it"
        raise GpucostError(
            f"the spot prices of {place.instance_type} in this period ({known}) are shorter than the job of {job.hours:g} hours",
            "give fewer --hours, or a longer period",
        )
    starts = range(begin, end - length + 1, MS_PER_DAY)
    step = -(-len(starts) // _MOST_STARTS)
    jobs = (replace(job, start_ms=start, zones=tuple(zones)) for start in starts[::step])
    return tuple(jobs), Period(from_ms(begin), from_ms(end))


def node_jobs(fleet: Fleet, history: History, *, is_narrowed: bool) -> tuple[tuple[Job, ...], int]:
    """The real hours of on-demand nodes as jobs, and how many such nodes have no history. Raises GpucostError without any job."""
    jobs, left_out = [], 0
    held: dict[NodeKey, float] = defaultdict(float)
    for pod in fleet.pods:
        held[pod.place] += pod.gpu_ms
    for node in fleet.nodes:
        if node.capacity_type != "on_demand" or not node.is_priced:
            continue
        zones = zones_in(history, Place(node.instance_type or "", node.provider, node.region))
        if any(zone.covers(node.from_ms, node.to_ms) for zone in zones):
            steps = tuple((start, price.per_node_hour) for price, start, _ in node.steps)
            # the rest of the nodes that others hold, too, is not this usage
            used = min(held[node.key] / node.length_ms, node.gpus) if is_narrowed else node.gpus
            jobs.append(Job(node.from_ms, node.hours, node.gpus, steps, tuple(zones), used))
        else:
            left_out += 1
    if not jobs:
        raise GpucostError(
            "the spot price history covers no on-demand node of this usage",
            "gpucost collect spot pulls it, gpucost collect spot PATH loads files; --hours with --instance-type replays a job",
        )
    return tuple(jobs), left_out


@record
class _Way:
    """The jobs bought in one way, and their costs; sums over them are divided by `count`."""

    name: str
    bought: Sequence[tuple[Job, TrainingRun]]
    costs: Sequence[Decimal]
    count: int

    @property
    def mean(self) -> Decimal:
        return (total(self.costs) / self.count).quantize(_CENTS)

    @property
    def hours(self) -> float:
        """The mean length of a job."""
        return sum(run.end_ms - job.start_ms for job, run in self.bought) / MS_PER_HOUR / len(self.bought)

    def position(self, currency: str) -> Position:
        """Cost and hours."""
        gpu_hours = node_hours = 0.0
        for job, run in self.bought:
            hours = (run.end_ms - job.start_ms) / MS_PER_HOUR * job.nodes
            gpu_hours, node_hours = gpu_hours + hours * job.held_gpus, node_hours + hours
        gpu_hours, node_hours = round(gpu_hours / self.count, 6), round(node_hours / self.count, 6)
        return Position(self.mean, currency, gpu_hours, node_hours, {"strategy": self.name})

    def row(self, today: Decimal, percents: Iterable[int]) -> dict[str, Value]:
        """Its line in the answer's table, against the cost of today."""
        row: dict[str, Value] = {
            "strategy": self.name,
            "cost": self.mean,
            "saved percent": round(float((today - self.mean) / today * 100), 2) if today else None,
            "moves": round(sum(run.moves for _, run in self.bought) / self.count, 2),
        }
        return row | {f"cost p{percent}": self.percentile(percent) for percent in percents}

    def percentile(self, percent: int) -> Decimal:
        """The cost that `percent` of the jobs do not exceed."""
        ordered = sorted(self.costs)
        return ordered[max(0, -(-len(ordered) * percent // 100) - 1)].quantize(_CENTS)


def _ways(question: SpotReplay, overhead: float, move_hours: float, share: float) -> list[_Way]:
    """Every way in which all jobs could be bought, of those jobs that history covers."""
    replayed = []
    for job in question.jobs:
        if runs := replay(replace(job, hours=job.hours * overhead), move_hours, share):
            # nothing interrupts on demand: its hours are those of the work
            replayed.append((job, runs | {ON_DEMAND: TrainingRun(job.on_demand, job.end_ms)}))
    if not replayed:
        raise GpucostError(
            "the spot price history is shorter than the job with its interruptions", "give fewer --hours"
        )
    ways = []
    for name in replayed[0][1]:
        if all(name in runs for _, runs in replayed):
            bought = [(job, runs[name]) for job, runs in replayed]
            ways.append(_Way(name, bought, costs(bought), len(bought) if question.is_sample else 1))
    return ways


def answer(options: SpotOptions, question: SpotReplay, rate: Rate | None, currency: str) -> Answer:
    """Every way of buying, over the same jobs; `rate` None replays prices alone.

    Raises GpucostError where history covers none of them.
    """
    overhead = exact(options.work(rate.per_hour)) if rate else 1.0
    share = _ANCHOR if options.on_demand_share is None else options.on_demand_share
    move = (options.restart_minutes + options.checkpoint_write_minutes) / 60
    ways = _ways(question, overhead, move, share)
    by_name = {way.name: way for way in ways}
    today, count = by_name[ON_DEMAND], len(ways[0].bought)
    chosen = by_name.get(SWITCHING) or next((way for way in ways if way is not today), today)
    percents = (5, 95) if question.is_sample else ()
    rows = [way.row(today.mean, percents) for way in sorted(ways, key=lambda way: way.mean)]
    ranges: tuple[Range, ...] = ()
    if percents:
        low, high = map(chosen.percentile, percents)
        ranges = (Range(f"cost, {chosen.name}", low, high, currency, f"5 % to 95 % of {count} start times"),)
    break_even: tuple[str, ...] = ()
    if chosen.mean:
        ratio = float(today.mean / chosen.mean)
        break_even = (
            f"on spot, work may take {ratio:.2f} times as long before it costs as much as on demand",
        )
    keys, first = [name.replace(" ", "_") for name in rows[0]], question.jobs[0]
    unit, moved = f"{currency} per node-hour", "--restart-minutes + --checkpoint-write-minutes"
    return Answer(
        kind="spot-backtest",
        title=question.title,
        period=question.period_name,
        today=today.position(currency),
        scenario=chosen.position(currency),
        figures={
            "strategy": chosen.name,
            "jobs": count,
            "strategies": [dict(zip(keys, row.values(), strict=True)) for row in rows],
        },
        assumptions=(
            Assumption("on-demand price", first.on_demand[0][1], unit, question.on_demand_source),
            Assumption("spot prices", len(first.zones), "zones", "spot price history of the store"),
            Assumption("a move to another place", move * 60, "paid minutes", moved),
            Assumption("on-demand share of the anchor", share, "", "--on-demand-share"),
            *((rate_assumption(rate), *options.assumptions()) if rate else (_NO_RATE,)),
        ),
        ranges=ranges,
        break_even=break_even,
        time=(f"{today.hours:,.1f} h of work take {chosen.hours:,.1f} h by {chosen.name!r}",),
        findings=tuple(_findings(question, ways, today, chosen)),
        tables=(Rows("Ways of buying", tuple(rows[0]), tuple(tuple(row.values()) for row in rows)),),
    )


def _findings(question: SpotReplay, ways: Sequence[_Way], today: _Way, chosen: _Way) -> Iterator[str]:
    count = len(chosen.bought)
    yield (
        f"the mean of {count} start times is told" if question.is_sample else f"{count} node(s) were replayed"
    )
    best = min(ways, key=lambda way: way.mean)
    if best is not chosen:
        yield f"in hindsight {best.name!r} was cheapest; nobody knew that beforehand"
    if any(way.name == FALLBACK for way in ways) and chosen.mean >= today.mean:
        yield "spot cost as much as on demand here: there was no discount"
    if left_out := question.left_out + len(question.jobs) - count:
        yield f"{left_out} more are left out: spot price history does not cover them"
