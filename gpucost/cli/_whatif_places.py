"""Where work could run for `gpucost whatif burst`: spot prices of the same GPU elsewhere, known or given."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import typer

from gpucost.cli._whatif_options import decimal_number
from gpucost.errors import UsageError
from gpucost.whatif.described import PricePer, node_price

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpucost.cli._whatif_offers import ListPrices
    from gpucost.config import Config
    from gpucost.whatif.burst import Place, Work
    from gpucost.whatif.fleet import Fleet


def described_work(
    settings: Config,
    spot_price: Decimal | None,
    per: PricePer,
    shape: tuple[int, int],
    gpus: int | None,
    hours: float,
    instance_type: str | None,
    region: str | None,
    gpu_model: str | None,
    texts: Sequence[str],
    providers: tuple[str, ...],
) -> Work:
    """The work that options describe. Raises UsageError where its price, or a place to compare with, is not said."""
    from gpucost.cli._whatif_offers import list_prices
    from gpucost.whatif.burst import Place, Work

    primary: Place | None = None
    per_node, others = float(shape[1]), []
    with list_prices(settings) as listed:
        if instance_type is not None:
            primary, model, holds = _primary(listed, instance_type, region)
            gpu_model = gpu_model or model
            per_node = float(gpus or holds)
        elif region is not None:
            raise UsageError("--region needs --instance-type", "whose spot price it is, as in --instance-type a2-highgpu-8g")
        if spot_price is not None:
            here = primary or Place("", "", Decimal(1), "option")
            price = node_price(spot_price, per, per_node) / Decimal(repr(per_node))
            primary = Place(here.provider, here.region, price, "option")
        if gpu_model is not None:
            others = [
                found
                for found in _of_model(listed, gpu_model, per_node, providers)
                if primary is None or (found.provider, found.region) != (primary.provider, primary.region)
            ]
    if primary is None:
        raise UsageError(
            "the primary's spot price is missing", "--spot-price, or --instance-type and --region for its list price"
        )
    others += [_given_place(text, per, per_node) for text in texts]
    if not others:
        raise UsageError(
            "there is no place to compare with", "--gpu-model or --instance-type finds some, --place NAME=MONEY gives one"
        )
    return Work("the described work", primary, shape[0] * per_node * hours, per_node, float(shape[0]), tuple(others))


def _given_place(text: str, per: PricePer, gpus: float) -> Place:
    from gpucost.whatif.burst import Place

    name, equals, value = text.rpartition("=")
    if not equals or not name.strip():
        raise UsageError(f"--place {text}: it is no NAME=MONEY", '--place "gcp us-east1=7.10"')
    try:
        price = decimal_number(above=True)(value)
    except typer.BadParameter as error:
        raise UsageError(f"--place {text}: {error.message}") from None
    provider, _, region = name.strip().partition(" ")
    return Place(provider, region, node_price(price, per, gpus) / Decimal(repr(gpus)), "option")


def _primary(listed: ListPrices, instance_type: str, region: str | None) -> tuple[Place, str | None, float]:
    """Where the work runs, its GPU and how many of them. Raises UsageError where several regions could be meant."""
    rows = listed.all(instance_type, purchase_options=("spot",), regions=(region,) if region else ())
    regions = sorted({row.region or "" for row in rows})
    if len(regions) > 1:
        raise UsageError(
            f"{instance_type} has spot prices in {len(regions)} regions", f"--region names one, such as {regions[0]}"
        )
    if not rows:
        raise UsageError(f"no spot price of {instance_type} is known in your currency", "--spot-price gives it")
    row = rows[0]
    return _place(row), row.gpu_model, float(row.gpu_count or 1)


def _place(row: Any) -> Place:
    from gpucost.cli._whatif_offers import source_of
    from gpucost.whatif.burst import Place

    price = row.price_per_gpu_hour or row.price_per_hour
    return Place(row.provider, row.region or "", price, *source_of(row), row.zone or "", row.instance_type, row.is_stale)


def _of_model(listed: ListPrices, gpu_model: str, gpus: float, providers: tuple[str, ...]) -> list[Place]:
    """The cheapest place of each region that has instances with at least so many of these GPUs."""
    cheapest: dict[tuple[str, str | None], Place] = {}
    for row in listed.all(gpu_model, purchase_options=("spot",), providers=providers):
        if row.gpu_count is not None and row.gpu_count >= gpus:
            cheapest.setdefault((row.provider, row.region), _place(row))
    return list(cheapest.values())


def places_of_fleet(
    settings: Config, fleet: Fleet, providers: tuple[str, ...]
) -> tuple[dict[tuple[str, str, str], Place], dict[str, list[Place]]]:
    """The primaries' spot prices by (provider, region, GPU model), and every place of these models."""
    from gpucost.cli._whatif_offers import list_prices
    from gpucost.errors import GpucostError

    nodes = {(node.cluster, node.name): node for node in fleet.nodes}
    most: dict[str, float] = {}
    for pod in fleet.pods:
        model = nodes[pod.cluster, pod.node].gpu_model
        if model:
            most[model] = max(pod.gpus, most.get(model, 0.0))
    places: dict[str, list[Place]] = {}
    primaries: dict[tuple[str, str, str], Place] = {}
    with list_prices(settings) as listed:
        for model, gpus in most.items():
            try:
                places[model] = _of_model(listed, model, gpus, providers)
                everywhere = places[model] if not providers else _of_model(listed, model, gpus, ())
            except GpucostError:
                continue  # no spot price of it is known: the answer says that there is no place
            primaries |= {(found.provider, found.region, model): found for found in everywhere}
    return primaries, places
