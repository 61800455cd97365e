"""`gpucost whatif burst`: low-priority work in another region or cloud."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

from gpucost.errors import GpucostError, UsageError
from gpucost.options import Option
from gpucost.questions.whatif.prices import ListPrices, list_prices, price, source_of
from gpucost.questions.whatif.request import WhatIfRequest
from gpucost.render.view import Document
from gpucost.whatif.answer import Assumption
from gpucost.whatif.burst import BurstPlace, BurstWork, DescribedWork, Moving, answer, works_of
from gpucost.whatif.flags import GPUS_PER_NODE, PricePer, node_price, to_decimal

if TYPE_CHECKING:
    from gpucost.price.listing import ListedPrice
    from gpucost.whatif.fleet import Fleet


def whatif_burst(
    request: WhatIfRequest,
    described: DescribedWork,
    moving: Moving,
    to_provider: Annotated[tuple[str, ...], Option("Only places of this cloud; repeatable.", "NAME")] = (),
) -> Document:
    """Say whether low-priority work is worth moving to another region or cloud.

    It is where its estimated cost there, data and waiting counted, is at most 70 % of what it costs at the primary's spot price.
    Work is the pods of the store that the options name, or described: --nodes for --hours at --spot-price, or at the spot price
    of --instance-type in --region. Places are those with a known spot price of the same GPU model (gpucost prices), and --place.

    \b
    Examples:
      gpucost whatif burst --month 2026-10 --namespace ci --wait-minutes 15
      gpucost whatif burst --instance-type a2-highgpu-8g --region us-central1 --nodes 4 --hours 100 --wait-minutes 15
      gpucost whatif burst --spot-price 12 --nodes 4 --hours 100 --place "gcp us-east1=7.10" --wait-minutes 15 \\
        --egress-gb 500 --egress-price-per-gb 0.02
    """
    if request.is_described(described):
        with list_prices(request.settings) as listed:
            work = _described(described, listed, to_provider)
        works: tuple[BurstWork, ...] = (work,)
        findings: tuple[str, ...] = ()
        period_name = f"{described.nodes} nodes for {described.hours:g} hours"
        use = Assumption("work", period_name, "", "option")
    else:
        usage = request.usage()
        with list_prices(request.settings) as listed:
            primaries, places = _places_of_fleet(listed, usage.fleet, to_provider)
        works, findings = works_of(usage.fleet, primaries, places)
        period_name = usage.period_name
        use = Assumption("work", usage.scope_name, "all its pods", "store", period_name)
    currency = request.settings.currency
    return request.finish(
        answer(works, moving, currency=currency, period=period_name, assumptions=(use,), findings=findings)
    )


def _described(given: DescribedWork, listed: ListPrices, providers: tuple[str, ...]) -> BurstWork:
    """The work that options describe, and its places. Raises UsageError where a price or a place is missing."""
    size, model, primary = float(given.gpus or GPUS_PER_NODE), given.gpu_model, None
    if given.instance_type is not None:
        row = _primary(listed, given.instance_type, given.region)
        primary, model, size = _place(row), model or row.gpu_model, float(given.gpus or row.gpu_count or 1)
    elif given.region is not None:
        raise UsageError(
            "--region needs --instance-type", "whose spot price it is, as in --instance-type a2-highgpu-8g"
        )
    others = [] if model is None else _of_model(listed, model, size, providers)
    if given.spot_price is not None:
        home = primary or BurstPlace("", "", given.spot_price, "option")
        primary = BurstPlace(
            home.provider, home.region, _per_gpu(given.spot_price, given.price_per, size), "option"
        )
    if primary is None:
        raise UsageError(
            "the primary's spot price is missing",
            "--spot-price, or --instance-type and --region for its list price",
        )
    others = [one for one in others if (one.provider, one.region) != (primary.provider, primary.region)]
    others += [_given_place(text, given.price_per, size) for text in given.place]
    if not others:
        raise UsageError(
            "there is no place to compare with",
            "--gpu-model or --instance-type finds some, --place NAME=MONEY gives one",
        )
    count = given.nodes
    return BurstWork(
        "the described work", primary, count * size * given.hours, size, float(count), tuple(others)
    )


def _per_gpu(amount: Decimal, per: PricePer, gpus: float) -> Decimal:
    return node_price(amount, per, gpus) / to_decimal(gpus)


def _given_place(text: str, per: PricePer, gpus: float) -> BurstPlace:
    name, _, value = text.rpartition("=")
    if not name.strip():
        raise UsageError(f"--place {text}: it is no NAME=MONEY", '--place "gcp us-east1=7.10"')
    provider, _, region = name.strip().partition(" ")
    return BurstPlace(provider, region, _per_gpu(price("--place", text, value), per, gpus), "option")


def _primary(listed: ListPrices, instance_type: str, region: str | None) -> ListedPrice:
    """The spot price where the work runs. Raises UsageError where several regions could be meant."""
    rows = listed(instance_type, purchase_options=("spot",), regions=(region,) if region else ())
    regions = sorted({row.region or "" for row in rows})
    if len(regions) > 1:
        raise UsageError(
            f"{instance_type} has spot prices in {len(regions)} regions",
            f"--region names one, such as {regions[0]}",
        )
    if not rows:
        raise UsageError(
            f"no spot price of {instance_type} is known in your currency", "--spot-price gives it"
        )
    return rows[0]


def _place(row: ListedPrice) -> BurstPlace:
    per_gpu = row.price_per_gpu_hour or row.price_per_hour
    return BurstPlace(
        row.provider,
        row.region or "",
        per_gpu,
        *source_of(row),
        row.zone or "",
        row.instance_type,
        row.is_stale,
    )


def _of_model(
    listed: ListPrices, gpu_model: str, gpus: float, providers: tuple[str, ...]
) -> list[BurstPlace]:
    """The cheapest place of each region that has instances with at least so many of these GPUs."""
    cheapest: dict[tuple[str, str | None], BurstPlace] = {}
    for row in listed(gpu_model, purchase_options=("spot",), providers=providers):
        if row.gpu_count is not None and row.gpu_count >= gpus:
            cheapest.setdefault((row.provider, row.region), _place(row))
    return list(cheapest.values())


def _places_of_fleet(
    listed: ListPrices, fleet: Fleet, providers: tuple[str, ...]
) -> tuple[dict[tuple[str, str, str], BurstPlace], dict[str, list[BurstPlace]]]:
    """The primaries' spot prices by (provider, region, GPU model), and every place of these models."""
    nodes = fleet.by_name
    most: dict[str, float] = {}
    for pod in fleet.pods:
        model = nodes[pod.place].gpu_model
        if model:
            most[model] = max(pod.gpus, most.get(model, 0.0))
    primaries: dict[tuple[str, str, str], BurstPlace] = {}
    places: dict[str, list[BurstPlace]] = {}
    for model, gpus in most.items():
        try:
            places[model] = _of_model(listed, model, gpus, providers)
            everywhere = _of_model(listed, model, gpus, ()) if providers else places[model]
        except GpucostError:
            continue  # no spot price of it is known: the answer says that there is no place
        primaries |= {(place.provider, place.region, model): place for place in everywhere}
    return primaries, places
