"""Data that every pod start downloads, against a cache near the work that fetches it once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated

from gpucost.options import Option, OptionGroup
from gpucost.periods import Period
from gpucost.records import record
from gpucost.whatif import flags
from gpucost.whatif.answer import Answer, Assumption, Position, Rows, stated
from gpucost.whatif.cost import charge
from gpucost.whatif.flags import HOURS_PER_MONTH, to_decimal, total
from gpucost.whatif.fleet import Fleet

Starts = tuple[str, float]  # the workload, and its pod starts in the period


@record
class DescribedStarts(OptionGroup):
    """Starts that options describe, all of the same data."""

    starts_per_day: Annotated[float | None, Option("Pod starts a day, of all nodes.", above=True)] = None
    days: flags.Days = flags.DAYS


@record
class Transfer(OptionGroup):
    """Data of each start, and the prices of moving and keeping it. A month has 730 hours."""

    gb_per_start: Annotated[
        Decimal | None,
        Option("GB that each pod start downloads.", "GB", above=True, says="data", unit="GB per start"),
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


def starts_of(fleet: Fleet, period: Period) -> Sequence[Starts]:
    """Pod starts in the period by workload, most starts first: pods of a workload download the same data.

    A pod that was there when the period, or the collected part of it, began did not start in it.
    """
    begins: dict[str, int] = {}
    for node in fleet.nodes:
        begins[node.cluster] = min(node.from_ms, begins.get(node.cluster, node.from_ms))
    earlier = {pod.key for pod in fleet.pods if pod.from_ms <= max(period.start_ms, begins[pod.cluster])}
    # a node that was not collected for a while has a pod in several parts: it started once
    names = {pod.key: f"{pod.namespace}/{pod.workload}" for pod in fleet.pods if pod.key not in earlier}
    return Counter(sorted(names.values())).most_common()


def answer(
    starts: Sequence[Starts], transfer: Transfer, use: Assumption, *, hours: float, currency: str, period: str
) -> Answer:
    """The cost of downloading at every start over `hours`, and that of a shared cache for data that costs less so.

    A cache fetches each version once, keeps it, and is read at each start. `use` states where the starts come from.
    """
    gb, months = transfer.gb_per_start or Decimal(0), hours / HOURS_PER_MONTH
    download, read = gb * transfer.price_per_gb, gb * transfer.cache_read_price_per_gb
    fetched = charge(download, transfer.changes).cost
    kept = charge(gb * transfer.cache_price_per_gb_month, months).cost
    today, lines = Decimal(0), []
    for name, count in starts:
        downloads, cached = charge(download, count).cost, fetched + kept + charge(read, count).cost
        today += downloads
        if cached < downloads:
            lines.append((name, count, downloads, cached, downloads - cached))
    gained = transfer.price_per_gb - transfer.cache_read_price_per_gb
    spent = transfer.price_per_gb * transfer.changes + transfer.cache_price_per_gb_month * to_decimal(months)
    even = round(float(spent / gained), 6) if gained > 0 else None
    return Answer(
        kind="move",
        title="A shared cache instead of a download at every pod start",
        period=period,
        today=Position(today, currency),
        scenario=Position(today - total(line[-1] for line in lines), currency),
        figures={
            "starts": sum(count for _, count in starts),
            "cached_gb": gb * len(lines),
            "break_even_starts": even,
        },
        assumptions=(use, *stated(transfer)),
        break_even=(
            "The cache never pays: reading from it costs as much as downloading."
            if even is None
            else f"The cache pays for itself if the same data is read more than {even:,.1f} times in the period.",
        ),
        findings=(f"A cache costs less for {len(lines):,} of {len(starts):,} sets of data.",),
        tables=Rows.top("data worth a cache", _COLUMNS, lines, "And {} with no more starts."),
    )


_COLUMNS = ("workload", "starts", "today", "with a cache", "saving")
