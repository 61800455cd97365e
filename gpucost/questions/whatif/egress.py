"""`gpucost whatif egress`: downloads per pod start against a shared cache."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from gpucost.errors import GpucostError, UsageError
from gpucost.options import Option
from gpucost.periods import MS_PER_HOUR
from gpucost.questions.whatif.request import WhatIfRequest
from gpucost.render.view import Document
from gpucost.whatif.answer import Assumption
from gpucost.whatif.egress import DescribedStarts, Downloads, Transfer, answer, starts_of


class SameData(StrEnum):
    """Which pods of the store download the same data."""

    workload = "workload"
    namespace = "namespace"
    all = "all"


def whatif_egress(
    request: WhatIfRequest,
    described: DescribedStarts,
    transfer: Transfer,
    gb_per_start: Annotated[Decimal | None, Option("Downloaded by each pod start.", "GB", above=True)] = None,
    same_data: Annotated[
        SameData,
        Option("Of the store's pods: who downloads the same data, and shares a copy.", is_shown=True),
    ] = SameData.workload,
) -> Document:
    """Say what downloads at every pod start cost, and what a shared cache would save.

    Starts are those of the store's pods, or described by options: --starts-per-day, or --nodes that each start once a day. The
    cache downloads each version of the data once, keeps it for the period, and every start reads it there.

    \b
    Examples:
      gpucost whatif egress --gb-per-start 100 --nodes 50 --days 30 --price-per-gb 0.09
      gpucost whatif egress --gb-per-start 40 --starts-per-day 300 --changes 4 --cache-price-per-gb-month 0.16
      gpucost whatif egress --gb-per-start 15 --month 2026-10 --same-data namespace
    """
    if gb_per_start is None:
        raise UsageError(
            "--gb-per-start is missing", "how many GB a pod downloads as it starts: its model, image or data"
        )
    if described.nodes is not None and described.starts_per_day is not None:
        raise UsageError(
            "--nodes and --starts-per-day both say how many starts there are", "leave out one of them"
        )
    if request.is_described(described):
        per_day, days = described.per_day, described.days
        downloads: tuple[Downloads, ...] = (Downloads("the described starts", per_day * days),)
        hours, period_name = 24.0 * days, f"{days} days"
        starts = Assumption(
            "starts", per_day, "per day", "option: each node once a day" if described.nodes else "option"
        )
    else:
        usage = request.usage()
        downloads = starts_of(usage.fleet, request.period, same_data.value)
        hours, period_name = (
            (request.period.end_ms - request.period.start_ms) / MS_PER_HOUR,
            usage.period_name,
        )
        if not downloads:
            raise GpucostError(
                f"no pod of {usage.scope_name} started in {period_name}",
                "--starts-per-day or --nodes describe starts",
            )
        starts = Assumption(
            "starts",
            sum(one.starts for one in downloads),
            f"pods of {usage.scope_name}",
            "store",
            period_name,
        )
    transfer, currency = replace(transfer, gb_per_start=gb_per_start), request.settings.currency
    return request.finish(
        answer(downloads, transfer, hours=hours, currency=currency, period=period_name, assumptions=(starts,))
    )
