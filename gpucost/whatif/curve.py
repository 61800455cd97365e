"""Nodes in use over time, and how many of them are worth paying for around the clock."""

from __future__ import annotations

import csv
import math
from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from operator import add
from pathlib import Path

from gpucost import inputs
from gpucost.errors import DataError, UsageError
from gpucost.options import OptionGroup
from gpucost.periods import MS_PER_HOUR
from gpucost.records import record
from gpucost.whatif import flags
from gpucost.whatif.flags import DAYS, HOURS_PER_MONTH, hours_needed

# A node whose use comes this close to the break-even pays as much either way.
_TIE = 1e-9
# The rules of advice that binds for years.
LEAST_DAYS, LEAST_USE, MARGIN, WEEK = 28, 0.8, 0.05, 168


@record
class Curve:
    """`levels[i]` nodes in use on the mean over `lengths[i]` hours, in order of time; a level may be a fraction."""

    levels: tuple[float, ...]
    lengths: tuple[float, ...]

    @classmethod
    def hourly(cls, levels: Iterable[float]) -> Curve:
        """One level per hour."""
        kept = tuple(levels)
        return cls(kept, (1.0,) * len(kept))

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
        """Node-hours in use of `nodes` that are always there."""
        return sum(min(level, nodes) * hours for level, hours in zip(self.levels, self.lengths, strict=True))

    def utilization(self, nodes: float) -> float | None:
        """Share of `nodes` × all hours that is in use, 0-1; None for no nodes."""
        return self.used(nodes) / (nodes * self.hours) if nodes and self.hours else None

    def level(self, share: float) -> int:
        """How many nodes are each in use for at least `share` of the hours: the k-th is in use less than the one before it."""
        nodes, least = range(1, int(self.peak) + 2), share * self.hours
        return bisect_right(nodes, -least, key=lambda node: self.used(node - 1) - self.used(node))

    def best_level(self, break_even: float) -> int:
        """The number of always paid nodes that costs least, if each costs `break_even` of a node that is always paid by the hour.

        A node that only breaks even is not counted.
        """
        return self.level(break_even + _TIE)

    def scaled(self, factor: float) -> Curve:
        return Curve(tuple(level * factor for level in self.levels), self.lengths)

    def less(self, other: Curve | None) -> Curve:
        """What is left of each level without `other`, of the same hours; never under zero."""
        if other is None:
            return self
        left = (max(0.0, mine - theirs) for mine, theirs in zip(self.levels, other.levels, strict=True))
        return Curve(tuple(left), self.lengths)

    def __add__(self, other: Curve) -> Curve:
        return Curve(tuple(map(add, self.levels, other.levels)), self.lengths)


@record
class Evidence:
    """How much usage was seen: `days` with data, and the hours of the curve until the last data (None: hours in no order)."""

    days: float
    last_hour: int | None = None

    @property
    def shortage(self) -> str | None:
        """Why no advice is given that binds for years; None with enough days."""
        if self.days >= LEAST_DAYS:
            return None
        length = f"{self.days * 24:,.0f} hours" if self.days < 3 else f"{self.days:,.1f} days"
        return f"{length} of data: nothing that binds for years is advised on less than {LEAST_DAYS} days"

    def safe_level(self, curve: Curve, price_ratio: float) -> int:
        """The nodes that are safe to pay around the clock, if one costs `price_ratio` of a node by the hour.

        Each is in use for 80 % of the hours, and for 5 points more than its price needs; the last seven days alone confirm it.
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
    """The hourly curve of spans (from, to, nodes), in milliseconds, over [from_ms, to_ms); the last hour may be a part of one."""
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


_LONGEST_HOURS = 10 * 8784


def read_curve(path: Path) -> Curve:
    """The curve of a file: a number per line, or CSV with a column `nodes`; fractions are means of their hour.

    Raises DataError naming the line that cannot be read.
    """
    try:
        rows = [row for row in csv.reader(inputs.text(path).splitlines()) if any(row)]
    except OSError as error:
        raise inputs.unreadable(
            path, error, "--curve takes a file with the nodes in use, a line per hour"
        ) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: is no text of lines: {error}", "save it as CSV in UTF-8") from None
    header = [name.strip().lower() for name in rows[0]] if rows else []
    skipped = 1 if "nodes" in header else 0
    column = header.index("nodes") if skipped else 0
    if len(header) > 1 and not skipped:
        raise DataError(
            f"{path}: no column is called nodes; there are {', '.join(header)}", "call one of them nodes"
        )
    levels = []
    for number, row in enumerate(rows[skipped:], 1 + skipped):
        text = row[column].strip() if column < len(row) else ""
        try:
            level = float(text)
        except ValueError:
            level = math.nan
        if not 0 <= level <= 1e6:
            raise DataError(
                f"{path}: row {number}: {text!r} is no number of nodes",
                "each row is an hour; 0 where none was in use",
            )
        levels.append(level)
    if not any(levels):
        raise DataError(
            f"{path}: no node is in use in {len(levels)} hours", "each row is an hour: the nodes in use in it"
        )
    if len(levels) > _LONGEST_HOURS:
        raise DataError(
            f"{path}: {len(levels):,} hours are over 10 years", "give the hours of a month or a year"
        )
    return Curve.hourly(levels)


@record
class DescribedCurve(OptionGroup):
    """Nodes on demand that options describe."""

    curve: flags.CurveFile | None = None
    nodes: flags.Nodes | None = None
    hours: flags.Hours | None = None
    active_hours_per_day: flags.ActiveHours | None = None
    days: flags.Days | None = None
    on_demand_price: flags.OnDemandPrice | None = None
    price_per: flags.Per = flags.PricePer.node


def described_curve(use: DescribedCurve) -> tuple[Curve, Evidence, str]:
    """The curve that options describe, and its name: a file's, otherwise --nodes for --hours of a month or hours of each day.

    Raises UsageError if several ways are mixed.
    """
    if use.curve:
        for name in ("nodes", "hours", "active_hours_per_day", "days"):
            if getattr(use, name) is not None:
                option = f"--{name.replace('_', '-')}"
                raise UsageError(
                    f"{option} and --curve both say how many nodes are in use when", f"leave out {option}"
                )
        curve = read_curve(use.curve)
        name = f"{curve.hours:,.0f} hours of {use.curve.name}"
        return curve, Evidence(curve.hours / 24, len(curve.levels)), name
    nodes = float(use.nodes or 1)
    needed = hours_needed(use.hours, use.active_hours_per_day, use.days) or HOURS_PER_MONTH
    days, whole = use.days or DAYS, max(needed, HOURS_PER_MONTH)
    name = "a month of 730 hours" if whole == HOURS_PER_MONTH else f"{whole:,.0f} hours"
    if use.active_hours_per_day:
        whole, name = 24 * days, f"{days} days"
    return Curve((nodes, 0.0), (needed, whole - needed)), Evidence(whole / 24), name
