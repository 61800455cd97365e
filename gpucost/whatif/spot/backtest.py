"""Jobs replayed over the spot price history: what each way of buying would have cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from gpucost.model import MS_PER_HOUR
from gpucost.whatif.fleet import CostOf, Fleet, Node, Pod, Price
from gpucost.whatif.spot.market import Changes

ON_DEMAND = "on demand"
SWITCHING = "cheapest zone, switching"
FALLBACK = "spot, on demand where spot is dearer"


# steps of a price per node-hour: since when, how much
Lane = tuple[tuple[int, Decimal], ...]


@dataclass(frozen=True, slots=True)
class Job:
    """Work that keeps `nodes` nodes of `gpus` GPUs up for `hours` from `start_ms` on, and holds `held_gpus` of each.

    `on_demand` are steps of the on-demand price per node-hour, the first from `start_ms` on.
    """

    name: str
    start_ms: int
    hours: float
    gpus: float
    on_demand: Lane
    zones: tuple[Changes, ...]
    held_gpus: float
    nodes: int = 1

    @property
    def end_ms(self) -> int:
        return self.start_ms + round(self.hours * MS_PER_HOUR)


@dataclass(frozen=True, slots=True)
class Run:
    """A job bought in one way: price steps (since when, per node-hour) up to `end_ms`, and how often it moved."""

    steps: tuple[tuple[int, Decimal], ...]
    end_ms: int
    moves: int = 0


def stay(zone: Changes, job: Job) -> Run | None:
    """All of the job in one zone; None where its price is not known throughout."""
    if not zone.covers(job.start_ms, job.end_ms):
        return None
    return Run(tuple(zone.steps(job.start_ms, job.end_ms)), job.end_ms)


def switching(lanes: Sequence[Lane], job: Job, move_hours: float, known_until_ms: int) -> Run | None:
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
    return Run(tuple(steps), end, moves) if end <= known_until_ms else None


def replay(job: Job, move_hours: float, on_demand_share: float) -> dict[str, Run]:
    """Every way of buying the job that history covers, by name."""
    runs = {ON_DEMAND: Run(job.on_demand, job.end_ms)}
    covered = [zone for zone in job.zones if zone.covers(job.start_ms, job.end_ms)]
    if not covered:
        return {}
    for zone in covered:
        run = stay(zone, job)
        if run is not None:
            runs[f"stay in {zone.zone or zone.region}"] = run
    known = min(zone.known_until_ms for zone in covered)
    first = min(covered, key=lambda zone: (zone.steps(job.start_ms, job.start_ms + 1)[0][1], zone.zone))
    lanes = [tuple(zone.steps(job.start_ms, known)) for zone in covered]
    spot = tuple(first.steps(job.start_ms, first.known_until_ms))
    for name, run in (
        (SWITCHING, switching(lanes, job, move_hours, known)),
        (FALLBACK, switching([spot, job.on_demand], job, move_hours, first.known_until_ms)),
    ):
        if run is not None:
            runs[name] = run
    runs[anchor_name(on_demand_share)] = _anchored(first, job, on_demand_share)
    return runs


def anchor_name(on_demand_share: float) -> str:
    return f"{on_demand_share * 100:g} % on demand, the rest spot"


def costs(jobs: Sequence[Job], runs: Sequence[dict[str, Run]], cost_of: CostOf) -> dict[str, list[Decimal]]:
    """What each job cost, by way of buying: one described fleet, one node per job and way."""
    nodes, pods = [], []
    for index, (job, ways) in enumerate(zip(jobs, runs, strict=True)):
        for way, run in ways.items():
            workload = f"{way}/{index}"
            prices = tuple(Price(price, "spot_history", None, at) for at, price in run.steps)
            for number in range(job.nodes):
                name = f"{workload}/{number}"
                nodes.append(Node(name, job.gpus, job.start_ms, run.end_ms, prices))
                pods.append(Pod(name, workload, job.held_gpus, job.start_ms, run.end_ms, uid=name))
    of = {workload: cost for (_, _, workload), cost in cost_of(Fleet(tuple(nodes), tuple(pods))).by_workload.items()}
    ways_known = dict.fromkeys(way for ways in runs for way in ways)
    return {way: [of.get(f"{way}/{index}", Decimal(0)) for index, ways in enumerate(runs) if way in ways] for way in ways_known}


def _anchored(zone: Changes, job: Job, share: float) -> Run:
    """A mean node of a fleet of which `share` is bought on demand and the rest in the zone that was cheapest at the start."""
    part = Decimal(str(share))
    spot = tuple(zone.steps(job.start_ms, job.end_ms))
    changes = sorted({at for at, _ in (*spot, *job.on_demand) if at < job.end_ms})
    mixed = ((at, part * _price_at(job.on_demand, at) + (1 - part) * _price_at(spot, at)) for at in changes)
    return Run(tuple(mixed), job.end_ms)


def _price_at(lane: Lane, at_ms: int) -> Decimal:
    price = lane[0][1]
    for at, later in lane:
        if at > at_ms:
            break
        price = later
    return price
