"""The answer of every what-if: today, the scenario, the saving, its assumptions, ranges and risks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from gpucost.options import options_in
from gpucost.periods import MS_PER_HOUR
from gpucost.records import frozen_dataclass
from gpucost.whatif.fleet import Costs, Price, Usage

_LINES_SHOWN = 20
Value = str | int | float | Decimal | None
Line = tuple[Value, ...]
Texts = tuple[str, ...]


@frozen_dataclass
class Position:
    """A cost over the period, and the GPU-hours and node-hours that are paid."""

    cost: Decimal
    currency: str
    gpu_hours: float = 0.0
    node_hours: float = 0.0

    def __add__(self, other: Position) -> Position:
        return Position(
            self.cost + other.cost,
            self.currency,
            self.gpu_hours + other.gpu_hours,
            self.node_hours + other.node_hours,
        )


def today_of(usage: Usage, costs: Costs, *, is_held: bool) -> Position:
    """The usage as it is, unallocated GPUs included; usage of the store at the report's cost.

    `is_held`: only held GPUs count, because others pay for the rest of their nodes.
    """
    cost, gpu_hours, node_hours, times = costs.node_cost, costs.gpu_hours, costs.node_hours, usage.times
    if is_held:
        nodes = usage.fleet.by_name
        shares = sum(pod.gpu_ms / nodes[pod.place].gpus for pod in usage.fleet.pods)
        cost, gpu_hours, node_hours = costs.cost, costs.allocated_gpu_hours, round(shares / MS_PER_HOUR, 9)
    if usage.reported is not None:
        cost = usage.reported.held_cost if is_held else usage.reported.cost
    return Position(cost * times, usage.currency, gpu_hours * times, node_hours * times)


@frozen_dataclass
class Assumption:
    """A number behind the answer: its unit, its source (an option, the catalog, a measurement) and date."""

    name: str
    value: Value
    unit: str
    source: str
    as_of: str | None = None


Assumptions = tuple[Assumption, ...]


def priced(name: str, price: Price, unit: str) -> Assumption:
    """A price as an assumption, with its source."""
    return Assumption(name, price.per_node_hour, unit, price.source, price.as_of)


def old_prices(prices: Iterable[tuple[str, Price | Assumption]], used: date, most_days: int) -> str:
    """Names of prices over `most_days` old when they were used, with the oldest date, for a title; empty without any."""
    old = {
        (name, price.as_of)
        for name, price in prices
        if price.as_of and (used - date.fromisoformat(price.as_of[:10])).days > most_days
    }
    oldest = dict(sorted(old, reverse=True))
    named = ", ".join(f"{name} of {oldest[name]}" for name in sorted(oldest))
    return f" (prices over {most_days} days old: {named})" if named else ""


def stated(options: Any, *names: str) -> list[Assumption]:
    """Fields as assumptions, in the words of their Option; without names all fields with such words.

    None is left out. `options.explicit_options` names the fields that are not defaults.
    """
    options_of = options_in(type(options))
    stated_names = names or [name for name, how in options_of.items() if how.label]
    values = ((options_of[name], name, getattr(options, name)) for name in stated_names)
    return [
        Assumption(how.label, value, how.unit, "option" if name in options.explicit_options else how.source)
        for how, name, value in values
        if value is not None
    ]


@frozen_dataclass
class Range:
    """The low and high value of a figure, and their meaning: `5 % to 95 % of 120 start times`."""

    figure: str
    low: Value
    high: Value
    unit: str
    meaning: str


@frozen_dataclass
class Rows:
    """A table of an answer: named columns, plain values."""

    title: str
    columns: Texts
    lines: tuple[Line, ...]
    note: str | None = None

    @classmethod
    def of(cls, title: str, columns: Texts, lines: Sequence[Line], note: str = "") -> Tables:
        """A table of these lines; none without lines."""
        return (cls(title, columns, tuple(lines), note or None),) if lines else ()

    @classmethod
    def top(cls, title: str, columns: Texts, lines: Sequence[Line], more: str, note: str = "") -> Tables:
        """A table of the first 20 lines, with a note on how many `more` there are; none without lines."""
        hidden = len(lines) - _LINES_SHOWN
        return cls.of(
            title,
            columns,
            lines[:_LINES_SHOWN],
            f"{note} {more.format(hidden) if hidden > 0 else ''}".strip(),
        )


Tables = tuple[Rows, ...]


@frozen_dataclass
class Answer:
    """`figures` are further named numbers for JSON, units in their names; `findings` are sentences for people."""

    kind: str
    title: str
    period: str
    today: Position
    scenario: Position
    figures: dict[str, Any]
    assumptions: Assumptions
    ranges: tuple[Range, ...] = ()
    break_even: Texts = ()
    time: Texts = ()
    findings: Texts = ()
    tables: Tables = ()

    @property
    def saving(self) -> Decimal:
        """Money saved over the period; negative if the scenario costs more."""
        return self.today.cost - self.scenario.cost

    @property
    def saving_percent(self) -> float | None:
        """Saving in percent of today's cost; None if today costs nothing."""
        return round(float(self.saving / self.today.cost * 100), 6) if self.today.cost else None
