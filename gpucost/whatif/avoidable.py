"""The money that leaves the bill when a node goes: one rule for every what-if, finding and plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from gpucost.periods import MS_PER_HOUR
from gpucost.records import frozen_dataclass, grouped
from gpucost.whatif.curve import Curve, counted
from gpucost.whatif.flags import round_money, to_decimal, total

if TYPE_CHECKING:
    from gpucost.whatif.fleet import Fleet, Node

NOTHING = Decimal(0)
_COMMITTED = "under a commitment, which is paid in any case"

# (provider, region, instance type), lower-cased.
Key = tuple[str, str, str]


def is_own_machine(node: Node) -> bool:
    """Whether the node is not rented from a cloud: switching it off saves power at most."""
    return not node.provider and not node.instance_type


def why_not(node: Node) -> str:
    """Why the bill stays the same when the node goes; empty if it falls."""
    if is_own_machine(node):
        return "own machines (switching them off saves only power)"
    if node.capacity_type == "capacity_block":
        return "in a capacity block, which is paid in advance"
    if node.prices and all(price.is_committed for price in node.prices):
        return _COMMITTED
    return ""


def why_paid(node: Node) -> str:
    """Why the node cannot move to another price, such as spot: as `why_not`, and a commitment for a part of its time."""
    return why_not(node) or (_COMMITTED if any(price.is_committed for price in node.prices) else "")


def staying_nodes(reasons: Mapping[str, int]) -> Iterator[str]:
    """A sentence without its full stop about the nodes that stay for each reason."""
    for why, count in sorted(reasons.items()):
        yield f"{count} node{' stays' if count == 1 else 's stay'}: {why}"


def at_cash(node: Node) -> Node:
    """The node at the cash that an hour less of it saves, if no bill shows commitments for its type.

    Capacity blocks, commitments and own machines are paid in any case. A capacity reservation at the on-demand price is avoidable
    by cancelling it.
    """
    stays = bool(why_not(node))
    return node.repriced(
        lambda price: replace(price, per_node_hour=NOTHING) if stays or price.is_committed else price
    )


class Held(NamedTuple):
    """`gpus` of a node, or of a node like it, in [from_ms, to_ms). `stays`: the pod keeps its place."""

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
        """The GPUs as a number of nodes."""
        return self.gpus / self.node.gpus

    @property
    def cost(self) -> Decimal:
        """Their share of the node's price; before the node's life, of its first price."""
        node = replace(self.node, from_ms=self.from_ms, to_ms=self.to_ms)
        part = to_decimal(self.gpus) / to_decimal(node.gpus)
        return total(
            round_money(price.per_node_hour * part * (end - start) / MS_PER_HOUR)
            for price, start, end in node.steps
        )

    @property
    def cash(self) -> Decimal:
        """The cash that they cost, if no bill shows commitments for their type."""
        return self._replace(node=at_cash(self.node)).cost


@frozen_dataclass
class Cover:
    """Instances of one type in a region by hour, covered by commitments of a bill and uncovered.

    `on_demand` is the cost of an uncovered instance-hour. `returned` is the saving of the payer's other usage if a commitment
    gives up an instance-hour: the on-demand cost of the usage that it covers instead.
    """

    covered: Curve
    uncovered: Curve
    on_demand: Decimal
    returned: Decimal = NOTHING

    @property
    def is_paid_anyway(self) -> bool:
        """Whether the bill stays the same, whichever instances go."""
        return not self.uncovered.node_hours and not self.returned and min(self.covered.levels) > 0

    @property
    def mean_cash(self) -> Decimal:
        """The cash of an instance-hour if all instances go."""
        whole = self.covered + self.uncovered
        return round_money(self.cash(whole.levels) / to_decimal(whole.node_hours))

    def cash(self, freed: Iterable[float]) -> Decimal:
        """The cash saved if so many instances go in each hour, uncovered ones first.

        A negative number counts instances that are added, on demand.
        """
        on_demand = returned = 0.0
        curves = zip(freed, self.covered.levels, self.uncovered.levels, self.covered.lengths, strict=True)
        for nodes, covered, uncovered, hours in curves:
            left = max(0.0, min(nodes - uncovered, covered))
            on_demand += (nodes - left) * hours
            returned += left * hours
        return round_money(to_decimal(on_demand) * self.on_demand + to_decimal(returned) * self.returned)


@frozen_dataclass
class Commitments:
    """The instances that commitments of the bill cover in [start_ms, end_ms), by provider, region and instance type."""

    start_ms: int = 0
    end_ms: int = 0
    covers: Mapping[Key, Cover] = field(default_factory=dict)

    def key(self, node: Node) -> Key | None:
        """The key of the node's instances, if commitments cover some of them."""
        if node.capacity_type not in ("on_demand", "unknown", "reserved"):
            return None
        key = node.provider or "", node.region or "", (node.instance_type or "").lower()
        return key if key in self.covers else None

    def cash(self, gone: Iterable[Held], needed: Iterable[Held] = ()) -> Decimal:
        """The cash saved if some GPUs go and others are needed."""
        signed = *((held, 1) for held in gone), *((held, -1) for held in needed)
        by_key = grouped((self.key(held.node), (held, sign)) for held, sign in signed)
        amounts = [sign * held.cash for held, sign in by_key[None]]
        for key, cover in self.covers.items():
            if key in by_key:
                spans = ((held.from_ms, held.to_ms, sign * held.nodes) for held, sign in by_key[key])
                amounts.append(cover.cash(counted(spans, self.start_ms, self.end_ms).levels))
        return total(amounts)

    def between(self, before: Fleet, after: Fleet) -> Decimal:
        """The cash saved if nodes are up as in `after` instead."""
        return self.cash(map(_whole, before.nodes), map(_whole, after.nodes))

    def at_cash_prices(self, fleet: Fleet) -> Fleet:
        """The fleet at the cash that its nodes cost; on average if commitments cover a part."""

        def cash(node: Node) -> Node:
            key = self.key(node)
            if key is None:
                return at_cash(node)
            mean = self.covers[key].mean_cash
            return node.repriced(lambda price: replace(price, per_node_hour=mean))

        return fleet.with_nodes(cash)

    def marked(self, fleet: Fleet) -> Fleet:
        """The fleet, with prices of a bill marked as committed if the bill stays the same without the node."""

        def mark(node: Node) -> Node:
            key = self.key(node)
            if key is None or not self.covers[key].is_paid_anyway:
                return node
            return node.repriced(
                lambda price: replace(price, is_committed=price.is_committed or price.source == "bill")
            )

        return fleet.with_nodes(mark)


def _whole(node: Node) -> Held:
    return Held(node, node.gpus, node.from_ms, node.to_ms)


NO_COMMITMENTS = Commitments()
