"""`gpucost whatif move`: work in another region or cloud, or its data near it."""

from __future__ import annotations

from decimal import Decimal

from gpucost.errors import GpucostError, UsageError
from gpucost.options import Names
from gpucost.periods import MS_PER_HOUR
from gpucost.price.listing import ListedPrice
from gpucost.questions.whatif.prices import ListPrices, list_prices, price, source_of
from gpucost.questions.whatif.request import WhatIfRequest, flags_of
from gpucost.records import grouped
from gpucost.render.view import Document
from gpucost.whatif import downloads, move
from gpucost.whatif.answer import Answer, Assumption, today_of
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.downloads import DescribedStarts, Downloads, Transfer
from gpucost.whatif.flags import GPUS_PER_NODE, PricePer, to_decimal
from gpucost.whatif.fleet import Fleet
from gpucost.whatif.move import DescribedWork, Kind, Moving, Place, Work


def whatif_move(
    request: WhatIfRequest,
    described: DescribedWork,
    moving: Moving,
    starts: DescribedStarts,
    transfer: Transfer,
) -> Document:
    """Say whether low-priority work is worth moving elsewhere, or its data worth keeping near.

    A place is worth it if the work costs at most 70 % of the primary's spot price there, waiting and data included, and less than
    leaves the bill. Work is the store's pods, or --nodes for --hours. Places are those with a spot price of the GPU, and --place.

    With --gb-per-start: what downloads at every pod start cost, and what a shared cache saves. Starts are those of the store's
    pods, --starts-per-day, or --nodes that each start once a day.

    \b
    Examples:
      gpucost whatif move --month 2026-10 --namespace ci --wait-minutes 15
      gpucost whatif move --instance-type a2-highgpu-8g --region us-central1 --nodes 4 --hours 100 --wait-minutes 15
      gpucost whatif move --spot-price 12 --nodes 4 --hours 100 --place "gcp us-east1=7.10" --wait-minutes 15 \\
        --egress-gb 500 --egress-price-per-gb 0.02
      gpucost whatif move --gb-per-start 100 --nodes 50 --days 30 --price-per-gb 0.09
      gpucost whatif move --gb-per-start 15 --month 2026-10 --same-data namespace
    """
    is_of_data = bool(transfer.gb_per_start)
    of_places = [*flags_of(described, but=("nodes",)), *flags_of(moving)]
    others = of_places if is_of_data else [*flags_of(starts), *flags_of(transfer)]
    if others:
        word = "with" if is_of_data else "without"
        raise UsageError(f"{others[0]} has no meaning {word} --gb-per-start", f"leave out {others[0]}")
    if is_of_data:
        return request.finish(_downloads(request, described, starts, transfer))
    usage = None if request.is_described(described) else request.usage()
    findings: list[str] = []
    with list_prices(request.settings) as listed:
        if usage is None:
            works = [_described(described, listed, moving.to_provider)]
        else:
            places = _places_of_fleet(listed, usage.fleet, moving.to_provider)
            works, findings = move.works_of(usage.fleet, *places, usage.commitments)
    if usage is None:
        period, today = f"{described.nodes or 1} nodes for {described.hours:g} hours", None
        use = Assumption("work", period, "", "option")
    else:
        period, today = usage.period_name, today_of(usage, fleet_costs(usage.fleet), is_held=True)
        use = Assumption("work", usage.scope_name, "all its pods", "store", period)
    currency = request.settings.currency
    return request.finish(move.answer(works, moving, today, use, findings, currency=currency, period=period))


def _downloads(
    request: WhatIfRequest, described: DescribedWork, starts: DescribedStarts, transfer: Transfer
) -> Answer:
    """A cache for described starts, or those of the store's pods."""
    if described.nodes and starts.starts_per_day:
        raise UsageError("--nodes and --starts-per-day both name the starts", "leave out one of them")
    if request.is_described(described) or request.is_described(starts):
        per_day = starts.starts_per_day or described.nodes
        if not per_day:
            raise UsageError("the number of starts is missing", "--starts-per-day or --nodes")
        sets, period = [Downloads("the described starts", per_day * starts.days)], f"{starts.days} days"
        hours, source = 24.0 * starts.days, "option: each node once a day" if described.nodes else "option"
        use = Assumption("starts", per_day, "per day", source)
    else:
        usage, span = request.usage(), request.period
        sets, period = downloads.starts_of(usage.fleet, span, transfer.same_data), usage.period_name
        hours, count = (span.end_ms - span.start_ms) / MS_PER_HOUR, sum(one.starts for one in sets)
        if not sets:
            raise GpucostError(
                f"no pod of {usage.scope_name} started in {period}", "--starts-per-day describes starts"
            )
        use = Assumption("starts", count, f"pods of {usage.scope_name}", "store", period)
    currency = request.settings.currency
    return downloads.answer(sets, transfer, use, hours=hours, currency=currency, period=period)


def _described(given: DescribedWork, listed: ListPrices, providers: Names) -> Work:
    """The work that options describe, and its places. Raises UsageError if a price or a place is missing."""
    size, model = float(given.gpus or GPUS_PER_NODE), given.gpu_model
    primary = Place("", "", Decimal(0), "option")
    if given.instance_type:
        row = _primary(listed, given.instance_type, given.region)
        primary, model, size = _place(row), model or row.gpu_model, float(given.gpus or row.gpu_count or 1)
    elif given.region:
        raise UsageError("--region needs --instance-type", "as in --instance-type a2-highgpu-8g")
    # of --price-per for a GPU
    gpus = 1 if given.price_per is PricePer.gpu else to_decimal(size)

    others = _of_model(listed, model, size, providers) if model else []
    if given.spot_price:
        primary = Place(primary.provider, primary.region, given.spot_price / gpus, "option")
    if not primary.price_per_gpu_hour:
        raise UsageError(
            "the primary's spot price is missing", "--spot-price, or --instance-type and --region"
        )
    places = [one for one in others if (one.provider, one.region) != (primary.provider, primary.region)]
    for text in given.place:
        name, _, value = text.rpartition("=")
        if not name.strip():
            raise UsageError(f"--place {text}: invalid, not NAME=MONEY", '--place "gcp us-east1=7.10"')
        provider, _, region = name.strip().partition(" ")
        places.append(Place(provider, region, price("--place", text, value) / gpus, "option"))
    if not places:
        raise UsageError(
            "there is no place to compare with", "--gpu-model, --instance-type or --place NAME=MONEY"
        )
    count = given.nodes or 1
    return Work("the described work", primary, count * size * given.hours, size, float(count), tuple(places))


def _primary(listed: ListPrices, instance_type: str, region: str | None) -> ListedPrice:
    """The spot price where the work runs. Raises UsageError unless one region has it."""
    rows = listed(instance_type, purchase_options=("spot",), regions=(region,) if region else ())
    regions = sorted({row.region or "" for row in rows})
    if len(regions) != 1:
        raise UsageError(
            f"{instance_type} has spot prices in {len(regions)} regions",
            "--region names one; or --spot-price",
        )
    return rows[0]


def _place(row: ListedPrice) -> Place:
    """A spot price as a place."""
    per_gpu, region = row.price_per_gpu_hour or row.price_per_hour, row.region or ""
    source = source_of(row)
    return Place(row.provider, region, per_gpu, *source, row.zone or "", row.instance_type, row.is_stale)


def _of_model(listed: ListPrices, gpu_model: str, gpus: float, providers: Names = ()) -> list[Place]:
    """The cheapest place of each region that has instances with at least so many of these GPUs."""
    cheapest: dict[tuple[str, str | None], Place] = {}
    for row in listed(gpu_model, purchase_options=("spot",), providers=providers):
        if row.gpu_count and row.gpu_count >= gpus:
            cheapest.setdefault((row.provider, row.region), _place(row))
    return list(cheapest.values())


def _places_of_fleet(
    listed: ListPrices, fleet: Fleet, providers: Names
) -> tuple[dict[Kind, Place], dict[str, list[Place]]]:
    """The primaries' spot prices by provider, region and GPU model, and every place of these models."""
    nodes = fleet.by_name
    models = grouped((nodes[pod.place].gpu_model, pod.gpus) for pod in fleet.pods)
    primaries: dict[Kind, Place] = {}
    places: dict[str, list[Place]] = {}
    for model, gpus in models.items():
        try:
            everywhere = _of_model(listed, model, max(gpus)) if model else []
        except GpucostError:
            continue  # no spot price of it is known: the answer names no place
        places[model or ""] = [
            one for one in everywhere if not providers or one.provider in map(str.lower, providers)
        ]
        primaries |= {(one.provider, one.region, model or ""): one for one in everywhere}
    return primaries, places
