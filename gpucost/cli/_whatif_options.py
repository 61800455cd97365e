"""Options that what-if commands share, and the two ways they come to a fleet: from options alone, or from the store."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucost.cli._common import note
from gpucost.errors import GpucostError, UsageError

if TYPE_CHECKING:
    from gpucost.config import Config
    from gpucost.model import Period
    from gpucost.whatif.fleet import CostOf, Fleet

GPUS_PER_NODE = 8
DAYS = 30
# what is longer, more or dearer is a slip of the keyboard
_TEN_YEARS_DAYS = 3660
_MOST_NODES = 1_000_000
_DEAREST = 10_000_000
_MOST_GPUS = 100_000


class PricePer(StrEnum):
    """What a price given as an option is the price of."""

    node = "node"
    gpu = "gpu"


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


def number_option(
    name: str, help: str, *, lowest: int = 0, above: bool = False, highest: int | None = None, show_default: bool = False
) -> Any:
    """An option that takes a time, a rate or a percentage."""
    parser = float_number(lowest, above=above, highest=highest)
    return typer.Option(name, metavar="NUMBER", parser=parser, help=help, show_default=show_default)


TeamOption = Annotated[list[str] | None, typer.Option("--team", metavar="NAME", help="Only this team's usage; repeatable.")]
NamespaceOption = Annotated[
    list[str] | None, typer.Option("--namespace", metavar="NAME", help="Only this namespace's usage; repeatable.")
]
WorkloadOption = Annotated[
    list[str] | None,
    typer.Option("--workload", metavar="KIND/NAME", help="Only this workload's usage; `*` is anything; repeatable."),
]
ClusterOption = Annotated[
    list[str] | None, typer.Option("--cluster", metavar="NAME", help="Only this cluster's usage; repeatable.")
]
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
SeedOption = Annotated[int, typer.Option("--seed", min=0, metavar="NUMBER", help="The same seed simulates the same.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write here instead of stdout.", show_default=False)
]

SaveOption = Annotated[
    str | None,
    typer.Option(
        "--save", metavar="NAME", help="Keep the answer beside the store, for gpucost whatif compare.", show_default=False
    ),
]


def saved_answer(settings: Config, name: str | None) -> Path | None:
    """The file that --save NAME writes: whatif/NAME.json beside the store; its directory is made. Raises GpucostError."""
    if name is None:
        return None
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise UsageError(f"--save cannot call an answer {name!r}", "letters, digits, dots, dashes and underscores make a name")
    folder = saved_answers(settings)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GpucostError(f"cannot make {folder}: {error.strerror or error}", "--store names a store elsewhere") from None
    return folder / f"{name}.json"


def saved_answers(settings: Config) -> Path:
    """The directory that answers are saved in."""
    return settings.store.parent / "whatif"


def node_price(price: Decimal, per: PricePer, gpus: float) -> Decimal:
    """The price of a node with `gpus` GPUs, of a price per node or per GPU."""
    return price * Decimal(str(gpus)) if per is PricePer.gpu else price


def node_shape(nodes: int | None, gpus: int | None) -> tuple[int, int]:
    """(nodes, GPUs per node) that --nodes and --gpus mean."""
    return (nodes or 1, gpus or GPUS_PER_NODE)


def days_counted(days: int | None, active_hours_per_day: float | None) -> int:
    """The days that counts per day run. Raises UsageError where --days is given and nothing counts per day."""
    if days is not None and active_hours_per_day is None:
        raise UsageError(
            "--days counts the days of --active-hours-per-day, which is not given",
            "add --active-hours-per-day 10, or say --hours instead of --days",
        )
    return days or DAYS


def hours_needed(hours: float | None, active_hours_per_day: float | None, days: int | None) -> float | None:
    """How long each node is needed: --hours, or some hours of each day; None where neither is given. Raises UsageError."""
    counted = days_counted(days, active_hours_per_day)
    if active_hours_per_day is None:
        return hours
    if hours is not None:
        raise UsageError("--hours and --active-hours-per-day both say how long nodes are needed", "leave out one of them")
    return active_hours_per_day * counted


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


def cost_of(settings: Config) -> CostOf:
    """What a fleet costs under this configuration, by the attribution stages."""
    from gpucost import pipeline

    return partial(pipeline.cost_of, settings)


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What was given of the options that ask for usage in the store."""

    team: list[str] | None = None
    namespace: list[str] | None = None
    workload: list[str] | None = None
    cluster: list[str] | None = None
    month: str | None = None
    start: str | None = None
    end: str | None = None
    last: str | None = None

    def given(self) -> dict[str, object]:
        """Option names and values, as is_calculator takes them; a repeatable one that was not given is None."""
        return self.scope() | self.period()

    def scope(self) -> dict[str, object]:
        """Those that say whose usage."""
        return {
            "--team": self.team or None,
            "--namespace": self.namespace or None,
            "--workload": self.workload or None,
            "--cluster": self.cluster or None,
        }

    def period(self) -> dict[str, object]:
        """Those that say when."""
        return {"--month": self.month, "--from": self.start, "--to": self.end, "--last": self.last}


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage from the store: the fleet, its period and that period's name, and whose it is.

    `is_narrowed`: only some pods were asked for, so that the rest of their nodes is others' cost (Position.held).
    """

    fleet: Fleet
    period: Period
    period_name: str
    scope_name: str
    is_narrowed: bool


def stored_usage(settings: Config, options: StoreOptions, *, quiet: bool = False) -> Usage:
    """The store's usage of the period named, or of the last complete local month.

    Raises UsageError for a period that cannot be read, GpucostError where nothing was used by whom the options name.
    """
    from gpucost import pipeline
    from gpucost.store import Store
    from gpucost.whatif.usage import Scope

    period, name = period_of(settings, options)
    scope = Scope(
        tuple(options.team or ()), tuple(options.namespace or ()), tuple(options.workload or ()), tuple(options.cluster or ())
    )
    fleet = pipeline.usage(settings, Store(settings.store), period, scope)
    unpriced = [node for node in fleet.nodes if not node.is_priced]
    if unpriced:
        types = sorted({node.instance_type or "no known instance type" for node in unpriced})
        note(
            f"{len(unpriced):,} of {len(fleet.nodes):,} nodes ({', '.join(types)}) have no known price for a part of the period, "
            "which counts as costing nothing: a price book or gpucost collect prices mends that",
            quiet=quiet,
        )
    return Usage(fleet, period, name, str(scope), scope.is_narrowed)


def period_of(settings: Config, options: StoreOptions) -> tuple[Period, str]:
    """The period named, or the last complete local month, and its name for people. Raises UsageError."""
    from datetime import UTC, datetime, timedelta

    from gpucost.cli._periods import parse_period
    from gpucost.timeline import month_period, name_of

    now = datetime.now(UTC)
    named = parse_period(settings.tz, now, month=options.month, start=options.start, end=options.end, last=options.last)
    if named is not None:
        return named
    this_month = month_period(now.astimezone(settings.tz).date(), settings.tz)
    before = month_period((this_month.start.astimezone(settings.tz) - timedelta(days=1)).date(), settings.tz)
    return before, name_of(before, settings.tz)
