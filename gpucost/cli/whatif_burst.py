"""`gpucost whatif burst`: low-priority work in another region or cloud."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucost.cli.whatif import (
    GpusOption,
    HoursOption,
    NodesOption,
    PricePerOption,
    Run,
    SpotPriceOption,
    amount_option,
    decimal_number,
    is_calculator,
    number_option,
    whatif_command,
)
from gpucost.errors import UsageError
from gpucost.whatif.fleet import PricePer, node_price, node_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpucost.cli.whatif import ListPrices
    from gpucost.config.model import Config
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
    from gpucost.cli.whatif import list_prices
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
    from gpucost.cli.whatif import source_of
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
    from gpucost.cli.whatif import list_prices
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


# Public list prices as generally known, looked up on no day that could be named; both can be given.
_OTHER_CLOUD = Decimal("0.09")
_OTHER_REGION = Decimal("0.02")
_EGRESS_SOURCE = "default: usual list prices, from general knowledge"
_WAIT_MINUTES = 15.0
_GBIT_PER_SECOND = 5.0


@whatif_command()
def whatif_burst(
    spot_price: SpotPriceOption = None,
    price_per: PricePerOption = PricePer.node,
    gpus: GpusOption = None,
    nodes: NodesOption = None,
    hours: HoursOption = None,
    instance_type: Annotated[
        str | None, typer.Option("--instance-type", metavar="TYPE", help="Instance the work runs on, for its spot price.")
    ] = None,
    region: Annotated[str | None, typer.Option("--region", metavar="NAME", help="Primary region of that instance.")] = None,
    gpu_model: Annotated[
        str | None, typer.Option("--gpu-model", metavar="NAME", help="GPU that other places must have; else the instance's.")
    ] = None,
    place: Annotated[
        list[str] | None,
        typer.Option("--place", metavar="NAME=MONEY", help="Another place and its spot price, in --price-per; repeatable."),
    ] = None,
    to_provider: Annotated[
        list[str] | None, typer.Option("--to-provider", metavar="NAME", help="Only places of this cloud; repeatable.")
    ] = None,
    at_most_percent: Annotated[
        float,
        number_option(
            "--at-most-percent",
            "Worth it up to this share of the primary's spot price.",
            above=True,
            highest=100,
            show_default=True,
        ),
    ] = 70.0,
    egress_gb: Annotated[
        Decimal,
        typer.Option("--egress-gb", metavar="GB", parser=decimal_number(), help="Data that moves there and back, in all."),
    ] = Decimal(0),
    egress_price_per_gb: Annotated[
        Decimal | None,
        amount_option("--egress-price-per-gb", "Default: 0.02 to a region of the same cloud, 0.09 to another cloud."),
    ] = None,
    wait_minutes: Annotated[
        float | None, number_option("--wait-minutes", "Longer start on a paid node: instance, image, data. Default: 15.")
    ] = None,
    delay_cost_per_hour: Annotated[
        Decimal | None, amount_option("--delay-cost-per-hour", "What an hour of waiting is worth. Default: 0.")
    ] = None,
    transfer_gbit_per_second: Annotated[
        float | None, number_option("--transfer-gbit-per-second", "Speed at which data moves. Default: 5.", above=True)
    ] = None,
    *,
    run: Run,
) -> None:
    """Say whether low-priority work is worth moving to another region or cloud.

    It is where its estimated cost there, data and waiting counted, is at most 70 % of what it costs at the primary's spot price.
    Work is the pods of the store that the options name, or described: --nodes for --hours at --spot-price, or at the spot price
    of --instance-type in --region. Places are those with a known spot price of the same GPU model (gpucost prices), and --place.

    \b
    Examples:
      gpucost whatif burst --month 2026-10 --namespace ci --egress-gb 500
      gpucost whatif burst --instance-type a2-highgpu-8g --region us-central1 --nodes 4 --hours 100 --egress-gb 2000
      gpucost whatif burst --spot-price 12 --nodes 4 --hours 100 --place "gcp us-east1=7.10" --egress-gb 500
    """
    from gpucost.whatif.answer import Assumption, assumed
    from gpucost.whatif.burst import Moving, answer, works_of
    from gpucost.whatif.fleet import HOURS_PER_MONTH

    settings = run.settings
    described = {
        "--spot-price": spot_price, "--nodes": nodes, "--gpus": gpus, "--hours": hours, "--instance-type": instance_type,
        "--region": region, "--gpu-model": gpu_model, "--place": place or None,
    }  # fmt: skip
    moving = Moving(
        at_most_percent=at_most_percent,
        egress_gb=egress_gb,
        price_per_gb_other_cloud=_OTHER_CLOUD if egress_price_per_gb is None else egress_price_per_gb,
        price_per_gb_other_region=_OTHER_REGION if egress_price_per_gb is None else egress_price_per_gb,
        wait_minutes=_WAIT_MINUTES if wait_minutes is None else wait_minutes,
        delay_cost_per_hour=delay_cost_per_hour or Decimal(0),
        transfer_gbit_per_second=transfer_gbit_per_second or _GBIT_PER_SECOND,
    )
    providers = tuple(to_provider or ())
    if is_calculator(described, run.asked.given()):
        shape, wanted = node_shape(nodes, gpus), hours or HOURS_PER_MONTH
        work = described_work(
            settings, spot_price, price_per, shape, gpus, wanted, instance_type, region, gpu_model, place or (), providers
        )
        works: tuple[Work, ...] = (work,)
        said: tuple[str, ...] = ()
        period_name = f"{shape[0]} nodes for {wanted:g} hours"
        use = Assumption("work", period_name, "", "option")
    else:
        usage = run.usage()
        primaries, places = places_of_fleet(settings, usage.fleet, providers)
        works, said = run.evaluate(works_of(usage.fleet, primaries, places))
        period_name = usage.period_name
        use = Assumption("work", usage.scope_name, "all its pods", "store", period_name)
    result = answer(
        works,
        moving,
        currency=settings.currency,
        period=period_name,
        assumptions=(
            use,
            Assumption("worth it", at_most_percent, "% of the primary's spot price", "option"),
            Assumption("data", egress_gb, "GB in all", "option"),
            *(
                [assumed("egress", egress_price_per_gb, "money per GB", egress_price_per_gb)]
                if egress_price_per_gb is not None
                else [
                    assumed("egress, same cloud", _OTHER_REGION, "money per GB", None, _EGRESS_SOURCE),
                    assumed("egress, other cloud", _OTHER_CLOUD, "money per GB", None, _EGRESS_SOURCE),
                ]
            ),
            assumed("longer start", moving.wait_minutes, "min, paid", wait_minutes, "default: a guess"),
            assumed("delay", moving.delay_cost_per_hour, "money per hour waited", delay_cost_per_hour),
            assumed("data moves at", moving.transfer_gbit_per_second, "Gbit/s", transfer_gbit_per_second, "default: a guess"),
        ),
        findings=said,
    )
    run.write(run.evaluate(result))
