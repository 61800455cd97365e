"""Work on spot: closed forms, makespans by Monte Carlo as arrays, and a fleet's nodes at their effective prices."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NamedTuple

from gpucost.errors import GpucostError, UsageError
from gpucost.records import record
from gpucost.whatif.answer import Assumption, stated
from gpucost.whatif.flags import Option, OptionGroup, PricePer, node_price
from gpucost.whatif.fleet import Fleet, Node, Pod, Price, Usage
from gpucost.whatif.spot.interruptions import Rate
from gpucost.whatif.spot.market import Market, Place

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]

# Rates that break-evens are looked for in, interruptions per node-hour: one in a million years to one in a third of a second.
_LOWEST, _HIGHEST = 1e-10, 1e4
# where first hours are free, cost may fall again at high rates: steps must be short enough not to jump over its peak
_STEP, _SHORT_STEP = 2.0, 1.02
_BISECTIONS = 80
# exp() of more has no float
_LARGEST = 700.0


@record
class Work:
    """How a gang of `nodes` works on spot. Times in hours, `per_hour` in interruptions per node-hour.

    A gang stops when any of its nodes does: `nodes` times as often. Every `checkpoint` hours of work a checkpoint takes `write`
    hours; after an interruption `restart` hours pass before work goes on; all of them are paid.
    A checkpoint that fits the `notice` leaves nothing lost but the time it takes. `first_hour_free`: an instance that its
    cloud takes back within its first hour costs nothing.
    """

    per_hour: float
    checkpoint: float
    write: float = 0.0
    restart: float = 0.0
    notice: float = 0.0
    nodes: int = 1
    first_hour_free: bool = False

    @property
    def gang_rate(self) -> float:
        """Interruptions of the gang per hour."""
        return self.per_hour * self.nodes

    @property
    def is_noticed(self) -> bool:
        """Whether a checkpoint fits the notice, so that no work is lost."""
        return self.notice > 0 and self.write <= self.notice

    @property
    def lost(self) -> float:
        """Hours that an interruption costs on average before the restart: half an interval, or the checkpoint on notice."""
        return self.write if self.is_noticed else self.checkpoint / 2


def first_order(work: Work) -> float:
    """Paid hours per useful hour, as long as interruptions are rare against checkpoints: 1 + w/c + n·λ (c/2 + r)."""
    overhead = 1 + work.write / work.checkpoint
    return (overhead + work.gang_rate * (work.lost + work.restart)) * paid_share(work)


def exact(work: Work) -> float:
    """Paid hours per useful hour for exponential interruptions; infinite where nothing is ever finished.

    (1/Λ) e^{Λr} (e^{Λ(c+w)} - 1) / c with Λ = nλ. Where the notice fits a checkpoint, a life of T hours leaves
    max(T - r - w, 0) hours of work, of which e^{-Λ(r+w)}/Λ are to be expected: (1 + w/c) e^{Λ(r+w)}.
    """
    up = stretch(work)
    if math.isinf(up) and work.first_hour_free:
        # hours without end, of which next to none are paid: their product may be small
        log_up = work.gang_rate * _at_once(work) + math.log1p(work.write / work.checkpoint)
        log_up -= 0.0 if work.is_noticed else math.log(work.gang_rate * (work.checkpoint + work.write))
        log_paid = log_up - work.per_hour + math.log1p(work.per_hour)
        return math.exp(log_paid) if log_paid < _LARGEST else math.inf
    return up * paid_share(work)


def stretch(work: Work) -> float:
    """Hours that nodes are up per useful hour, paid or not."""
    rate, overhead = work.gang_rate, 1 + work.write / work.checkpoint
    at_once = work.write if work.is_noticed else work.checkpoint + work.write
    if rate * _at_once(work) > _LARGEST:
        return math.inf
    if work.is_noticed:
        return overhead * math.exp(rate * (work.restart + work.write))
    exponent = rate * at_once
    return overhead * math.exp(rate * work.restart) * (math.expm1(exponent) / exponent if exponent else 1.0)


def _at_once(work: Work) -> float:
    """Hours that must pass without an interruption for anything to be won."""
    return work.restart + work.write + (0.0 if work.is_noticed else work.checkpoint)


def paid_share(work: Work) -> float:
    """The share of a node's time that is paid: E[T; T > 1 h] / E[T] = e^{-λ} (1 + λ) of lives T where first hours are free."""
    return math.exp(-work.per_hour) * (1 + work.per_hour) if work.first_hour_free else 1.0


def break_even_exact(work: Work, ratio: float) -> float | None:
    """The rate per node-hour at which `exact` is `ratio`, the on-demand over the spot price; None where it never is."""
    return _crossing(lambda rate: exact(replace(work, per_hour=rate)), ratio, work.first_hour_free)


def break_even_first_order(work: Work, ratio: float) -> float | None:
    """The same for `first_order`."""
    if work.first_hour_free:
        return _crossing(lambda rate: first_order(replace(work, per_hour=rate)), ratio, True)
    room, per_interruption = ratio - 1 - work.write / work.checkpoint, (work.lost + work.restart) * work.nodes
    return room / per_interruption if room > 0 and per_interruption > 0 else None


class Checkpoints(NamedTuple):
    """The intervals that cost least, in hours: exactly, and as Young and Daly approximate it."""

    exact: float
    young: float
    daly: float


def best_checkpoints(work: Work) -> Checkpoints | None:
    """None where checkpoints cost nothing (the more the better), or nothing is ever lost (the fewer the better)."""
    if work.write == 0 or work.gang_rate == 0 or work.is_noticed:
        return None
    mean = 1 / work.gang_rate
    young = math.sqrt(2 * work.write * mean)
    half = work.write / (2 * mean)
    daly = young * (1 + math.sqrt(half) / 3 + half / 9) - work.write if half < 1 else mean
    return Checkpoints(_optimum(work.gang_rate * work.write) / work.gang_rate, young, daly)


def _optimum(write: float) -> float:
    """The x = Λc in (0, 1) where the derivative of (e^{x + Λw} - 1) / x is 0: ln(1 - x) + x + Λw = 0."""
    return bisected(0.0, 1.0, lambda x: x < 1 and math.log1p(-x) + x + write > 0)


def bisected(low: float, high: float, is_low: Callable[[float], bool]) -> float:
    """Where `is_low` ends to hold, between both."""
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_low(middle) else (low, middle)
    return high


def _crossing(cost: Callable[[float], float], target: float, may_fall: bool) -> float | None:
    """The lowest rate at which `cost` reaches `target`, from below; None where it is above at once, or never."""
    if cost(0.0) >= target:
        return None
    factor = _SHORT_STEP if may_fall else _STEP
    low, high = 0.0, _LOWEST
    while cost(high) < target:
        low, high = high, high * factor
        if high > _HIGHEST:
            return None
    return bisected(low, high, lambda rate: cost(rate) < target)


# A job that takes longer than so many times its work is not worth simulating: it practically never ends.
HOPELESS = 1000.0
# Above so many lost pieces of a run, their sum is drawn at once, from the normal law that such sums follow.
_MANY = 500
_RUNS_AT_ONCE = 1000


class Makespans(NamedTuple):
    """`paid` hours of a node and `elapsed` hours (waits for capacity among them) of each run, and its interruptions."""

    paid: Floats
    elapsed: Floats
    interruptions: Floats


def _intervals(work: Work, hours: float) -> tuple[int, float]:
    """Whole checkpoint intervals of so many useful hours, and what is left, but for what is rounding."""
    whole, rest = math.floor(hours / work.checkpoint), math.fmod(hours, work.checkpoint)
    return whole, 0.0 if rest < hours * 1e-12 else rest


def expected_hours(work: Work, hours: float) -> float:
    """What the simulated mean of `paid` tends to: the last interval, shorter than others, is counted as it is."""
    whole, rest = _intervals(work, hours)
    if work.is_noticed:
        clock = hours + work.write * (whole + (rest > 0))
        return clock * math.exp(work.gang_rate * (work.restart + work.write))
    last = stretch(replace(work, checkpoint=rest)) * rest if rest else 0.0
    return whole * work.checkpoint * stretch(work) + last


def simulate(work: Work, hours: float, wait: float, runs: int, seed: int) -> Makespans | None:
    """`runs` runs of a job of `hours` useful hours; each interruption waits `wait` hours for capacity, which are not paid.

    None where the job would practically never end. The same seed gives the same runs.
    """
    if not stretch(work) < HOPELESS:
        return None
    import numpy as np

    rng = np.random.default_rng(seed)
    parts = [_simulate(rng, work, hours, min(_RUNS_AT_ONCE, runs - done)) for done in range(0, runs, _RUNS_AT_ONCE)]
    paid, interruptions = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Makespans(paid, paid + wait * interruptions, interruptions)


def _simulate(rng: np.random.Generator, work: Work, hours: float, runs: int) -> tuple[Floats, Floats]:
    """(paid hours, interruptions) of each run."""
    import numpy as np

    rate, (whole, rest) = work.gang_rate, _intervals(work, hours)
    clock = hours + work.write * (whole + (rest > 0))
    if rate == 0:
        return np.full(runs, clock), np.zeros(runs)
    if work.is_noticed:
        stops = rng.poisson(rate * clock, runs)
        span = work.restart + work.write
        again, lost = _failures(rng, stops, span, rate)
        return clock + stops * span + lost, (stops + again).astype(np.float64)
    stops, lost = _failures(rng, np.full(runs, whole), work.checkpoint + work.write, rate)
    if rest:
        more, lost_last = _failures(rng, np.ones(runs, dtype=np.int64), rest + work.write, rate)
        stops, lost = stops + more, lost + lost_last
    again, lost_restarts = _failures(rng, stops, work.restart, rate)
    return clock + stops * work.restart + lost + lost_restarts, (stops + again).astype(np.float64)


def _failures(rng: np.random.Generator, tasks: Counts, span: float, rate: float) -> tuple[Counts, Floats]:
    """How often each run fails before all its `tasks` of `span` hours got through, and the hours those failures took."""
    import numpy as np

    if span == 0:
        return np.zeros(len(tasks), dtype=np.int64), np.zeros(len(tasks))
    failures = np.where(tasks > 0, rng.negative_binomial(np.maximum(tasks, 1), math.exp(-rate * span)), 0)
    return failures, _lost_hours(rng, failures, span, rate)


def _lost_hours(rng: np.random.Generator, failures: Counts, span: float, rate: float) -> Floats:
    """Sums of so many exponential times that are known to be shorter than `span`."""
    import numpy as np

    few = np.where(failures <= _MANY, failures, 0)
    below = -math.expm1(-rate * span)
    times = -np.log1p(-rng.random(int(few.sum())) * below) / rate
    lost = np.bincount(np.repeat(np.arange(len(few)), few), weights=times, minlength=len(few)).astype(np.float64)
    many = failures > _MANY
    if many.any():
        mean = 1 / rate - span * math.exp(-rate * span) / below
        square = 2 / rate**2 - (span**2 + 2 * span / rate) * math.exp(-rate * span) / below
        deviation = math.sqrt(max(square - mean**2, 0.0))
        counts = failures[many]
        lost[many] = np.maximum(counts * mean + np.sqrt(counts) * deviation * rng.standard_normal(len(counts)), 0.0)
    return lost


Workload = tuple[str, str, str]
Formula = Callable[[Work], float]
_REPLICAS = re.compile(r"(deployment|replicaset|statefulset|daemonset|inferenceservice)/", re.IGNORECASE)


def gangs(fleet: Fleet) -> dict[Workload, int]:
    """The most nodes that each workload held at one moment; 1 for replicas, which don't need each other."""
    pods: dict[Workload, list[Pod]] = defaultdict(list)
    for pod in fleet.pods:
        pods[pod.owner].append(pod)
    return {key: 1 if _REPLICAS.match(key[2]) else _most_at_once(held) for key, held in pods.items()}


def _most_at_once(pods: Iterable[Pod]) -> int:
    events = sorted((at, change, pod.node) for pod in pods for at, change in ((pod.from_ms, 1), (pod.to_ms, -1)))
    held: dict[str, int] = defaultdict(int)
    nodes = most = 0
    for _, change, node in events:
        held[node] += change
        # its first pod came, or its last one went
        nodes += change if held[node] == max(change, 0) else 0
        most = max(most, nodes)
    return most


def base_name(workload: str) -> str:
    """`Job/sweep-12` and `Job/sweep-13` are runs of `Job/sweep-*`."""
    return re.sub(r"[-_.]\d+$", "-*", workload)


class Target(StrEnum):
    """Where usage is moved to."""

    spot = "spot"
    on_demand = "on-demand"

    @property
    def capacity_type(self) -> str:
        return self.value.replace("-", "_")


# Seconds from the notice to the interruption, by provider, and where that is written.
NOTICES = {
    "aws": (120.0, "EC2 User Guide, Spot Instance interruption notices: two minutes, best effort"),
    "gcp": (30.0, "Compute Engine API, Scheduling.skipGuestOsShutdown: 30 seconds for Spot VMs"),
    "azure": (30.0, "Azure Scheduled Events: Preempt, 30 seconds"),
}


@record
class SimulationOptions(OptionGroup):
    """Assumptions about work on spot, and what is asked of it; `given` names the options that are no defaults."""

    checkpoint_minutes: Annotated[
        float,
        Option("Work between two checkpoints. Default: 30.", above=True, says="checkpoint interval", unit="minutes"),
    ] = 30.0
    checkpoint_write_minutes: Annotated[
        float,
        Option(
            "What writing a checkpoint takes. Default: 2.5.",
            says="writing a checkpoint", unit="minutes",
            source="default: 148.8 s of a 7B model, pytorch.org/blog/reducing-checkpointing-times",
        ),
    ] = 2.5  # fmt: skip
    restart_minutes: Annotated[
        float,
        Option(
            "From an interruption until work goes on: provision, pull the image, load. Default: 12.",
            says="restart (provision, pull, load)", unit="minutes",
            source="default: 0.2 h in the simulations of Can't Be Late, NSDI 2024",
        ),
    ] = 12.0  # fmt: skip
    notice_seconds: Annotated[
        float | None,
        Option(
            "Notice of an interruption; a checkpoint that fits it saves the work. Default: 120 on AWS, else 30.", is_rare=True,
        ),
    ] = None  # fmt: skip
    capacity_wait_minutes: Annotated[
        float,
        Option(
            "Wait for capacity after an interruption: time, not paid. Default: 96.",
            says="wait for capacity (time, not paid)", unit="minutes",
            source="default: mean of 3,407 waits for K80 and V100 in one zone, skypilot-org/spot-traces availability/1-node",
        ),
    ] = 96.0  # fmt: skip
    first_hour_free: Annotated[
        bool, Option("Instances interrupted in their first hour cost nothing (EC2).", is_rare=True)
    ] = False  # fmt: skip
    to: Annotated[
        Target, Option("spot: on-demand usage moves to spot; on-demand: the reverse.", flag="--move-to", is_shown=True)
    ] = Target.spot
    backtest: Annotated[bool, Option("Replay a job (--instance-type, --hours), or real usage, over the store's spot prices.")] = (
        False
    )
    on_demand_share: Annotated[
        float | None, Option("Part of the nodes that stays on demand. Default: 0; with --backtest 0.3.", most=1)
    ] = None  # fmt: skip
    runs: Annotated[int, Option("Simulated runs of the job.", least=100, most=1_000_000, is_shown=True, is_rare=True)] = 10_000
    seed: Annotated[int, Option("The same seed simulates the same.", "NUMBER", is_shown=True, is_rare=True)] = 0

    def work(self, per_hour: float, nodes: int = 1, provider: str | None = None) -> Work:
        """The same in hours."""
        minutes = (self.checkpoint_minutes, self.checkpoint_write_minutes, self.restart_minutes)
        checkpoint, write, restart = (each / 60 for each in minutes)
        notice = self.notice(provider)[0] / 3600
        return Work(per_hour, checkpoint, write, restart, notice, nodes, self.first_hour_free)

    def notice(self, provider: str | None) -> tuple[float, str]:
        """Seconds between notice and interruption, and where they are known from."""
        if self.notice_seconds is not None:
            return self.notice_seconds, "option"
        seconds, source = NOTICES.get(provider or "", (30.0, "the shortest of AWS, Google Cloud and Azure"))
        return seconds, f"default: {source}"

    @property
    def kept_on_demand(self) -> float:
        """The part that does not move."""
        return self.on_demand_share or 0.0

    @property
    def wait_hours(self) -> float:
        return self.capacity_wait_minutes / 60

    def check(self, hours: float) -> None:
        """Raises UsageError where the work cannot be checkpointed as asked."""
        if self.checkpoint_minutes > hours * 60 * (1 + 1e-9):
            raise UsageError(
                f"a checkpoint every {self.checkpoint_minutes:g} minutes is longer than the job of {hours:g} hours",
                "give --checkpoint-minutes up to the job's length, or more --hours",
            )

    def assumptions(self, providers: Iterable[str | None] = (None,)) -> tuple[Assumption, ...]:
        """All but the rate, each with where it comes from."""
        times = ("checkpoint_minutes", "checkpoint_write_minutes", "restart_minutes", "capacity_wait_minutes")
        notices = dict.fromkeys(self.notice(provider) for provider in providers)
        more = [Assumption("notice of an interruption", seconds, "seconds", source) for seconds, source in notices]
        if self.first_hour_free:
            more.append(Assumption("instances interrupted in their first hour", 0, "price", "option --first-hour-free"))
        if self.on_demand_share is not None:
            more.append(Assumption("kept on demand", self.on_demand_share, "of the nodes", "option"))
        return (*stated(self, *times), *more)


def rate_assumption(rate: Rate, name: str = "interruptions") -> Assumption:
    """The rate as an assumption."""
    return Assumption(name, rate.per_hour, "per node-hour", rate.source, rate.as_of)


# Paid hours per useful hour beyond which work never ends.
HOPELESS_RATIO = 1e9


class SimulationQuery(NamedTuple):
    """Whose usage, at which prices: `price` of a node (per node, or per GPU, as
    `price_per` says) wins over all that is known.

    The `times` nodes that a described one stands for need each other. `interruptible` are globs of workloads ([spot]).
    """

    usage: Usage
    market: Market
    rate: Rate | None = None
    price: Price | None = None
    price_per: PricePer = PricePer.node
    interruptible: Collection[str] = ()
    stale_after_days: int = 90


@record
class Moved:
    """A node that can move: its prices there, before interruptions are counted, and the node-hours by who held it.

    Nobody (None) holds what is free of a node all of which is asked for.
    """

    node: Node
    prices: tuple[Price, ...]
    rate: Rate
    hours: dict[Workload | None, float]

    @property
    def today_price(self) -> float:
        return self.node.mean_price

    @property
    def price(self) -> float:
        return replace(self.node, prices=self.prices).mean_price


Moves = dict[tuple[str, str], Moved]  # by cluster and node


def movable(options: SimulationOptions, question: SimulationQuery) -> tuple[Moves, Counter[str]]:
    """Nodes that can move, and why how many others do not."""
    target, wanted = options.to, "on_demand" if options.to is Target.spot else "spot"
    usage = question.usage
    held: dict[tuple[str, str], dict[Workload, float]] = defaultdict(lambda: defaultdict(float))
    for pod in usage.fleet.pods:
        held[pod.place][pod.owner] += pod.gpu_ms
    moved: Moves = {}
    stays: Counter[str] = Counter()
    for node in usage.fleet.nodes:
        name = node.instance_type or "nodes without an instance type"
        place = Place(node.instance_type or "", node.provider, node.region, node.zone, node.zone_id, node.gpu_model)
        if node.capacity_type == "unknown":
            stays["how they are bought is not known"] += 1
        elif node.capacity_type != wanted:
            stays[f"bought as {node.capacity_type.replace('_', ' ')}"] += 1
        elif not node.is_priced:
            stays[f"what {name} cost now is not known"] += 1
        elif not (prices := _target_prices(target, question, node, place)):
            stays[f"no {target} price is known of {name}"] += 1
        else:
            gpu_ms = max(node.gpus * node.length_ms, sum(held[node.key].values()))
            per_gpu_ms = node.hours * usage.times / gpu_ms
            hours: dict[Workload | None, float] = {owner: time * per_gpu_ms for owner, time in held[node.key].items()}
            free = node.hours * usage.times - sum(hours.values())
            if free > 1e-9 and not usage.is_narrowed:
                hours[None] = free
            moved[node.key] = Moved(node, prices, question.rate or question.market.rate(place), hours)
    if not moved:
        raise GpucostError(
            f"no {wanted.replace('_', '-')} usage of {usage.scope_name} in {usage.period_name} can be moved: "
            + "; ".join(f"{count} node(s): {why}" for why, count in stays.items()),
            "--spot-price gives a price; --month names another period" if target is Target.spot else "--month names a period",
        )
    return moved, stays


def _target_prices(target: Target, question: SimulationQuery, node: Node, place: Place) -> tuple[Price, ...]:
    """Prices of the node where it moves to: the option's, spot history, own nodes' of that kind, list price."""
    if question.price is not None:
        return (replace(question.price, per_node_hour=node_price(question.price.per_node_hour, question.price_per, node.gpus)),)
    market = question.market
    if target is Target.spot and (steps := market.spot_steps(place, node.from_ms, node.to_ms)):
        return steps
    own = market.own.get((place.instance_type.lower(), target.capacity_type))
    if own is not None:
        return (Price(own, f"own {target} nodes of that type in the period"),)
    listed = market.list_price(place, target.capacity_type)
    return (listed,) if listed else ()


def weights(
    options: SimulationOptions, per_hour: float, gang: int, provider: str | None, formula: Formula
) -> tuple[float, float]:
    """What of the cost on demand, and of that on spot, an uninterrupted hour's work costs where a part is kept on demand.

    A gang's part on demand waits for those on spot, and is interrupted no more often than they are. Infinite: it never ends.
    """
    kept = options.kept_on_demand
    if gang > 1:
        factor = formula(options.work(per_hour * (1 - kept), gang, provider))
        return kept * factor if kept else 0.0, (1 - kept) * factor
    return kept, (1 - kept) * formula(options.work(per_hour, 1, provider))
