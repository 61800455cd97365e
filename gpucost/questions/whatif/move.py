"""`gpucost whatif move`: work in another region or cloud, or its data near it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from gpucost.errors import GpucostError, UsageError
from gpucost.price.listing import ListedPrice
from gpucost.questions.whatif.prices import list_prices, named_old
from gpucost.questions.whatif.request import WhatIfRequest, flags_of
from gpucost.questions.whatif.view import document
from gpucost.render.view import Document
from gpucost.whatif import move
from gpucost.whatif.answer import Assumption, today_of
from gpucost.whatif.cost import CostBlock, fleet_costs, position
from gpucost.whatif.move import DescribedWork, Moving, Transfer, Work

# Spot prices of an instance type or GPU model, cheapest GPU-hour first.
Listed = Callable[..., list[ListedPrice]]


def whatif_move(
    request: WhatIfRequest, described: DescribedWork, moving: Moving, transfer: Transfer
) -> Document:
    """Say whether low-priority work is worth moving elsewhere, or its data worth keeping near.

    A place is worth it if the work costs at most 70 % of the primary's spot price there, waiting and data included, and less than
    leaves the bill. Work is the store's pods, or --nodes of --instance-type for --hours. Places are those with a spot price of
    the GPU.

    With --gb-per-start and --starts-per-day: what downloads at every pod start cost, and what a shared cache saves.

    \b
    Examples:
      gpucost whatif move --month 2026-10 --namespace ci --wait-minutes 15
      gpucost whatif move --instance-type a2-highgpu-8g --region us-central1 --nodes 4 --hours 100 --wait-minutes 15 \\
        --egress-gb 500 --egress-price-per-gb 0.02
      gpucost whatif move --gb-per-start 100 --starts-per-day 50 --price-per-gb 0.09
    """
    if request.is_described(transfer, *flags_of(described), *flags_of(moving)):
        return document(move.cache(transfer, request.settings.currency))
    moving.check()
    settings = request.settings
    # several works have GPUs of one model
    listed = cache(partial(list_prices, settings, purchase_options=("spot",)))
    if request.is_described(described):
        work = _described(described, listed)
        works, findings = [work], list[str]()
        period = f"{described.nodes or 1} nodes for {described.hours:g} hours"
        today = position(settings.currency, [work.nodes(work.primary.per_node_hour)])
        use = Assumption("work", period, "", "option")
    else:
        usage, period = request.usage(), request.period_name
        works, findings = move.works_of(usage.fleet, partial(_of_model, listed), usage.commitments)
        today = today_of(usage, fleet_costs(usage.fleet), is_held=True)
        use = Assumption("work", usage.scope_name, "all its pods", "store", period)
    answer = move.answer(works, moving, today, use, findings, period=period)
    return document(named_old(answer, request))


def _described(given: DescribedWork, listed: Listed) -> Work:
    """The work that options describe, and its places. Raises UsageError unless one region has its spot price."""
    name, region = given.instance_type, given.region
    if not name:
        raise UsageError("--instance-type is missing", "as in --instance-type a2-highgpu-8g")
    rows = listed(name, regions=(region,) if region else ())
    regions = {row.region for row in rows}
    if len(regions) != 1:
        raise UsageError(f"{name} has spot prices in {len(regions)} regions", "--region names one")
    home, gpus, nodes = rows[0], float(rows[0].gpu_count or 1), given.nodes or 1
    primary, hours = move.spot_price(home, gpus), nodes * given.hours
    cost = CostBlock(hours, primary.per_node_hour).cost
    return Work(
        "the described work",
        home.provider,
        home.region or "",
        primary,
        hours * gpus,
        gpus,
        float(nodes),
        _of_model(listed, home.gpu_model or "", gpus),
        cost,
        cost,
    )


def _of_model(listed: Listed, gpu_model: str, gpus: float) -> list[ListedPrice]:
    """The cheapest place of each region that has instances with at least so many of these GPUs; none if no price is known."""
    try:
        rows = listed(gpu_model)
    except GpucostError:
        return []
    cheapest: dict[tuple[str, str | None], ListedPrice] = {}
    for row in rows:
        if row.gpu_count and row.gpu_count >= gpus:
            cheapest.setdefault((row.provider, row.region), row)
    return list(cheapest.values())
