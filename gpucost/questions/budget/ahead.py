"""The fleet at several sizes, bought each way, as `gpucost forecast` shows it."""

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
from gpucost.records import frozen_dataclass
from gpucost.render.formatting import figure_text
from gpucost.render.view import Section, Table, Texts, figure, money, text
from gpucost.whatif.answer import Assumption, old_prices

_TITLE = "Cost of a month, by size and way to buy"
_NOTE = (
    "A month of 730 hours. Spot: interruptions are not counted (gpucost whatif spot). Commitments: the whole fleet, as large as "
    "at its busiest moment, in every hour (gpucost whatif reserve finds how many pay)."
)


@frozen_dataclass
class Ahead:
    """The scenarios of the fleet, their assumptions, and the sections that show both."""

    rows: list[ScenarioRow] = field(default_factory=list)
    assumptions: list[Assumption] = field(default_factory=list)
    sections: tuple[Section, ...] = ()


def ahead_of(request: MonthRequest, days: Days, growth: float | None, months: int, until: str) -> Ahead:
    """The scenarios of the fleet, one of them with growth until the month `until`. Raises PriceError."""
    settings, mix = request.settings, last_days(days.complete)
    if not mix:
        few = f"missing: the mix of instance types; {len(days.complete)} days were collected in full, 7 are needed"
        return Ahead(sections=(Texts(_TITLE, (few,)),))
    uses = read_attributed(settings, request.store, lambda con: read_uses(con, settings, mix, request.now))
    rows = scenarios(uses, None if growth is None else grown(growth, months, until))
    stated = assumptions(uses, mix, growth)
    prices = ((use.name, price) for use in uses for price in use.prices.values())
    old = old_prices(prices, request.now.astimezone(request.tz).date(), settings.prices.stale_after_days)
    few = f" {len(mix)} days are known: a commitment needs at least {MIX_DAYS}."
    costs = Table.of(
        f"{_TITLE}{old}",
        rows,
        (
            text("scenario", "Size"),
            text(lambda row: row.way.replace("_", " "), "Bought"),
            money(lambda row: row.monthly_cost or "missing", "A month"),
            money(lambda row: row.obligation or (WAYS[row.way] and "missing") or None, "Owed over the term"),
        ),
        note=_NOTE + (few if len(mix) < MIX_DAYS else ""),
    )

    def display(row: Assumption) -> str:
        is_money = isinstance(row.value, Decimal)
        return figure_text(row.value, "money", settings.currency, 4) if is_money else f"{row.value}"

    sources = Table.of(
        "Assumptions",
        stated,
        (
            text("name", "What"),
            figure(display, "Value"),
            text("unit"),
            text(lambda row: ", ".join(filter(None, (row.source, row.as_of))), "From"),
        ),
    )
    return Ahead(rows, stated, (costs, sources))
