"""The number of committed nodes that costs least, and what it comes to: hours and levels, no money."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from gpucost.whatif.blocks import Block
from gpucost.whatif.curve import Curve
from gpucost.whatif.reserve.families import Family, Use
from gpucost.whatif.reserve.offers import FLEXIBLE, Offer, Terms


@dataclass(frozen=True, slots=True)
class Pool:
    """What one commitment covers: the curve in instances of `of`, at `on_demand` by the hour or `offer` around the clock.

    Several sizes of a family are one pool for savings plans and CUDs: each counts as what it costs on demand against `of`.
    """

    of: str
    gpus: float
    on_demand: Decimal
    offer: Offer
    curve: Curve

    @property
    def break_even(self) -> float:
        """Share of the hours that a node must be in use for its commitment to cost no more than on demand; above 1: never."""
        return float(self.offer.price / self.on_demand)

    def best_level(self) -> int:
        return self.curve.best_level(self.break_even)

    def scaled(self, factor: float) -> Pool:
        return Pool(self.of, self.gpus, self.on_demand, self.offer, self.curve.scaled(factor))

    def blocks(self, level: int) -> list[Block]:
        """`level` committed nodes in all hours, and what they do not hold by the hour."""
        rest = max(0.0, self.curve.node_hours - self.curve.used(level))
        return [Block(level * self.curve.hours, self.offer.price, self.gpus), Block(rest, self.on_demand, self.gpus)]

    def payback_hours(self, level: int) -> float | None:
        """Hours until on-demand cost avoided makes up for what was paid upfront: 0 where nothing was, None beyond the term.

        Per hour and committed node: used share × on demand is avoided, and (1 − upfront share) × price is still paid.
        """
        share, used = self.offer.terms.upfront_share, self.curve.utilization(level)
        if not share or used is None:
            return 0.0
        term = self.offer.terms.years * 8760
        gained = used * float(self.on_demand) - float((1 - share) * self.offer.price)
        hours = float(share * self.offer.price) * term / gained if gained > 0 else float("inf")
        return hours if hours <= term else None


def terms_of(family: Family) -> list[Terms]:
    """The commitments on offer for the family: a flexible one where its smallest instance has it."""
    found: set[Terms] = set()
    for use in family.uses:
        found |= {offer.terms for offer in use.offers if offer.terms.kind not in FLEXIBLE}
    found |= {offer.terms for offer in _smallest(family).offers if offer.terms.kind in FLEXIBLE}
    return sorted(found, key=lambda terms: (terms.years, terms.kind, terms.payment, terms.offering))


def pools_of(family: Family, terms: Terms) -> tuple[list[Pool], list[Use]]:
    """The pools that a commitment of these terms covers, and the types that it is not sold for."""
    if terms.kind in FLEXIBLE:
        of = _smallest(family)
        offer = of.offer(terms)
        if offer is None:
            return [], list(family.uses)
        weights = [float(use.on_demand.price / of.on_demand.price) for use in family.uses]
        curves = [use.curve.scaled(weight) for use, weight in zip(family.uses, weights, strict=True)]
        whole = _sum(curves)
        return [Pool(of.instance_type, of.gpus, of.on_demand.price, offer, whole)], []
    sold = [(use, offer) for use in family.uses if (offer := use.offer(terms))]
    pools = [Pool(use.instance_type, use.gpus, use.on_demand.price, offer, use.curve) for use, offer in sold]
    return pools, [use for use in family.uses if use.offer(terms) is None]


def on_demand_blocks(uses: Iterable[Use]) -> list[Block]:
    return [Block(use.curve.node_hours, use.on_demand.price, use.gpus) for use in uses]


def lasting_share(pools: Sequence[Pool], levels: Sequence[int]) -> float | None:
    """The share of today's usage at which the commitments held cost what on demand would; None where nothing is held."""
    if not any(levels):
        return None

    def gain(share: float) -> float:
        held = zip(pools, levels, strict=True)
        return sum(
            float(pool.on_demand) * pool.curve.scaled(share).used(level) - float(pool.offer.price) * level * pool.curve.hours
            for pool, level in held
        )

    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if gain(middle) > 0 else (middle, high)
    return high


def _smallest(family: Family) -> Use:
    return min(family.uses, key=lambda use: (use.on_demand.price, use.instance_type))


def _sum(curves: Sequence[Curve]) -> Curve:
    whole = curves[0]
    for curve in curves[1:]:
        whole += curve
    return whole
