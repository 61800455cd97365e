"""Jobs replayed over the spot price history: what each way of buying would have cost."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

from gpucost.errors import GpucostError
from gpucost.periods import MS_PER_DAY, MS_PER_HOUR, Period, from_ms, iso
from gpucost.records import record
from gpucost.whatif.answer import Answer, Assumption, Line, Position, Range, Rows
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.flags import to_decimal, total
from gpucost.whatif.fleet import Fleet, Node, NodeKey, Pod, Price
from gpucost.whatif.spot.formulas import exact
from gpucost.whatif.spot.interruptions import Rate
from gpucost.whatif.spot.market import History, Place, PriceChanges
from gpucost.whatif.spot.moves import SpotOptions, rate_assumption

ON_DEMAND = "on demand"
SWITCHING = "cheapest zone, switching"
FALLBACK = "spot, on demand where spot is dearer"


# steps of a price per node-hour: since when, how much
Lane = tuple[tuple[int, Decimal], ...]


@record
class Job:
    """Work that keeps `nodes` nodes of `gpus` GPUs up for `hours` from `start_ms` on, and holds `held_gpus` of each.

    `on_demand` are steps of the on-demand price per node-hour, the first from `start_ms` on.
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


def switching(lanes: Sequence[Lane], job: Job, move_hours: float, known_until_ms: int) -> TrainingRun | None:
    """The job always runs where it is cheapest, and stays where it is on a tie. `lanes` are price steps from its start on.

    A move takes `move_hours`, paid at the new place's price. None where the prices end before the job does.
    """
    changes = sorted({at for lane in lanes for at, _ in lane} | {job.start_ms})
    end, place, moves = job.end_ms, -1, 0
    steps: list[tuple[int, Decimal]] = []
    for at in changes:
        if at >= end:
            break
        prices = [_price_at(lane, at) for lane in lanes]
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
    runs = {ON_DEMAND: TrainingRun(job.on_demand, job.end_ms)}
    covered = [zone for zone in job.zones if zone.covers(job.start_ms, job.end_ms)]
    if not covered:
        return {}
    for zone in covered:
        runs[f"stay in {zone.zone or zone.region}"] = TrainingRun(
            tuple(zone.steps(job.start_ms, job.end_ms)), job.end_ms
        )
    known = min(zone.known_until_ms for zone in covered)
    first = min(covered, key=lambda zone: (zone.steps(job.start_ms, job.start_ms + 1)[0][1], zone.zone))
    lanes = [tuple(zone.steps(job.start_ms, known)) for zone in covered]
    spot = tuple(first.steps(job.start_ms, first.known_until_ms))
    switched = (
        switching(lanes, job, move_hours, known),
        switching([spot, job.on_demand], job, move_hours, first.known_until_ms),
    )
    runs |= {name: run for name, run in zip((SWITCHING, FALLBACK), switched, strict=True) if run is not None}
    # a mean node of a fleet of which a share is bought on demand and the rest in the zone that was cheapest at the start
    part = to_decimal(on_demand_share)
    changes = sorted({at for at, _ in (*spot, *job.on_demand) if at < job.end_ms})
    mixed = ((at, part * _price_at(job.on_demand, at) + (1 - part) * _price_at(spot, at)) for at in changes)
    return runs | {anchor_name(on_demand_share): TrainingRun(tuple(mixed), job.end_ms)}


def anchor_name(on_demand_share: float) -> str:
    return f"{on_demand_share * 100:g} % on demand, the rest spot"


def costs(jobs: Sequence[Job], runs: Sequence[dict[str, TrainingRun]]) -> dict[str, list[Decimal]]:
    """What each job cost, by way of buying, of which all have the same: one described fleet, one node per job and way."""
    nodes, pods = [], []
    for index, (job, ways) in enumerate(zip(jobs, runs, strict=True)):
        for way, run in ways.items():
            workload = f"{way}/{index}"
            prices = tuple(Price(price, "spot_history", None, at) for at, price in run.steps)
            for number in range(job.nodes):
                name = f"{workload}/{number}"
                nodes.append(Node(name, job.gpus, job.start_ms, run.end_ms, prices))
                pods.append(Pod(name, workload, job.held_gpus, job.start_ms, run.end_ms, uid=name))
    paid = fleet_costs(Fleet(tuple(nodes), tuple(pods)))
    by_name = {workload: cost for (_, _, workload), cost in paid.by_workload.items()}
    return {way: [by_name.get(f"{way}/{index}", Decimal(0)) for index in range(len(jobs))] for way in runs[0]}


def _price_at(lane: Lane, at_ms: int) -> Decimal:
    return lane[max(bisect.bisect_right(lane, at_ms, key=lambda step: step[0]) - 1, 0)][1]


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
    place: Place,
    hours: float,
    nodes: int,
    gpus: float,
    on_demand: Decimal,
    history: History,
    period: Period | None,
) -> tuple[tuple[Job, ...], Period]:
    """A job of `hours` started once a day over the history of the place's zones (of `period`, where one is named).

    Raises GpucostError where there is no history, or none as long as the job.
    """
    zones = history.zones(place)
    if not zones:
        raise GpucostError(
            f"the store holds no spot prices of {place.instance_type}"
            + (f" in {place.region}" if place.region else ""),
            "gpucost collect spot pulls them, gpucost collect spot PATH loads files; gpucost prices history shows what is there",
        )
    if period:
        zones = [replace(zone, known_until_ms=min(zone.known_until_ms, period.end_ms)) for zone in zones]
    length = round(hours * MS_PER_HOUR)
    end = max(zone.known_until_ms for zone in zones)
    # from where every zone is known, if that leaves room for the job
    firsts = [max(zone.at_ms[0], period.start_ms if period else 0) for zone in zones]
    begin = max(firsts) if end - max(firsts) >= length else min(firsts)
    if end - begin < length:
        known = f"{iso(from_ms(begin))} to {iso(from_ms(end))}" if begin < end else "none of it"
        raise GpucostError(
            f"the spot prices of {place.instance_type} in this period ({known}) are shorter than the job of {hours:g} hours",
            "give fewer --hours, or a longer period",
        )
    starts = range(begin, end - length + 1, MS_PER_DAY)
    step = -(-len(starts) // _MOST_STARTS)
    jobs = (
        Job(start, hours, gpus, ((start, on_demand),), tuple(zones), gpus, nodes) for start in starts[::step]
    )
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
        zones = history.zones(Place(node.instance_type or "", node.provider, node.region))
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


def answer(options: SpotOptions, question: SpotReplay, rate: Rate | None, currency: str) -> Answer:
    """Every way of buying, over the same jobs; `rate` None replays prices alone.

    Raises GpucostError where history covers none of them.
    """
    overhead = exact(options.work(rate.per_hour)) if rate else 1.0
    share = _ANCHOR if options.on_demand_share is None else options.on_demand_share
    move = (options.restart_minutes + options.checkpoint_write_minutes) / 60
    stretched = [replace(job, hours=job.hours * overhead) for job in question.jobs]
    replayed = [(job, bought) for job in stretched if (bought := replay(job, move, share))]
    if not replayed:
        raise GpucostError(
            "the spot price history is shorter than the job with its interruptions", "give fewer --hours"
        )
    for job, bought in replayed:
        # nothing interrupts on demand: its hours are those of the work
        end_ms = job.start_ms + round(job.hours / overhead * MS_PER_HOUR)
        bought[ON_DEMAND] = replace(bought[ON_DEMAND], end_ms=end_ms)
    jobs, runs = [job for job, _ in replayed], [bought for _, bought in replayed]
    # ways that not every job could be bought in can't be compared
    ways = [way for way in runs[0] if all(way in known for known in runs)]
    paid = costs(jobs, [{way: known[way] for way in ways} for known in runs])
    count = len(jobs) if question.is_sample else 1
    means = {way: (total(amounts) / count).quantize(_CENTS) for way, amounts in paid.items()}
    chosen = SWITCHING if SWITCHING in means else next((way for way in means if way != ON_DEMAND), ON_DEMAND)

    def position(way: str) -> Position:
        hours = [(bought[way].end_ms - job.start_ms) / MS_PER_HOUR * job.nodes for job, bought in replayed]
        gpu_hours = sum(span * job.held_gpus for span, job in zip(hours, jobs, strict=True))
        return Position(
            means[way], currency, round(gpu_hours / count, 6), round(sum(hours) / count, 6), {"strategy": way}
        )

    def hours_per_job(way: str) -> float:
        return sum(bought[way].end_ms - job.start_ms for job, bought in replayed) / MS_PER_HOUR / len(jobs)

    today, columns = means[ON_DEMAND], ["strategy", "cost", "saved percent", "moves"]
    lines: list[Line] = []
    for way, mean in sorted(means.items(), key=lambda item: item[1]):
        saved = round(float((today - mean) / today * 100), 2) if today else None
        lines.append((way, mean, saved, round(sum(known[way].moves for known in runs) / count, 2)))
    ranges: tuple[Range, ...] = ()
    if question.is_sample:
        columns += ["cost p5", "cost p95"]
        lines = [
            (*line, *(_percentile(paid[str(line[0])], percent) for percent in (5, 95))) for line in lines
        ]
        low, high = (_percentile(paid[chosen], percent) for percent in (5, 95))
        ranges = (Range(f"cost, {chosen}", low, high, currency, f"5 % to 95 % of {len(jobs)} start times"),)
    break_even: tuple[str, ...] = ()
    if means[chosen]:
        ratio = float(today / means[chosen])
        break_even = (
            f"on spot, work may take {ratio:.2f} times as long before it costs as much as on demand",
        )
    findings = [
        f"the mean of {len(jobs)} start times is told"
        if question.is_sample
        else f"{len(jobs)} node(s) were replayed"
    ]
    best = min(means, key=means.__getitem__)
    if best != chosen:
        findings.append(f"in hindsight {best!r} was cheapest; nobody knew that beforehand")
    if FALLBACK in means and means[chosen] >= today:
        findings.append("spot cost as much as on demand here: there was no discount")
    if left_out := question.left_out + len(question.jobs) - len(jobs):
        findings.append(f"{left_out} more are left out: spot price history does not cover them")
    keys, first = [column.replace(" ", "_") for column in columns], question.jobs[0]
    return Answer(
        kind="spot-backtest",
        title=question.title,
        period=question.period_name,
        today=position(ON_DEMAND),
        scenario=position(chosen),
        figures={
            "strategy": chosen,
            "jobs": len(jobs),
            "strategies": [dict(zip(keys, line, strict=True)) for line in lines],
        },
        assumptions=(
            Assumption(
                "on-demand price",
                first.on_demand[0][1],
                f"{currency} per node-hour",
                question.on_demand_source,
            ),
            Assumption("spot prices", len(first.zones), "zones", "spot price history of the store"),
            Assumption(
                "a move to another place",
                move * 60,
                "paid minutes",
                "--restart-minutes + --checkpoint-write-minutes",
            ),
            Assumption("on-demand share of the anchor", share, "", "--on-demand-share"),
            *((rate_assumption(rate), *options.assumptions()) if rate else (_NO_RATE,)),
        ),
        ranges=ranges,
        break_even=break_even,
        time=(
            f"{hours_per_job(ON_DEMAND):,.1f} h of work take {hours_per_job(chosen):,.1f} h by {chosen!r}",
        ),
        findings=tuple(findings),
        tables=(Rows("Ways of buying", tuple(columns), tuple(lines)),),
    )


def _percentile(amounts: Sequence[Decimal], percent: int) -> Decimal:
    """The amount that `percent` of them do not exceed."""
    ordered = sorted(amounts)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)].quantize(_CENTS)
