"""The money that leaves the bill when a node goes: the one rule of every what-if, finding and plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from gpucost.periods import MS_PER_HOUR
from gpucost.records import grouped, record
from gpucost.whatif.curve import Curve, counted
from gpucost.whatif.flags import kept, to_decimal, total

if TYPE_CHECKING:
    from gpucost.whatif.fleet import Fleet, Node

NOTHING = Decimal(0)

# (provider, region, instance type), lower-cased.
Key = tuple[str, str, str]


def is_own_machine(node: Node) -> bool:
    """Whether no cloud rents the node out: it brings back power at most."""
    return not node.provider and not node.instance_type


def why_not(node: Node) -> str:
    """Why nothing leaves the bill when the node goes; empty if something does."""
    if is_own_machine(node):
        return "own machines: switching them off saves power at most"
    if node.capacity_type == "capacity_block":
        return "in a capacity block, which is paid in advance"
    if node.prices and all(price.is_committed for price in node.prices):
        return "under a commitment, which is paid in any case"
    return ""


def at_cash(node: Node) -> Node:
    """The node at what leaves the bill per hour that it is not up, if no bill shows commitments for its type.

    Capacity blocks, commitments and own machines are paid for in any case. A capacity reservation at the on-demand price is
    avoidable by cancelling it.
    """
    stays = bool(why_not(node))
    return node.repriced(
        lambda price: replace(price, per_node_hour=NOTHING) if stays or price.is_committed else price
    )


class Held(NamedTuple):
    """`gpus` of a node, or of a node like it, in [from_ms, to_ms). `stays`: the pod stays where it is."""

    node: Node
    gpus: float
    from_ms: int
    to_ms: int
    stays: bool = False

    @property
    def hours(self) -> float:
        return (self.to_ms - self.from_ms) / MS_PER_HOUR

    @property
    def nodes(self) -> float:
        """How many nodes the GPUs are."""
        return self.gpus / self.node.gpus

    @property
    def cost(self) -> Decimal:
        """Their share of the node's price; before the node's life that of its first price."""
        node = replace(self.node, from_ms=self.from_ms, to_ms=self.to_ms)
        part = to_decimal(self.gpus) / to_decimal(node.gpus)
        return total(
            kept(price.per_node_hour * part * (end - start) / MS_PER_HOUR) for price, start, end in node.steps
        )

    @property
    def cash(self) -> Decimal:
        """What leaves the bill without them, if no bill shows commitments for their type."""
        return self._replace(node=at_cash(self.node)).cost


@record
class Cover:
    """Instances of one type in a region that commitments of a bill cover, and that they do not cover, hour by hour.

    `on_demand` is the cost of an instance-hour that they do not cover. `returned` is what other usage of the payer costs less if
    a commitment gives up an instance-hour: the on-demand cost of what it covers then.
    """

    covered: Curve
    uncovered: Curve
    on_demand: Decimal
    returned: Decimal = NOTHING

    @property
    def is_paid_anyway(self) -> bool:
        """Whether nothing leaves the bill, whatever goes."""
        return not self.uncovered.node_hours and not self.returned and min(self.covered.levels) > 0

    @property
    def mean_cash(self) -> Decimal:
        """What leaves the bill for each instance-hour if all instances go."""
        on_demand, given_up = to_decimal(self.uncovered.node_hours), to_decimal(self.covered.node_hours)
        return kept(
            (on_demand * self.on_demand + given_up * self.returned) / (on_demand + given_up or Decimal(1))
        )

    def cash(self, freed: Iterable[float]) -> Decimal:
        """What leaves the bill if so many instances go in each hour; those that no commitment covers go first.

        A negative number is of instances that come on demand.
        """
        on_demand = given_up = 0.0
        curves = zip(freed, self.covered.levels, self.uncovered.levels, self.covered.lengths, strict=True)
        for nodes, covered, uncovered, hours in curves:
            left = max(0.0, min(nodes - uncovered, covered))
            on_demand += (nodes - left) * hours
            given_up += left * hours
        return kept(to_decimal(on_demand) * self.on_demand + to_decimal(given_up) * self.returned)


@record
class Commitments:
    """What commitments of the bill cover in [start_ms, end_ms), by provider, region and instance type."""

    start_ms: int = 0
    end_ms: int = 0
    covers: Mapping[Key, Cover] = field(default_factory=dict)

    def key(self, node: Node) -> Key | None:
        """The instances that the node is one of, if commitments cover some of them."""
        if node.capacity_type not in ("on_demand", "unknown", "reserved"):
            return None
        key = node.provider or "", node.region or "", (node.instance_type or "").lower()
        return key if key in self.covers else None

    def cash(self, gone: Sequence[Held], needed: Sequence[Held] = ()) -> Decimal:
        """What leaves the bill if some GPUs go and others are needed, as parts of nodes of one key (or of none)."""
        key = next((self.key(held.node) for held in (*gone, *needed)), None)
        if key is None:
            return total(held.cash for held in gone) - total(held.cash for held in needed)
        less, more = self._levels(gone), self._levels(needed)
        return self.covers[key].cash(one - other for one, other in zip(less, more, strict=True))

    def _levels(self, several: Iterable[Held]) -> Sequence[float]:
        """How many nodes the GPUs are in each hour."""
        spans = ((held.from_ms, held.to_ms, held.nodes) for held in several)
        return counted(spans, self.start_ms, self.end_ms).levels

    def between(self, before: Fleet, after: Fleet) -> Decimal:
        """What leaves the bill if nodes are up as in `after` instead."""
        gone, needed = self._by_key(before), self._by_key(after)
        keys = gone.keys() | needed.keys()
        return total(self.cash(gone.get(key, ()), needed.get(key, ())) for key in keys)

    def _by_key(self, fleet: Fleet) -> dict[Key | None, list[Held]]:
        return grouped(
            (self.key(node), Held(node, node.gpus, node.from_ms, node.to_ms)) for node in fleet.nodes
        )

    def at_cash_prices(self, fleet: Fleet) -> Fleet:
        """The fleet at what leaves the bill if its work goes; where commitments cover a part, on average."""

        def cash(node: Node) -> Node:
            key = self.key(node)
            if key is None:
                return at_cash(node)
            mean = self.covers[key].mean_cash
            return node.repriced(lambda price: replace(price, per_node_hour=mean))

        return fleet.with_nodes(cash)

    def marked(self, fleet: Fleet) -> Fleet:
        """The fleet, with prices of a bill marked as committed where nothing leaves the bill."""

        def mark(node: Node) -> Node:
            key = self.key(node)
            if key is None or not self.covers[key].is_paid_anyway:
                return node
            return node.repriced(
                lambda price: replace(price, is_committed=price.is_committed or price.source == "bill")
            )

        return fleet.with_nodes(mark)


NO_COMMITMENTS = Commitments()
