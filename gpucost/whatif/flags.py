"""Options and amounts that several what-ifs share."""

from collections.abc import Iterable
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from gpucost.options import Option

HOURS_PER_MONTH = 730
HOURS_PER_YEAR = 8760
GPUS_PER_NODE = 8
DAYS = 30
# The start of work on a new node, in every what-if: the node takes PROVISION_MINUTES, images and weights the rest.
START_MINUTES, PROVISION_MINUTES = 12.0, 5.0
START_SOURCE = "default: 0.2 h in the simulations of Can't Be Late, NSDI 2024"
# The store keeps prices and amounts with nine decimals.
_DECIMALS = Decimal("1e-9")


def amount(help: str) -> Option:
    """A number of things, with or without a unit: 400M, 1.5B or 4e8."""
    return Option(f"{help} 400M, 1.5B or 4e8.", "COUNT", most=10**16, is_scaled=True)


class PricePer(StrEnum):
    """The unit of a price that an option gives."""

    node = "node"
    gpu = "gpu"


def to_decimal(number: float) -> Decimal:
    """The number as it is written."""
    return Decimal(str(number))


def total(amounts: Iterable[Decimal]) -> Decimal:
    """Their sum; zero without any."""
    return sum(amounts, Decimal(0))


def round_money(price: Decimal | float) -> Decimal:
    """A price or an amount as in the store: with nine decimals."""
    return Decimal(str(price)).quantize(_DECIMALS)


def node_price(price: Decimal, per: PricePer, gpus: float) -> Decimal:
    """The price of a node with `gpus` GPUs, from a price per node or per GPU."""
    return price * to_decimal(gpus) if per is PricePer.gpu else price


# A higher value is a typing error.
_TEN_YEARS = 3660
DEAREST = 10_000_000
OnDemandPrice = Annotated[
    Decimal, Option("On-demand price per hour, of a node by default.", above=True, most=DEAREST)
]
SpotPrice = Annotated[Decimal, Option("Spot price per hour, in --price-per.", above=True, most=DEAREST)]
Per = Annotated[PricePer, Option("Unit of the given prices: a node or a GPU.", is_shown=True)]
Nodes = Annotated[
    int, Option("Nodes, each with --gpus. Default: 1.", least=1, most=1_000_000, label="nodes", unit="nodes")
]
_GPUS = "GPUs per node; without --nodes, the GPUs of one node. Default: 8."
Gpus = Annotated[int, Option(_GPUS, least=1, most=100_000, label="GPUs of a node", unit="GPUs")]
_HOURS = "Hours each node is needed. Default: 730, a month."
HOURS = Option(_HOURS, above=True, most=24 * _TEN_YEARS, label="hours", unit="hours")
Hours = Annotated[float, HOURS]
ActiveHours = Annotated[
    float,
    Option(
        "Hours per day that the nodes are needed.", above=True, most=24, label="needed", unit="hours a day"
    ),
]
Margin = Annotated[
    float,
    Option(
        "Percent to add to measured memory and activity. Default: 10.",
        label="margin on measured values",
        unit="percent",
    ),
]
Headroom = Annotated[
    float,
    Option(
        "Percent of a GPU or slice to keep free. Default: 20.",
        most=90,
        label="kept free",
        unit="percent of a GPU or slice",
    ),
]
Days = Annotated[
    int, Option("Number of days. Default: 30.", least=1, most=_TEN_YEARS, label="days", unit="days")
]
