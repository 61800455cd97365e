"""The fleet at several sizes, bought each way, as `gpucost forecast` shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from decimal import Decimal

from gpucost.pipeline import read_attributed
from gpucost.questions.budget.projection import Days
from gpucost.questions.budget.scenarios import (
    MIX_DAYS,
    WAYS,
    ScenarioRow,
    assumptions,
    grown,
    last_days,
    read_uses,
    scenarios,
)
from gpucost.questions.request import MonthRequest
from gpucost.records import record
from gpucost.render.formatting import figure_text
from gpucost.render.view import Section, Shown, Table, Texts, figure, money, text
from gpucost.whatif.answer import Assumption, old_prices

_TITLE = "What a month costs, by size and way to buy"
_NOTE = (
    "A month of 730 hours. Spot: interruptions are not counted (gpucost whatif spot). Commitments: the whole fleet, as large as "
    "at its busiest moment, in every hour (gpucost whatif reserve finds how many pay)."
)


@record
class Ahead:
    """The scenarios of the fleet, what they rest on, and how both are shown."""

    rows: list[ScenarioRow] = field(default_factory=list)
    assumptions: list[Assumption] = field(default_factory=list)
    sections: tuple[Section, ...] = ()


def ahead_of(request: MonthRequest, days: Days, growth: float | None, months: int, until: str) -> Ahead:
    """The scenarios of the fleet, one of them grown for so many months `until` one. Raises PriceError."""
    settings, mix = request.settings, last_days(days.complete)
    if not mix:
        few = f"missing: the mix of instance types; {len(days.complete)} days were collected in full, 7 are needed"
        return Ahead(sections=(Texts(_TITLE, (few,)),))
    uses = read_attributed(settings, request.store, lambda con: read_uses(con, settings, mix, request.now))
    rows = scenarios(uses, None if growth is None else grown(growth, months, until))
    known = assumptions(uses, mix, growth)
    prices = ((use.name, price) for use in uses for price in use.prices.values())
    old = old_prices(prices, request.now.astimezone(request.tz).date(), settings.prices.stale_after_days)
    notes = [
        f"missing: the price of {', '.join(row.missing)}, {_way(row.way).lower()}; the other types come to "
        f"{figure_text(row.priced_cost, 'money', settings.currency, 2)} a month"
        for row in rows
        if row.missing and row.factor == 1
    ]
    if len(mix) < MIX_DAYS:
        notes.append(f"{len(mix)} days are known: fewer than {MIX_DAYS} are too few to commit on")
    sections: tuple[Section, ...] = (
        _table(f"{_TITLE}{old}", rows, "monthly_cost", _NOTE),
        _table("What is owed over the term", rows, "obligation", None),
        *([Texts("Notes", tuple(notes))] if notes else []),
        Table.of(
            "Assumptions",
            known,
            (
                text("name", "What"),
                figure(
                    lambda one: (
                        figure_text(one.value, "money", settings.currency, 4)
                        if isinstance(one.value, Decimal)
                        else f"{one.value}"
                    ),
                    "Value",
                ),
                text("unit"),
                text(lambda one: f"{one.source}{f', {one.as_of}' if one.as_of else ''}", "From"),
            ),
        ),
    )
    return Ahead(rows, known, sections)


def _way(way: str) -> str:
    return way.replace("_", " ").capitalize()


def _table(title: str, rows: Sequence[ScenarioRow], what: str, note: str | None) -> Table:
    """A line for each size, a column for each way, with `what` of each."""
    ways = [row.way for row in rows if row.factor == 1 and (what != "obligation" or WAYS[row.way])]
    cells = {(row.scenario, row.way): getattr(row, what) for row in rows}
    names = dict.fromkeys(row.scenario for row in rows)

    def shown(way: str) -> Shown:
        return money(lambda name: cells[name, way] or "missing", _way(way))

    columns = [text(str, "Size"), *map(shown, ways)]
    return Table.of(title, names, columns, note=note)
