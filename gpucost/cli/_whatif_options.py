"""Options of what-if commands that describe a fleet, and how they are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any

import typer

from gpucost.errors import UsageError
from gpucost.whatif.described import PricePer

# what is longer, more or dearer is a slip of the keyboard
_TEN_YEARS_DAYS = 3660
_MOST_NODES = 1_000_000
_DEAREST = 10_000_000
_MOST_GPUS = 100_000


def decimal_number(lowest: int = 0, *, above: bool = False, highest: int | None = None) -> Callable[[Any], Decimal]:
    """A parser of money: digits kept exactly. `above`: the lowest itself is refused, too."""

    def number(text: Any) -> Decimal:
        try:
            value = Decimal(str(text))
        except InvalidOperation:
            value = Decimal("NaN")
        if not value.is_finite() or value < lowest or (above and value == lowest) or (highest is not None and value > highest):
            end = f" and at most {highest:,}" if highest is not None else ""
            raise typer.BadParameter(f"{text!r} is no number {'above' if above else 'from'} {lowest}{end}")
        return value

    return number


def float_number(lowest: int = 0, *, above: bool = False, highest: int | None = None) -> Callable[[Any], float]:
    """A parser of times and rates: finite, from `lowest` (or `above` it) to `highest`."""
    exact = decimal_number(lowest, above=above, highest=highest)

    def number(text: Any) -> float:
        value = float(exact(text))
        if math.isinf(value):
            raise typer.BadParameter(f"{text!r} is too large")
        return value

    return number


def price_option(name: str, help: str) -> Any:
    """An option that takes a price: money above zero, exactly."""
    return typer.Option(name, metavar="MONEY", parser=decimal_number(above=True, highest=_DEAREST), help=help, show_default=False)


def amount_option(name: str, help: str, *, metavar: str = "MONEY", above: bool = False) -> Any:
    """An option that takes money, or another exact amount, from zero (or `above` it)."""
    return typer.Option(name, metavar=metavar, parser=decimal_number(above=above), help=help, show_default=False)


def number_option(
    name: str, help: str, *, lowest: int = 0, above: bool = False, highest: int | None = None, show_default: bool = False
) -> Any:
    """An option that takes a time, a rate or a percentage."""
    parser = float_number(lowest, above=above, highest=highest)
    return typer.Option(name, metavar="NUMBER", parser=parser, help=help, show_default=show_default)


OnDemandPriceOption = Annotated[Decimal | None, price_option("--on-demand-price", "On-demand price per hour, in --price-per.")]
SpotPriceOption = Annotated[Decimal | None, price_option("--spot-price", "Spot price per hour, in --price-per.")]
PricePerOption = Annotated[PricePer, typer.Option("--price-per", help="What the prices given here are per: a node or a GPU.")]
NodesOption = Annotated[
    int | None,
    typer.Option(
        "--nodes", min=1, max=_MOST_NODES, metavar="COUNT", help="Nodes, each with --gpus. Default: 1.", show_default=False
    ),
]
GpusOption = Annotated[
    int | None,
    typer.Option(
        "--gpus",
        min=1,
        max=_MOST_GPUS,
        metavar="COUNT",
        help="GPUs of a node; without --nodes all of them, as one node. Default: 8.",
        show_default=False,
    ),
]
HoursOption = Annotated[
    float | None,
    number_option("--hours", "Hours that each node is needed. Default: 730, a month.", above=True, highest=24 * _TEN_YEARS_DAYS),
]
ActiveHoursPerDayOption = Annotated[
    float | None, number_option("--active-hours-per-day", "Hours of a day that are needed.", above=True, highest=24)
]
DaysOption = Annotated[
    int | None,
    typer.Option(
        "--days",
        min=1,
        max=_TEN_YEARS_DAYS,
        metavar="COUNT",
        help="Days that counts per day run. Default: 30.",
        show_default=False,
    ),
]
CurveOption = Annotated[
    Path | None,
    typer.Option(
        "--curve",
        metavar="FILE",
        help="Nodes in use, one line per hour: a number, or CSV with a column `nodes`.",
        show_default=False,
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, metavar="NUMBER", help="The same seed simulates the same.")]


def is_calculator(describing: Mapping[str, object], of_store: Mapping[str, object]) -> bool:
    """Whether options describe the fleet, so that no store is needed. Keys are option names; a value of None was not given.

    Raises UsageError where options that ask for the store's usage stand beside them.
    """
    described = [name for name, value in describing.items() if value is not None]
    asked = [name for name, value in of_store.items() if value is not None]
    if described and asked:
        raise UsageError(
            f"{asked[0]} asks for usage in the store, {described[0]} describes a fleet by options",
            f"leave out {' and '.join(asked if len(asked) <= len(described) else described)}",
        )
    return bool(described)
