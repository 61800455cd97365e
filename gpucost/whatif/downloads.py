"""Data that every pod start downloads, against a cache near the work that fetches it once."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from gpucost.errors import UsageError
from gpucost.options import Option, OptionGroup
from gpucost.records import record
from gpucost.whatif.answer import Answer, Position, stated
from gpucost.whatif.cost import charge
from gpucost.whatif.flags import DAYS, HOURS_PER_MONTH, to_decimal


@record
class Transfer(OptionGroup):
    """Starts, the data of each, and the prices of moving and keeping it. A month has 730 hours."""

    gb_per_start: Annotated[
        Decimal | None,
        Option("GB that each pod start downloads.", "GB", above=True, says="data", unit="GB per start"),
    ] = None
    starts_per_day: Annotated[
        float | None,
        Option("Starts a day of pods that share the data.", above=True, says="starts", unit="per day"),
    ] = None
    # public list prices from general knowledge, of no certain day
    price_per_gb: Annotated[
        Decimal,
        Option(
            "Price of downloading a GB. Default: 0.09.",
            says="download",
            unit="money per GB",
            source="default, from general knowledge: AWS, out to the internet, the first 10 TB a month",
        ),
    ] = Decimal("0.09")
    changes: Annotated[
        int,
        Option(
            "Versions of the data in the period: the cache downloads each.",
            least=1,
            is_shown=True,
            says="versions of the data",
            unit="in the period; the cache downloads each once",
        ),
    ] = 1
    cache_price_per_gb_month: Annotated[
        Decimal,
        Option(
            "Price of keeping a GB in the cache for a month. Default: 0.30.",
            says="cache",
            unit="money per GB-month",
            source="default, from general knowledge: AWS EFS Standard, us-east-1",
        ),
    ] = Decimal("0.30")
    cache_read_price_per_gb: Annotated[
        Decimal,
        Option(
            "Price of reading a GB from the cache. Default: 0.",
            says="cache reads",
            unit="money per GB",
            source="default: one zone",
        ),
    ] = Decimal(0)


def answer(transfer: Transfer, currency: str) -> Answer:
    """The cost of downloading at every start, and that of a shared cache if it costs less.

    A cache fetches each version once, keeps it, and is read at each start. Raises UsageError without a number of starts.
    """
    if not transfer.starts_per_day:
        raise UsageError("the number of starts is missing", "--starts-per-day")
    gb, starts = transfer.gb_per_start or Decimal(0), transfer.starts_per_day * DAYS
    months = 24 * DAYS / HOURS_PER_MONTH
    today = charge(gb * transfer.price_per_gb, starts).cost
    fetched = charge(gb * transfer.price_per_gb, transfer.changes).cost
    kept = charge(gb * transfer.cache_price_per_gb_month, months).cost
    read = charge(gb * transfer.cache_read_price_per_gb, starts).cost
    gained = transfer.price_per_gb - transfer.cache_read_price_per_gb
    spent = transfer.price_per_gb * transfer.changes + transfer.cache_price_per_gb_month * to_decimal(months)
    even = round(float(spent / gained), 6) if gained > 0 else None
    text = "The cache never pays: reading from it costs as much as downloading."
    if even is not None:
        text = (
            f"The cache pays for itself if the same data is read more than {even:,.1f} times in the period."
        )
    return Answer(
        kind="move",
        title="A shared cache instead of a download at every pod start",
        period=f"{DAYS} days",
        today=Position(today, currency),
        scenario=Position(min(today, fetched + kept + read), currency),
        figures={"starts": starts, "break_even_starts": even},
        assumptions=tuple(stated(transfer)),
        break_even=(text,),
    )
