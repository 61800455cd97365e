"""A family committed on some terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from gpucost.whatif.blocks import Block
from gpucost.whatif.fleet import HOURS_PER_MONTH, HOURS_PER_YEAR
from gpucost.whatif.reserve.families import Family, Use
from gpucost.whatif.reserve.levels import Pool, pools_of
from gpucost.whatif.reserve.offers import Terms


@dataclass(frozen=True, slots=True)
class Choice:
    """A family committed on some terms, at the level that costs least; `left_out` are types that these terms are not sold for."""

    family: Family
    terms: Terms
    pools: tuple[Pool, ...]
    levels: tuple[int, ...]
    left_out: tuple[Use, ...]

    @classmethod
    def best(cls, family: Family, terms: Terms) -> Choice:
        pools, left_out = pools_of(family, terms)
        return cls(family, terms, tuple(pools), tuple(pool.best_level() for pool in pools), tuple(left_out))

    @property
    def name(self) -> str:
        return f"{self.family}: {self.terms}"

    @property
    def committed_hours(self) -> float:
        return sum(level * pool.curve.hours for pool, level in zip(self.pools, self.levels, strict=True))

    @property
    def used_hours(self) -> float:
        return sum(pool.curve.used(level) for pool, level in zip(self.pools, self.levels, strict=True))

    @property
    def all_hours(self) -> float:
        """Node-hours in use, in the pools' instances; those of types left out as they are."""
        return sum(pool.curve.node_hours for pool in self.pools) + sum(use.curve.node_hours for use in self.left_out)

    @property
    def break_even(self) -> float:
        """The highest of the pools' break-evens, 0-1 and above."""
        return max(pool.break_even for pool in self.pools)

    def upfront(self) -> Decimal:
        """What is paid on the first day, for the whole term."""
        paid = (level * pool.offer.price for pool, level in zip(self.pools, self.levels, strict=True))
        return sum(paid, Decimal(0)) * self.terms.upfront_share * self.terms.years * HOURS_PER_YEAR

    def payback_months(self) -> float | None:
        """Of the slowest pool."""
        hours = [pool.payback_hours(level) for pool, level in zip(self.pools, self.levels, strict=True) if level]
        known = [time for time in hours if time is not None]
        return None if len(known) < len(hours) else round(max(known, default=0.0) / HOURS_PER_MONTH, 6)

    def blocks(self, usage: float = 1.0, *, levels: Sequence[int] | None = None) -> list[Block]:
        """What is paid where usage is `usage` of today's: at these levels, at others, or (all 0) on demand alone."""
        held = zip(self.pools, self.levels if levels is None else levels, strict=True)
        blocks = [block for pool, level in held for block in pool.scaled(usage).blocks(level)]
        left = [Block(use.curve.node_hours * usage, use.on_demand.price, use.gpus) for use in self.left_out]
        return blocks + left
