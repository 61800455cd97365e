"""`gpucost whatif egress`: downloads per pod start against a shared cache."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any

import typer

from gpucost.cli.whatif import (
    DaysOption,
    NodesOption,
    Run,
    amount_option,
    is_calculator,
    number_option,
    options_of,
    whatif_command,
)
from gpucost.errors import GpucostError, UsageError
from gpucost.periods import MS_PER_HOUR
from gpucost.whatif.fleet import DAYS

# What is not given, as the assumptions have it: its name, unit and source.
_ASSUMED = {
    "price_per_gb": (
        "download", "money per GB", "default, from general knowledge: AWS, out to the internet, the first 10 TB a month",
    ),
    "cache_price_per_gb_month": (
        "cache", "money per GB-month", "default, from general knowledge: AWS EFS Standard, us-east-1",
    ),
    "cache_read_price_per_gb": ("cache reads", "money per GB", "default: one zone"),
    "download_gbit_per_second": ("download speed", "Gbit/s", "default: a guess"),
    "cache_gbit_per_second": ("cache speed", "Gbit/s", "default: a guess"),
}  # fmt: skip


class SameData(StrEnum):
    """Which pods of the store download the same data."""

    workload = "workload"
    namespace = "namespace"
    all = "all"


@whatif_command()
def whatif_egress(
    gb_per_start: Annotated[
        Decimal | None, amount_option("--gb-per-start", "Downloaded by each pod start.", metavar="GB", above=True)
    ] = None,
    starts_per_day: Annotated[
        float | None, number_option("--starts-per-day", "Pod starts per day, of all nodes together.", above=True)
    ] = None,
    nodes: NodesOption = None,
    days: DaysOption = None,
    price_per_gb: Annotated[
        Decimal | None, amount_option("--price-per-gb", "Of a GB downloaded: between clouds, regions or zones. Default: 0.09.")
    ] = None,
    changes: Annotated[
        int,
        typer.Option("--changes", min=1, metavar="COUNT", help="Versions of the data in the period: the cache downloads each."),
    ] = 1,
    cache_price_per_gb_month: Annotated[
        Decimal | None, amount_option("--cache-price-per-gb-month", "Of a GB that the cache keeps for a month. Default: 0.30.")
    ] = None,
    cache_read_price_per_gb: Annotated[
        Decimal | None, amount_option("--cache-read-price-per-gb", "Of a GB read from it, as between zones. Default: 0.")
    ] = None,
    download_gbit_per_second: Annotated[
        float | None, number_option("--download-gbit-per-second", "Speed of a start's download. Default: 1.", above=True)
    ] = None,
    cache_gbit_per_second: Annotated[
        float | None, number_option("--cache-gbit-per-second", "Speed of reading the cache. Default: 10.", above=True)
    ] = None,
    same_data: Annotated[
        SameData, typer.Option("--same-data", help="Of the store's pods: who downloads the same data, and shares a copy.")
    ] = SameData.workload,
    *,
    run: Run,
) -> None:
    """Say what downloads at every pod start cost, and what a shared cache would save.

    Starts are those of the store's pods, or described by options: --starts-per-day, or --nodes that each start once a day. The
    cache downloads each version of the data once, keeps it for the period, and every start reads it there.

    \b
    Examples:
      gpucost whatif egress --gb-per-start 100 --nodes 50 --days 30 --price-per-gb 0.09
      gpucost whatif egress --gb-per-start 40 --starts-per-day 300 --changes 4 --cache-price-per-gb-month 0.16
      gpucost whatif egress --gb-per-start 15 --month 2026-10 --same-data namespace
    """
    from gpucost.whatif.answer import Assumption, assumed
    from gpucost.whatif.egress import Downloads, Transfer, answer, starts_of

    if gb_per_start is None:
        raise UsageError("--gb-per-start is missing", "how many GB a pod downloads as it starts: its model, image or data")
    if nodes is not None and starts_per_day is not None:
        raise UsageError("--nodes and --starts-per-day both say how many starts there are", "leave out one of them")
    if is_calculator(options_of(nodes=nodes, starts_per_day=starts_per_day, days=days), run.asked.given()):
        per_day = nodes if starts_per_day is None else starts_per_day
        if per_day is None:
            raise UsageError("how many starts a day has is not told", "--starts-per-day or --nodes tell it")
        days = days or DAYS
        downloads: tuple[Downloads, ...] = (Downloads("the described starts", float(per_day) * days),)
        hours, period_name = 24.0 * days, f"{days} days"
        starts = Assumption("starts", float(per_day), "per day", "option: each node once a day" if nodes else "option")
    else:
        usage = run.usage()
        downloads = starts_of(usage.fleet, usage.period, same_data.value)
        hours, period_name = (usage.period.end_ms - usage.period.start_ms) / MS_PER_HOUR, usage.period_name
        if not downloads:
            raise GpucostError(
                f"no pod of {usage.scope_name} started in {period_name}", "--starts-per-day or --nodes describe starts"
            )
        starts = Assumption("starts", sum(one.starts for one in downloads), f"pods of {usage.scope_name}", "store", period_name)
    given: dict[str, Any] = {
        "price_per_gb": price_per_gb, "cache_price_per_gb_month": cache_price_per_gb_month,
        "cache_read_price_per_gb": cache_read_price_per_gb, "download_gbit_per_second": download_gbit_per_second,
        "cache_gbit_per_second": cache_gbit_per_second,
    }  # fmt: skip
    transfer = Transfer(gb_per_start, changes, **{key: value for key, value in given.items() if value is not None})
    assumptions = (
        Assumption("data", gb_per_start, "GB per start", "option"),
        starts,
        *(assumed(name, getattr(transfer, key), unit, given[key], source) for key, (name, unit, source) in _ASSUMED.items()),
    )
    currency = run.settings.currency
    result = answer(downloads, transfer, hours=hours, currency=currency, period=period_name, assumptions=assumptions)
    run.write(run.evaluate(result))
