"""The answer of a back-test: a job started again and again over the history, or the real hours of on-demand nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from gpucost.errors import GpucostError
from gpucost.model import MS_PER_HOUR, Period, from_ms, iso
from gpucost.whatif.answer import Answer, Assumption, Position, Range, Rows, Value
from gpucost.whatif.fleet import CostOf, Fleet
from gpucost.whatif.spot import formulas
from gpucost.whatif.spot.backtest import FALLBACK, ON_DEMAND, SWITCHING, Job, Run, costs, replay
from gpucost.whatif.spot.market import Changes, Market, Place
from gpucost.whatif.spot.options import Options, rate_assumption
from gpucost.whatif.spot.rates import Rate

_DAY_MS = 24 * MS_PER_HOUR
_MOST_STARTS = 120
_CENTS = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class Replay:
    """Jobs to replay; `rate` None replays prices alone. `is_sample`: the jobs are starts of one job, whose mean is told."""

    jobs: tuple[Job, ...]
    currency: str
    title: str
    period_name: str
    on_demand_source: str
    on_demand_share: float
    rate: Rate | None
    is_sample: bool
    left_out: int = 0


def job_starts(
    place: Place, hours: float, nodes: int, gpus: float, on_demand: Decimal, market: Market, period: Period | None
) -> tuple[tuple[Job, ...], Period]:
    """A job of `hours` started once a day over the history of the place's zones (of `period`, where one is named).

    Raises GpucostError where there is no history, or none as long as the job.
    """
    zones = market.zones(place)
    if not zones:
        raise GpucostError(
            f"the store holds no spot prices of {place.instance_type}" + (f" in {place.region}" if place.region else ""),
            "gpucost collect spot pulls them, gpucost collect spot PATH loads files; gpucost prices history shows what is there",
        )
    zones = [_clipped(zone, period) for zone in zones]
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
    starts = range(begin, end - length + 1, _DAY_MS)
    step = -(-len(starts) // _MOST_STARTS)
    jobs = tuple(
        Job(iso(from_ms(start)), start, hours, gpus, ((start, on_demand),), tuple(zones), gpus, nodes) for start in starts[::step]
    )
    return jobs, Period(from_ms(begin), from_ms(end))


def node_jobs(fleet: Fleet, market: Market, *, is_narrowed: bool) -> tuple[tuple[Job, ...], int]:
    """The real hours of on-demand nodes as jobs, and how many such nodes have no history. Raises GpucostError without any job."""
    jobs, left_out = [], 0
    held: dict[tuple[str, str], float] = defaultdict(float)
    for pod in fleet.pods:
        held[pod.cluster, pod.node] += pod.gpus * (pod.to_ms - pod.from_ms)
    for node in fleet.nodes:
        if node.capacity_type != "on_demand" or not node.is_priced:
            continue
        zones = market.zones(Place(node.instance_type or "", node.provider, node.region))
        if any(zone.covers(node.from_ms, node.to_ms) for zone in zones):
            steps = tuple((max(price.from_ms or 0, node.from_ms), price.per_node_hour) for price in node.prices)
            # the rest of the nodes that others hold, too, is not this usage
            used = min(held[node.cluster, node.name] / (node.to_ms - node.from_ms), node.gpus) if is_narrowed else node.gpus
            jobs.append(Job(node.name, node.from_ms, node.hours, node.gpus, steps, tuple(zones), used))
        else:
            left_out += 1
    if not jobs:
        raise GpucostError(
            "the spot price history covers no on-demand node of this usage",
            "gpucost collect spot pulls it, gpucost collect spot PATH loads files; --hours with --instance-type replays a job",
        )
    return tuple(jobs), left_out


def answer(options: Options, question: Replay, cost_of: CostOf) -> Answer:
    """Every way of buying, over the same jobs. Raises GpucostError where history covers none of them."""
    overhead = formulas.stretch(options.work(question.rate.per_hour)) if question.rate else 1.0
    move = (options.restart_minutes + options.checkpoint_write_minutes) / 60
    stretched = [_stretched(job, overhead) for job in question.jobs]
    replayed = [(job, bought) for job in stretched if (bought := replay(job, move, question.on_demand_share))]
    if not replayed:
        raise GpucostError("the spot price history is shorter than the job with its interruptions", "give fewer --hours")
    jobs, runs = [job for job, _ in replayed], [_on_demand_unstretched(job, bought, overhead) for job, bought in replayed]
    # ways that not every job could be bought in can't be compared
    ways = [way for way in runs[0] if all(way in known for known in runs)]
    paid = costs(jobs, [{way: known[way] for way in ways} for known in runs], cost_of)
    count = len(jobs) if question.is_sample else 1
    means = {way: (sum(amounts, Decimal(0)) / count).quantize(_CENTS) for way, amounts in paid.items()}
    chosen = SWITCHING if SWITCHING in means else next((way for way in means if way != ON_DEMAND), ON_DEMAND)
    left_out = question.left_out + len(question.jobs) - len(jobs)
    table = _table(question, paid, means, runs, count)
    keys = [column.replace(" ", "_") for column in table.columns]
    return Answer(
        kind="spot-backtest",
        title=question.title,
        period=question.period_name,
        today=_position(question, jobs, runs, ON_DEMAND, means[ON_DEMAND], count),
        scenario=_position(question, jobs, runs, chosen, means[chosen], count),
        figures={
            "strategy": chosen,
            "jobs": len(jobs),
            "strategies": [dict(zip(keys, line, strict=True)) for line in table.lines],
        },
        assumptions=_assumptions(options, question, move),
        ranges=_ranges(question, paid, chosen),
        break_even=_break_even(means, chosen),
        time=(_time(runs, chosen, jobs),),
        findings=tuple(_findings(means, chosen, left_out, len(jobs), question)),
        tables=(table,),
    )


def _clipped(zone: Changes, period: Period | None) -> Changes:
    """History ends with the last thing known, and with the period asked for."""
    end = min(zone.known_until_ms, period.end_ms) if period else zone.known_until_ms
    return Changes(zone.region, zone.zone, zone.at_ms, zone.prices, end)


def _stretched(job: Job, overhead: float) -> Job:
    return replace(job, hours=job.hours * overhead)


def _on_demand_unstretched(job: Job, ways: dict[str, Run], overhead: float) -> dict[str, Run]:
    """Nothing interrupts on demand: its hours are those of the work."""
    end = job.start_ms + round(job.hours / overhead * MS_PER_HOUR)
    return ways | {ON_DEMAND: Run(ways[ON_DEMAND].steps, end)}


def _position(
    question: Replay, jobs: Sequence[Job], runs: Sequence[dict[str, Run]], way: str, cost: Decimal, count: int
) -> Position:
    hours = [(known[way].end_ms - job.start_ms) / MS_PER_HOUR * job.nodes for job, known in zip(jobs, runs, strict=True)]
    gpu_hours = sum(span * job.held_gpus for span, job in zip(hours, jobs, strict=True))
    return Position(cost, question.currency, round(gpu_hours / count, 6), round(sum(hours) / count, 6), {"strategy": way})


def _table(
    question: Replay,
    paid: dict[str, list[Decimal]],
    means: dict[str, Decimal],
    runs: Sequence[dict[str, Run]],
    count: int,
) -> Rows:
    today = means[ON_DEMAND]
    lines: list[tuple[Value, ...]] = []
    for way, mean in sorted(means.items(), key=lambda item: item[1]):
        moves = sum(known[way].moves for known in runs) / count
        saved = round(float((today - mean) / today * 100), 2) if today else None
        low, high = (_percentile(paid[way], 5), _percentile(paid[way], 95)) if question.is_sample else (None, None)
        lines.append((way, mean, saved, round(moves, 2), *((low, high) if question.is_sample else ())))
    columns: tuple[str, ...] = ("strategy", "cost", "saved percent", "moves")
    return Rows("Ways of buying", (*columns, "cost p5", "cost p95") if question.is_sample else columns, tuple(lines))


def _percentile(amounts: Sequence[Decimal], percent: int) -> Decimal:
    """The amount that `percent` of them do not exceed."""
    ordered = sorted(amounts)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)].quantize(_CENTS)


def _assumptions(options: Options, question: Replay, move: float) -> tuple[Assumption, ...]:
    said = [
        Assumption(
            "on-demand price", question.jobs[0].on_demand[0][1], f"{question.currency} per node-hour", question.on_demand_source
        ),
        Assumption("spot prices", len(question.jobs[0].zones), "zones", "spot price history of the store"),
        Assumption("a move to another place", move * 60, "paid minutes", "--restart-minutes + --checkpoint-write-minutes"),
        Assumption("on-demand share of the anchor", question.on_demand_share, "", "--on-demand-share"),
    ]
    if question.rate is None:
        said.append(Assumption("interruptions", 0, "per node-hour", "not counted without --interruptions-per-hour or --trace"))
        return tuple(said)
    return (*said, rate_assumption(question.rate), *options.assumptions())


def _ranges(question: Replay, paid: dict[str, list[Decimal]], chosen: str) -> tuple[Range, ...]:
    if not question.is_sample:
        return ()
    low, high = _percentile(paid[chosen], 5), _percentile(paid[chosen], 95)
    return (Range(f"cost, {chosen}", low, high, question.currency, f"5 % to 95 % of {len(paid[chosen])} start times"),)


def _break_even(means: dict[str, Decimal], chosen: str) -> tuple[str, ...]:
    if not means[chosen]:
        return ()
    ratio = float(means[ON_DEMAND] / means[chosen])
    return (f"on spot, work may take {ratio:.2f} times as long before it costs as much as on demand",)


def _time(runs: Sequence[dict[str, Run]], chosen: str, jobs: Sequence[Job]) -> str:
    hours = sum(known[chosen].end_ms - job.start_ms for job, known in zip(jobs, runs, strict=True)) / MS_PER_HOUR / len(jobs)
    plain = sum(known[ON_DEMAND].end_ms - job.start_ms for job, known in zip(jobs, runs, strict=True)) / MS_PER_HOUR / len(jobs)
    return f"{plain:,.1f} h of work take {hours:,.1f} h by {chosen!r}"


def _findings(means: dict[str, Decimal], chosen: str, left_out: int, used: int, question: Replay) -> list[str]:
    best = min(means, key=means.__getitem__)
    said = [f"the mean of {used} start times is told" if question.is_sample else f"{used} node(s) were replayed"]
    if best != chosen:
        said.append(f"in hindsight {best!r} was cheapest; nobody knew that beforehand")
    if means.get(FALLBACK) is not None and means[chosen] >= means[ON_DEMAND]:
        said.append("spot cost as much as on demand here: there was no discount")
    if left_out:
        said.append(f"{left_out} more are left out: spot price history does not cover them")
    return said
