"""What every what-if answers: today, the scenario, what is saved, on which assumptions, how sure, and what would break it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from datetime import date
from decimal import Decimal
from typing import Any

from gpucost.options import options_in
from gpucost.periods import MS_PER_HOUR
from gpucost.records import record
from gpucost.whatif.fleet import Costs, Price, Usage

_LINES_SHOWN = 20
Value = str | int | float | Decimal | None
Line = tuple[Value, ...]
Texts = tuple[str, ...]


@record
class Position:
    """A state of affairs: what it costs over the period, the GPU-hours and node-hours paid, and `more` beside them."""

    cost: Decimal
    currency: str
    gpu_hours: float = 0.0
    node_hours: float = 0.0
    more: dict[str, Value] = field(default_factory=dict)

    def __add__(self, other: Position) -> Position:
        return Position(
            self.cost + other.cost,
            self.currency,
            self.gpu_hours + other.gpu_hours,
            self.node_hours + other.node_hours,
        )


def today_of(usage: Usage, costs: Costs, *, is_held: bool) -> Position:
    """The usage as it is, at the report's cost if it is the store's: the cost of its nodes, as unallocated GPUs are paid, too.

    `is_held`: only held GPUs count, as the rest of their nodes is others' cost.
    """
    cost, gpu_hours, node_hours, times = costs.node_cost, costs.gpu_hours, costs.node_hours, usage.times
    if is_held:
        nodes = usage.fleet.by_name
        shares = sum(pod.gpu_ms / nodes[pod.place].gpus for pod in usage.fleet.pods)
        cost, gpu_hours, node_hours = costs.cost, costs.allocated_gpu_hours, round(shares / MS_PER_HOUR, 9)
    if usage.reported is not None:
        cost = usage.reported.held_cost if is_held else usage.reported.cost
    return Position(cost * times, usage.currency, gpu_hours * times, node_hours * times)


@record
class Assumption:
    """A number that the answer rests on: its unit, and where it comes from (an option, the catalog, a measurement) and when."""

    name: str
    value: Value
    unit: str
    source: str
    as_of: str | None = None


def priced(name: str, price: Price, unit: str) -> Assumption:
    """A price, and where it comes from."""
    return Assumption(name, price.per_node_hour, unit, price.source, price.as_of)


def old_prices(prices: Iterable[tuple[str, Price | Assumption]], used: date, most_days: int) -> str:
    """Which prices, by what they are of, were over `most_days` old when they were used, for a title; empty where none was."""
    oldest: dict[str, str] = {}
    for name, price in prices:
        if price.as_of and (used - date.fromisoformat(price.as_of[:10])).days > most_days:
            oldest[name] = min(oldest.get(name, price.as_of), price.as_of)
    named = ", ".join(f"{name} of {day}" for name, day in sorted(oldest.items()))
    return f" (prices over {most_days} days old: {named})" if named else ""


def stated(options: Any, *names: str) -> list[Assumption]:
    """Fields as assumptions, as their Option says; without names all that have such words.

    `options.given` are no defaults. None is left out.
    """
    known = options_in(type(options))
    stated_names = names or [name for name, how in known.items() if how.says]
    values = ((known[name], name, getattr(options, name)) for name in stated_names)
    return [
        Assumption(how.says, value, how.unit, "option" if name in options.given else how.source)
        for how, name, value in values
        if value is not None
    ]


@record
class Range:
    """Between which values a figure lies, and what that means: `5 % to 95 % of 120 start times`."""

    figure: str
    low: Value
    high: Value
    unit: str
    meaning: str


@record
class Rows:
    """A table of an answer: named columns, plain values."""

    title: str
    columns: Texts
    lines: tuple[Line, ...]
    note: str | None = None

    @classmethod
    def of(cls, title: str, columns: Texts, lines: Sequence[Line], note: str = "") -> tuple[Rows, ...]:
        """A table of these lines; none of no lines."""
        return (cls(title, columns, tuple(lines), note or None),) if lines else ()

    @classmethod
    def top(
        cls, title: str, columns: Texts, lines: Sequence[Line], more: str, note: str = ""
    ) -> tuple[Rows, ...]:
        """The first 20 lines, and a note, also on how many `more` there are; no table of no lines."""
        hidden = len(lines) - _LINES_SHOWN
        return cls.of(
            title,
            columns,
            lines[:_LINES_SHOWN],
            f"{note} {more.format(hidden) if hidden > 0 else ''}".strip(),
        )


@record
class Answer:
    """`figures` are further named numbers of JSON answers, units in their names; `findings` are sentences for people."""

    kind: str
    title: str
    period: str
    today: Position
    scenario: Position
    figures: dict[str, Any]
    assumptions: tuple[Assumption, ...]
    ranges: tuple[Range, ...] = ()
    break_even: Texts = ()
    time: Texts = ()
    findings: Texts = ()
    tables: tuple[Rows, ...] = ()

    @property
    def saving(self) -> Decimal:
        """Money saved over the period; negative where the scenario costs more."""
        return self.today.cost - self.scenario.cost

    @property
    def saving_percent(self) -> float | None:
        """Saving of today's cost, 0-100; None where today costs nothing."""
        return round(float(self.saving / self.today.cost * 100), 6) if self.today.cost else None
