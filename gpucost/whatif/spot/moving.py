"""Which nodes can move, and what a useful hour costs where they move to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal

from gpucost.errors import GpucostError
from gpucost.whatif.fleet import Fleet, Node, Price
from gpucost.whatif.spot import formulas
from gpucost.whatif.spot.gangs import gangs, workload_of
from gpucost.whatif.spot.market import Market, Place
from gpucost.whatif.spot.options import Options, Target
from gpucost.whatif.spot.rates import Rate, money

_HOPELESS = 1e9


@dataclass(frozen=True, slots=True)
class Question:
    """Whose usage, at which prices: `price` of a node (per node, or per GPU) wins over all that is known."""

    fleet: Fleet
    period_name: str
    scope_name: str
    is_narrowed: bool
    market: Market
    typical: Rate
    rate: Rate | None = None
    price: Decimal | None = None
    price_per: str = "node"


@dataclass(frozen=True, slots=True)
class Moved:
    """A node that can move: its prices there, before interruptions are counted, and how its time is used."""

    node: Node
    prices: tuple[Price, ...]
    rate: Rate
    # share of the node's time held by gangs of so many nodes
    shares: dict[int, float]

    @property
    def held_share(self) -> float:
        """The share of the node's GPU time that the pods asked for held."""
        return sum(self.shares.values())

    @property
    def today_price(self) -> float:
        return _mean(self.node, self.node.prices)

    @property
    def price(self) -> float:
        return _mean(self.node, self.prices)

    def overhead(self, options: Options, per_hour: float, formula: Callable[[formulas.Work], float]) -> float:
        """Hours paid per useful hour: held time is stretched, time that nobody holds is not."""
        held = sum(share * formula(options.work(per_hour, gang)) for gang, share in self.shares.items())
        return held + max(1 - self.held_share, 0.0)


def movable(options: Options, question: Question) -> tuple[dict[tuple[str, str], Moved], Counter[str]]:
    """Nodes that move, and why how many others do not."""
    wanted = "on_demand" if options.to is Target.spot else "spot"
    gang_of = gangs(question.fleet)
    held: dict[tuple[str, str], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for pod in question.fleet.pods:
        held[pod.cluster, pod.node][gang_of[workload_of(pod)]] += (pod.to_ms - pod.from_ms) * pod.gpus
    moved: dict[tuple[str, str], Moved] = {}
    stays: Counter[str] = Counter()
    for node in question.fleet.nodes:
        if node.capacity_type != wanted:
            is_known = node.capacity_type != "unknown"
            stays[f"bought as {node.capacity_type.replace('_', ' ')}" if is_known else "how they are bought is not known"] += 1
            continue
        if not node.is_priced:
            stays[f"what {node.instance_type or 'nodes without an instance type'} cost now is not known"] += 1
            continue
        place = Place(node.instance_type or "", node.provider, node.region, node.zone, node.zone_id)
        prices = _target_prices(options, question, node, place)
        if not prices:
            what = "spot" if options.to is Target.spot else "on-demand"
            stays[f"no {what} price is known of {node.instance_type or 'nodes without an instance type'}"] += 1
            continue
        key = node.cluster, node.name
        capacity_ms = max(node.gpus * (node.to_ms - node.from_ms), sum(held[key].values()))
        shares = {gang: time / capacity_ms for gang, time in held[key].items()}
        moved[key] = Moved(node, prices, question.rate or question.market.band(place) or question.typical, shares)
    if not moved:
        raise GpucostError(
            f"no {wanted.replace('_', '-')} usage of {question.scope_name} in {question.period_name} can be moved: "
            + "; ".join(f"{count} node(s): {why}" for why, count in stays.items()),
            "--spot-price gives a price; --month names another period" if options.to is Target.spot else "--month names a period",
        )
    return moved, stays


def _target_prices(options: Options, question: Question, node: Node, place: Place) -> tuple[Price, ...]:
    """Prices of the node where it moves to: the option's, spot history, own nodes' of that kind, list price."""
    if question.price is not None:
        gpus = Decimal(str(node.gpus)) if question.price_per == "gpu" else Decimal(1)
        return (Price(question.price * gpus, "option"),)
    to_spot = options.to is Target.spot
    if to_spot and (steps := question.market.spot_steps(place, node.from_ms, node.to_ms)):
        return steps
    own = question.market.own.get((place.instance_type.lower(), "spot" if to_spot else "on_demand"))
    if own is not None:
        return (Price(own, f"own {'spot' if to_spot else 'on-demand'} nodes of that type in the period"),)
    listed = question.market.list_price(place, "spot" if to_spot else "on_demand")
    return (listed,) if listed else ()


def edited(
    options: Options,
    question: Question,
    moved: dict[tuple[str, str], Moved],
    formula: Callable[[formulas.Work], float],
    factor: float = 1.0,
    rate_of: Callable[[Rate], float] = lambda rate: rate.per_hour,
) -> Fleet:
    """The fleet at effective prices (times `factor`): of a useful hour on spot, or of an hour of spot use on demand."""
    to_spot = options.to is Target.spot

    def edit(node: Node) -> Node:
        item = moved.get((node.cluster, node.name))
        if item is None:
            return node
        overhead = item.overhead(options, rate_of(item.rate), formula) * factor
        if overhead > _HOPELESS:
            raise GpucostError("interrupted so often, this work would practically never end", "more checkpoints, or a lower rate")
        prices = tuple(
            replace(price, per_node_hour=money(float(price.per_node_hour) * (overhead if to_spot else 1 / overhead)))
            for price in item.prices
        )
        return replace(node, prices=prices, capacity_type="spot" if to_spot else "on_demand")

    return question.fleet.with_nodes(edit)


def _mean(node: Node, prices: tuple[Price, ...]) -> float:
    """The price of a node-hour, weighted by time over the node's life."""
    starts = [node.from_ms if index == 0 else max(price.from_ms or 0, node.from_ms) for index, price in enumerate(prices)]
    ends = [*starts[1:], node.to_ms]
    total = sum(float(price.per_node_hour) * (end - at) for price, at, end in zip(prices, starts, ends, strict=True))
    return total / (node.to_ms - node.from_ms)
