"""`gpucost whatif burst`: low-priority work in another region or cloud."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucost.cli.whatif import (
    GpusOption,
    HoursOption,
    ListPrices,
    NodesOption,
    PricePerOption,
    Run,
    SpotPriceOption,
    amount_option,
    decimal_number,
    is_calculator,
    list_prices,
    number_option,
    options_of,
    source_of,
    whatif_command,
)
from gpucost.errors import GpucostError, UsageError
from gpucost.whatif.fleet import PricePer, node_price, node_shape

if TYPE_CHECKING:
    from gpucost.price.listing import ListedPrice
    from gpucost.whatif.burst import Place
    from gpucost.whatif.fleet import Fleet

_EGRESS_SOURCE = "default: usual list prices, from general knowledge"


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
    from gpucost.whatif.burst import Moving, Place, Work, answer, works_of
    from gpucost.whatif.fleet import HOURS_PER_MONTH

    describing = options_of(
        spot_price=spot_price, nodes=nodes, gpus=gpus, hours=hours, instance_type=instance_type, region=region,
        gpu_model=gpu_model, place=place or [],
    )  # fmt: skip
    given: dict[str, Any] = {
        "price_per_gb_other_cloud": egress_price_per_gb,
        "price_per_gb_other_region": egress_price_per_gb,
        "wait_minutes": wait_minutes,
        "delay_cost_per_hour": delay_cost_per_hour,
        "transfer_gbit_per_second": transfer_gbit_per_second,
    }
    moving = Moving(at_most_percent, egress_gb, **{key: value for key, value in given.items() if value is not None})
    providers, is_described = tuple(to_provider or ()), is_calculator(describing, run.asked.given())
    if is_described:
        count, per_node = node_shape(nodes, gpus)
        size, length = float(per_node), hours or HOURS_PER_MONTH
        primary, others = None, []
        with list_prices(run.settings) as listed:
            if instance_type is not None:
                row = _primary(listed, instance_type, region)
                primary, gpu_model, size = _place(row), gpu_model or row.gpu_model, float(gpus or row.gpu_count or 1)
            elif region is not None:
                raise UsageError("--region needs --instance-type", "whose spot price it is, as in --instance-type a2-highgpu-8g")
            if gpu_model is not None:
                others = _of_model(listed, gpu_model, size, providers)
        if spot_price is not None:
            home = primary or Place("", "", spot_price, "option")
            primary = Place(home.provider, home.region, _per_gpu(spot_price, price_per, size), "option")
        if primary is None:
            raise UsageError(
                "the primary's spot price is missing", "--spot-price, or --instance-type and --region for its list price"
            )
        others = [one for one in others if (one.provider, one.region) != (primary.provider, primary.region)]
        others += [_given_place(text, price_per, size) for text in place or ()]
        if not others:
            raise UsageError(
                "there is no place to compare with", "--gpu-model or --instance-type finds some, --place NAME=MONEY gives one"
            )
        works: tuple[Work, ...] = (Work("the described work", primary, count * size * length, size, float(count), tuple(others)),)
        findings: tuple[str, ...] = ()
        period_name = f"{count} nodes for {length:g} hours"
        use = Assumption("work", period_name, "", "option")
    else:
        usage = run.usage()
        with list_prices(run.settings) as listed:
            primaries, places = _places_of_fleet(listed, usage.fleet, providers)
        works, findings = run.evaluate(works_of(usage.fleet, primaries, places))
        period_name = usage.period_name
        use = Assumption("work", usage.scope_name, "all its pods", "store", period_name)
    egress = [("egress, same cloud", moving.price_per_gb_other_region), ("egress, other cloud", moving.price_per_gb_other_cloud)]
    if egress_price_per_gb is not None:
        egress = [("egress", egress_price_per_gb)]
    assumptions = (
        use,
        Assumption("worth it", at_most_percent, "% of the primary's spot price", "option"),
        Assumption("data", egress_gb, "GB in all", "option"),
        *(assumed(name, price, "money per GB", egress_price_per_gb, _EGRESS_SOURCE) for name, price in egress),
        assumed("longer start", moving.wait_minutes, "min, paid", wait_minutes, "default: a guess"),
        assumed("delay", moving.delay_cost_per_hour, "money per hour waited", delay_cost_per_hour),
        assumed("data moves at", moving.transfer_gbit_per_second, "Gbit/s", transfer_gbit_per_second, "default: a guess"),
    )
    result = answer(works, moving, currency=run.settings.currency, period=period_name, assumptions=assumptions, findings=findings)
    run.write(run.evaluate(result))


def _per_gpu(price: Decimal, per: PricePer, gpus: float) -> Decimal:
    return node_price(price, per, gpus) / Decimal(repr(gpus))


def _given_place(text: str, per: PricePer, gpus: float) -> Place:
    from gpucost.whatif.burst import Place

    name, _, value = text.rpartition("=")
    if not name.strip():
        raise UsageError(f"--place {text}: it is no NAME=MONEY", '--place "gcp us-east1=7.10"')
    try:
        price = decimal_number(above=True)(value)
    except typer.BadParameter as error:
        raise UsageError(f"--place {text}: {error.message}") from None
    provider, _, region = name.strip().partition(" ")
    return Place(provider, region, _per_gpu(price, per, gpus), "option")


def _primary(listed: ListPrices, instance_type: str, region: str | None) -> ListedPrice:
    """The spot price where the work runs. Raises UsageError where several regions could be meant."""
    rows = listed.all(instance_type, purchase_options=("spot",), regions=(region,) if region else ())
    regions = sorted({row.region or "" for row in rows})
    if len(regions) > 1:
        raise UsageError(
            f"{instance_type} has spot prices in {len(regions)} regions", f"--region names one, such as {regions[0]}"
        )
    if not rows:
        raise UsageError(f"no spot price of {instance_type} is known in your currency", "--spot-price gives it")
    return rows[0]


def _place(row: ListedPrice) -> Place:
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


def _places_of_fleet(
    listed: ListPrices, fleet: Fleet, providers: tuple[str, ...]
) -> tuple[dict[tuple[str, str, str], Place], dict[str, list[Place]]]:
    """The primaries' spot prices by (provider, region, GPU model), and every place of these models."""
    nodes = {(node.cluster, node.name): node for node in fleet.nodes}
    most: dict[str, float] = {}
    for pod in fleet.pods:
        model = nodes[pod.cluster, pod.node].gpu_model
        if model:
            most[model] = max(pod.gpus, most.get(model, 0.0))
    primaries: dict[tuple[str, str, str], Place] = {}
    places: dict[str, list[Place]] = {}
    for model, gpus in most.items():
        try:
            places[model] = _of_model(listed, model, gpus, providers)
            everywhere = _of_model(listed, model, gpus, ()) if providers else places[model]
        except GpucostError:
            continue  # no spot price of it is known: the answer says that there is no place
        primaries |= {(place.provider, place.region, model): place for place in everywhere}
    return primaries, places
