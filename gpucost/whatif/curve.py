"""Nodes in use over time, and how many of them are worth paying for around the clock."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from operator import add
from typing import Annotated

from gpucost.options import Option, OptionGroup
from gpucost.periods import MS_PER_HOUR
from gpucost.records import frozen_dataclass
from gpucost.whatif import flags
from gpucost.whatif.flags import HOURS_PER_MONTH

# A node whose use is this close to the break-even costs as much either way.
_TIE = 1e-9
# The rules of advice that binds for years.
LEAST_DAYS, LEAST_USE, MARGIN, WEEK = 28, 0.8, 0.05, 168


@frozen_dataclass
class Curve:
    """On average `levels[i]` nodes in use over `lengths[i]` hours, in order of time; a level may be a fraction."""

    levels: tuple[float, ...] = ()
    lengths: tuple[float, ...] = ()

    @property
    def hours(self) -> float:
        return sum(self.lengths)

    @property
    def node_hours(self) -> float:
        return self.used(math.inf)

    @property
    def peak(self) -> float:
        return max(self.levels, default=0.0)

    @property
    def mean(self) -> float:
        """Nodes in use over all hours."""
        return self.node_hours / self.hours if self.hours else 0.0

    def used(self, nodes: float) -> float:
        """The node-hours in use of `nodes` nodes that are paid in all hours."""
        return sum(min(level, nodes) * hours for level, hours in zip(self.levels, self.lengths, strict=True))

    def level(self, share: float) -> int:
        """The number of nodes that are each in use for at least `share` of the hours; none more than the previous one."""
        nodes, least = range(1, int(self.peak) + 2), share * self.hours
        return bisect_right(nodes, -least, key=lambda node: self.used(node - 1) - self.used(node))

    def scaled(self, factor: float) -> Curve:
        return Curve(tuple(level * factor for level in self.levels), self.lengths)

    def less(self, other: Curve) -> Curve:
        """The rest of each level without `other`, a curve of the same hours; never under zero."""
        left = (max(0.0, mine - theirs) for mine, theirs in zip(self.levels, other.levels, strict=True))
        return Curve(tuple(left), self.lengths)

    def __add__(self, other: Curve) -> Curve:
        return Curve(tuple(map(add, self.levels, other.levels)), self.lengths)


@frozen_dataclass
class Evidence:
    """Days with data, and the hours of the curve until the last data (None: the hours have no order)."""

    days: float
    last_hour: int | None = None

    @property
    def shortage(self) -> str | None:
        """The reason for no advice that binds for years; None with enough days."""
        if self.days >= LEAST_DAYS:
            return None
        return f"{self.days:,.1f} days of data: advice that binds for years needs at least {LEAST_DAYS} days"

    def safe_level(self, curve: Curve, price_ratio: float) -> int:
        """The number of nodes that are safe to pay around the clock, if one costs `price_ratio` of a node by the hour.

        Each is in use for 80 % of the hours, and for 5 points more than its price ratio; the last seven days confirm it.
        """
        if self.days < LEAST_DAYS:
            return 0
        share = max(LEAST_USE, price_ratio + MARGIN) - _TIE
        if self.last_hour is None:
            return curve.level(share)
        week = slice(max(0, self.last_hour - WEEK), self.last_hour)
        recent = Curve(curve.levels[week], curve.lengths[week])
        return min(curve.level(share), recent.level(share))


def counted(spans: Iterable[tuple[int, int, float]], from_ms: int, to_ms: int) -> Curve:
    """The hourly curve of spans (from, to, nodes), in milliseconds, over [from_ms, to_ms); the last hour may be shorter."""
    edges = [*range(from_ms, to_ms, MS_PER_HOUR), to_ms]
    busy = [0.0] * (len(edges) - 1)
    for start, end, nodes in spans:
        first, last = max(start, from_ms), min(end, to_ms)
        if first < last:
            for hour in range((first - from_ms) // MS_PER_HOUR, (last - 1 - from_ms) // MS_PER_HOUR + 1):
                busy[hour] += (min(last, edges[hour + 1]) - max(first, edges[hour])) * nodes
    lengths = [(end - start) / MS_PER_HOUR for start, end in pairwise(edges)]
    levels = (time / MS_PER_HOUR / length for time, length in zip(busy, lengths, strict=True))
    return Curve(tuple(levels), tuple(lengths))


# Options describe one month; every month has the same usage.
A_MONTH, MONTH = "a month of 730 hours", Evidence(HOURS_PER_MONTH / 24)


@frozen_dataclass
class PricedNodes(OptionGroup):
    """The on-demand price of nodes: an option, or that of an instance type in a region."""

    on_demand_price: flags.OnDemandPrice | None = None
    instance_type: Annotated[str | None, Option("Instance type, for its prices.", "TYPE")] = None
    region: Annotated[str | None, Option("Region of the instance type.", "NAME")] = None


@frozen_dataclass
class DescribedNodes(PricedNodes):
    """On-demand nodes that options describe."""

    nodes: flags.Nodes | None = None
    hours: Annotated[
        float | None,
        Option("Hours of a month that each node is needed. Default: 730.", above=True, most=HOURS_PER_MONTH),
    ] = None

    @property
    def curve(self) -> Curve:
        """The nodes in use over a month."""
        hours = self.hours or HOURS_PER_MONTH
        return Curve((float(self.nodes or 1), 0.0), (hours, HOURS_PER_MONTH - hours))
