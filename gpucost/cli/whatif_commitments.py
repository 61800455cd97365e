"""`gpucost whatif buy` and `gpucost whatif reserve`: own nodes beside the cloud, and commitments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from gpucost.cli.output import note
from gpucost.cli.prices import OWN_NODE
from gpucost.cli.whatif import (
    ActiveHoursPerDayOption,
    CurveOption,
    DaysOption,
    GpusOption,
    HoursOption,
    NodesOption,
    OnDemandPriceOption,
    PricePerOption,
    Run,
    decimal_number,
    is_calculator,
    list_prices,
    number_option,
    options_of,
    whatif_command,
)
from gpucost.errors import GpucostError, UsageError
from gpucost.whatif.fleet import PricePer, node_price, node_shape

if TYPE_CHECKING:
    from gpucost.cli.whatif import ListPrices
    from gpucost.price.listing import ListedPrice
    from gpucost.price.onprem import Tco
    from gpucost.whatif.answer import Assumption
    from gpucost.whatif.fleet import Price
    from gpucost.whatif.reserve import Existing, Family, Offers, Terms, Use

# Parts of the price that are paid on the first day; the others as the node runs.
_UPFRONT_PARTS = ("depreciation", "network")
_DEFAULT_GPUS = "8"


def _with_own_node(function: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of `gpucost prices tco` as its last, which it takes as **own_node."""
    signature = inspect.signature(function, eval_str=True)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    function.__signature__ = signature.replace(parameters=[*own, *OWN_NODE.values()])  # type: ignore[attr-defined]
    return function


@whatif_command()
@_with_own_node
def whatif_buy(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="TOML file of an own node, as gpucost prices tco takes it.")
    ] = None,
    nodes: NodesOption = None,
    hours: HoursOption = None,
    active_hours_per_day: ActiveHoursPerDayOption = None,
    days: DaysOption = None,
    curve: CurveOption = None,
    on_demand_price: OnDemandPriceOption = None,
    price_per: PricePerOption = PricePer.node,
    instance_type: Annotated[
        str | None, typer.Option("--instance-type", metavar="TYPE", help="Cloud instance, for its list price.")
    ] = None,
    region: Annotated[str | None, typer.Option("--region", metavar="NAME", help="Where that list price holds.")] = None,
    own_nodes: Annotated[
        int | None, typer.Option("--own-nodes", min=0, metavar="COUNT", help="Buy so many; else what costs least.")
    ] = None,
    lead_months: Annotated[float, number_option("--lead-months", "Months from buying to running.")] = 0.0,
    *,
    run: Run,
    **own_node: str | None,
) -> None:
    """Say whether own nodes beside the cloud pay, how many, and from which month on.

    An own node is what gpucost prices tco takes: a file, options or both; with 8 GPUs where neither says. The cloud is the
    store's usage of the same GPU model at what it cost, or described by options: --nodes or --curve, at --on-demand-price or the
    list price of --instance-type in --region. Own nodes take the base load and are paid in all hours; the cloud takes the peaks.

    \b
    Examples:
      gpucost whatif buy onprem.toml --month 2026-10
      gpucost whatif buy onprem.toml --nodes 4 --on-demand-price 55.04
      gpucost whatif buy onprem.toml --curve nodes.csv --instance-type p5.48xlarge --region us-east-1 --lead-months 4
      gpucost whatif buy --purchase-price 280000 --gpu-model H100 --years 4 --price-per-kwh 0.12 --nodes 8 --on-demand-price 55
    """
    from gpucost.whatif.answer import Assumption
    from gpucost.whatif.buy import Own, answer, cloud_usage
    from gpucost.whatif.curve import described_curve
    from gpucost.whatif.fleet import Price

    settings = run.settings
    describing = options_of(
        curve=curve, nodes=nodes, hours=hours, active_hours_per_day=active_hours_per_day, days=days,
        on_demand_price=on_demand_price, instance_type=instance_type, region=region,
    )  # fmt: skip
    is_described = is_calculator(describing, run.asked.given())
    costs = _tco(settings.currency, file, own_node)
    inputs, gpus = costs.inputs, float(costs.inputs.gpus_per_node)
    own = Own(
        price=costs.price_per_hour,
        running_price=sum((part.price_per_hour for part in costs.parts if part.name not in _UPFRONT_PARTS), Decimal(0)),
        capex=inputs.purchase_price + (inputs.network_per_node or 0),
        residual=inputs.purchase_price * (inputs.residual_percent or 0) / 100,
        years=float(inputs.years),
        gpus=gpus,
        source=f"tco of {file.name}" if file else "tco of options",
    )
    if is_described:
        shape, period_name = described_curve(curve, nodes, hours, active_hours_per_day, days)
        if on_demand_price is not None:
            cloud = Price(node_price(on_demand_price, price_per, gpus), "option")
        elif instance_type is not None:
            with list_prices(settings) as prices:
                listed = _listed_type(prices, instance_type, region or "")
            if listed.on_demand is None or not listed.gpus:
                raise UsageError(f"no list price on demand of {instance_type} is known", "--on-demand-price gives it")
            per_gpu = listed.on_demand.per_node_hour / Decimal(repr(listed.gpus))
            cloud = replace(listed.on_demand, per_node_hour=per_gpu * Decimal(repr(gpus)))
        else:
            raise UsageError(
                "the cloud's price is missing", "--on-demand-price, or --instance-type and --region for the list price"
            )
        use = Assumption("usage", period_name, "nodes by hour", "option")
    else:
        usage = run.usage()
        model, period_name = inputs.gpu_model, usage.period_name
        if model is None:
            raise UsageError("--gpu-model is missing: which nodes of the store could be own ones", "or describe them: --nodes")
        shape, cloud = run.evaluate(cloud_usage(usage.fleet, usage.period, model, gpus, is_narrowed=usage.is_narrowed))
        use = Assumption("usage", usage.scope_name, f"{model} nodes by hour", "store", period_name)
    assumptions = (use, *(Assumption(p.name, p.price_per_hour, "money per node-hour", p.basis) for p in costs.parts))
    result = answer(
        own, cloud, shape, currency=settings.currency, period=period_name, own_nodes=own_nodes, lead_months=lead_months,
        assumptions=assumptions,
    )  # fmt: skip
    run.write(run.evaluate(result))
    if inputs.not_given:
        note(f"not given, and counted as nothing (pue as 1): {', '.join(inputs.not_given)}", quiet=run.quiet)


def _tco(currency: str, file: Path | None, own_node: Mapping[str, str | None]) -> Tco:
    """What an own node costs, part by part. Raises ConfigError naming what is missing or cannot be used."""
    from gpucost.price.onprem import rated_power, read_file, read_inputs, tco
    from gpucost.store.connection import scratch_store

    options = {key: value for key, value in own_node.items() if value is not None}
    values = {"gpus_per_node": _DEFAULT_GPUS, **(read_file(file) if file else {})}
    inputs = read_inputs(values, options, file, currency)
    if inputs.currency != currency:
        raise UsageError(
            f"the own node's costs are in {inputs.currency}, the cloud's in {currency}",
            f"give both in {currency}, or set currency in gpucost.toml",
        )
    if inputs.gpu_model is None:
        return tco(inputs, None)
    with scratch_store() as con:
        model, rated = rated_power(con, inputs.gpu_model, needed=inputs.gpu_watts is None)
    return tco(replace(inputs, gpu_model=model), rated)


_PURCHASE_OPTIONS = ("on_demand", "reserved", "savings_plan", "cud")


class GivenOffers(NamedTuple):
    """What --commitment-price and --commitment-discount say, prices in --price-per."""

    prices: dict[Terms, Decimal]
    discounts: dict[Terms, Decimal]
    per: PricePer

    def over(self, use: Use) -> Use:
        """The same with these commitments to choose from; those listed where none is given."""
        from gpucost.whatif.fleet import Price

        on_demand = use.on_demand.per_node_hour
        offers = {
            terms: Price(on_demand * (100 - percent) / 100, f"option: {percent} % off on demand")
            for terms, percent in self.discounts.items()
        }
        offers |= {terms: Price(node_price(price, self.per, use.gpus), "option") for terms, price in self.prices.items()}
        return replace(use, offers=offers or use.offers)


def _given_terms(option: str, texts: Sequence[str] | None, highest: int | None = None) -> dict[Terms, Decimal]:
    """What `TERMS=NUMBER`s say. Raises UsageError."""
    from gpucost.whatif.reserve import parse_terms

    number, numbers = decimal_number(above=True, highest=highest), {}
    for text in texts or ():
        terms, equals, value = text.partition("=")
        if not equals:
            raise UsageError(
                f"{option} {text}: what stands after TERMS= is missing", f"{option} 1=20.10, or savings_plan:3:all_upfront=…"
            )
        try:
            numbers[parse_terms(terms, option)] = number(value)
        except typer.BadParameter as error:
            raise UsageError(f"{option} {text}: {error.message}") from None
    return numbers


class _Listed(NamedTuple):
    """List prices of an instance type in one place."""

    provider: str
    gpus: float | None
    on_demand: Price | None
    offers: Offers


_UNLISTED = _Listed("", None, None, {})


def _listed_type(listed: ListPrices, instance_type: str, region: str) -> _Listed:
    """Of the one place that has them. Raises UsageError where several do, GpucostError where nothing is called so."""
    rows = listed.all(instance_type, purchase_options=_PURCHASE_OPTIONS, regions=(region,) if region else ())
    places = sorted({(row.provider, row.region or "") for row in rows})
    if len(places) > 1:
        raise UsageError(
            f"{instance_type} has list prices in {len(places)} regions",
            f"--region names one, such as {min(region for _, region in places if region)}",
        )
    return _listed_at(listed, instance_type, *places[0]) if places else _UNLISTED


def _listed_at(listed: ListPrices, instance_type: str, provider: str, region: str) -> _Listed:
    from gpucost.cli.whatif import price_of_region, source_of
    from gpucost.whatif.fleet import Price
    from gpucost.whatif.reserve import Terms

    rows = listed.some(instance_type, purchase_options=_PURCHASE_OPTIONS, provider=provider, region=region)
    by_terms: dict[Terms, list[ListedPrice]] = {}
    for row in rows:
        terms = Terms(row.purchase_option, row.term_years or 0, row.payment_option or "", row.offering or "")
        by_terms.setdefault(terms, []).append(row)
    regional = {terms: price_of_region(several) for terms, several in by_terms.items()}
    prices = {terms: Price(row.price_per_hour, *source_of(row)) for terms, row in regional.items()}
    return _Listed(
        provider,
        next((float(row.gpu_count) for row in rows if row.gpu_count), None),
        next((price for terms, price in prices.items() if terms.kind == "on_demand"), None),
        {terms: price for terms, price in prices.items() if terms.years},
    )


def stored_families(
    run: Run, types: Sequence[str] = (), regions: Sequence[str] = (), given: GivenOffers | None = None
) -> tuple[tuple[Family, ...], Existing, str, tuple[Assumption, ...]]:
    """What the store's usage asks of commitments: families with their offers, commitments there are, the period, assumptions."""
    from gpucost.whatif.answer import Assumption
    from gpucost.whatif.reserve import families_of, read_commitments

    usage = run.usage()
    with run.store.read() as con:
        existing = read_commitments(con, usage.period.start_ms, usage.period.end_ms)
    names, places = {name.lower() for name in types}, {name.lower() for name in regions}
    fleet = usage.fleet.with_nodes(
        lambda node: (
            node
            if (not names or (node.instance_type or "").lower() in names)
            and (not places or (node.region or "").lower() in places)
            else None
        )
    )
    with list_prices(run.settings) as listed:

        def offers_of(provider: str, region: str, instance_type: str) -> tuple[Price | None, Offers]:
            return _listed_at(listed, instance_type, provider, region)[2:]

        families = families_of(fleet, usage.period, existing, offers_of, is_narrowed=usage.is_narrowed)
    if not families:
        seen = sorted({node.instance_type or "?" for node in usage.fleet.nodes if node.capacity_type != "spot"})
        raise GpucostError(
            f"{usage.scope_name} used no priced node on demand in {usage.period_name}"
            + (" that --instance-type and --region name" if names or places else ""),
            f"on demand were {', '.join(seen)}" if seen else "spot nodes are not committed to; whatif spot compares them",
        )
    kinds = [f"{use.instance_type} ({family.region})" for family in families for use in family.uses]
    if given and given.prices and len(kinds) > 1:
        raise UsageError(
            f"--commitment-price is the price of one instance type, and there are {', '.join(kinds)}",
            "add --instance-type and --region, or give --commitment-discount, which holds for all",
        )
    hours = round(families[0].uses[0].curve.hours, 3)
    assumptions = (
        Assumption("usage", usage.scope_name, "on-demand nodes by hour", "store", usage.period_name),
        Assumption("hours of the period", hours, "h; not collected ones count as unused", "store"),
    )
    if given:
        families = tuple(replace(family, uses=tuple(map(given.over, family.uses))) for family in families)
    return families, existing, usage.period_name, assumptions


@whatif_command()
def whatif_reserve(
    curve: CurveOption = None,
    nodes: NodesOption = None,
    gpus: GpusOption = None,
    hours: HoursOption = None,
    active_hours_per_day: ActiveHoursPerDayOption = None,
    days: DaysOption = None,
    on_demand_price: OnDemandPriceOption = None,
    price_per: PricePerOption = PricePer.node,
    commitment_price: Annotated[
        list[str] | None,
        typer.Option(
            "--commitment-price",
            metavar="TERMS=MONEY",
            help="Per hour in --price-per, upfront amortized. TERMS is [KIND:]YEARS[:PAYMENT]; repeatable.",
        ),
    ] = None,
    commitment_discount: Annotated[
        list[str] | None,
        typer.Option(
            "--commitment-discount",
            metavar="TERMS=PERCENT",
            help="The same as percent off the price on demand; for all families of the store. Repeatable.",
        ),
    ] = None,
    instance_type: Annotated[
        list[str] | None,
        typer.Option(
            "--instance-type", metavar="TYPE", help="Only this type; of options, the one that list prices are taken of."
        ),
    ] = None,
    region: Annotated[
        list[str] | None, typer.Option("--region", metavar="NAME", help="Only this region; of options, where prices hold.")
    ] = None,
    term_years: Annotated[
        list[int] | None, typer.Option("--term-years", min=1, max=3, metavar="YEARS", help="Only 1 or 3 years. Default: both.")
    ] = None,
    payment_option: Annotated[
        list[str] | None,
        typer.Option("--payment-option", metavar="NAME", help="Only no_upfront, partial_upfront, all_upfront or monthly."),
    ] = None,
    *,
    run: Run,
) -> None:
    """Say which commitment costs least: how many instances, for how long, paid how.

    From the hourly curve of instances in use on demand: the store's, by instance family and region, or one described by options.
    Prices of reserved instances, savings plans and CUDs are list prices (gpucost prices), or given here. Commitments that the
    bill knows are counted first. TERMS is [KIND:]YEARS[:PAYMENT]: kind reserved (default), savings_plan or cud; years 1 or 3;
    payment no_upfront (default), partial_upfront, all_upfront or monthly.

    \b
    Examples:
      gpucost whatif reserve --month 2026-10 --commitment-discount 1=35 --commitment-discount 3:all_upfront=55
      gpucost whatif reserve --nodes 8 --active-hours-per-day 14 --on-demand-price 32.77 --commitment-price 1=20.10
      gpucost whatif reserve --curve nodes.csv --on-demand-price 4 --price-per gpu --commitment-price 3:all_upfront=1.9
      gpucost whatif reserve --nodes 4 --instance-type a2-highgpu-8g --region us-central1
    """
    from gpucost.whatif.reserve import PAYMENTS, Existing, answer

    prices = _given_terms("--commitment-price", commitment_price)
    given = GivenOffers(prices, _given_terms("--commitment-discount", commitment_discount, highest=99), price_per)
    if 2 in (term_years or ()):
        raise UsageError("nobody sells commitments of 2 years", "--term-years is 1 or 3")
    for word in payment_option or ():
        if word not in PAYMENTS:
            raise UsageError(f"--payment-option {word} is not known", f"there are {', '.join(PAYMENTS)}")
    describing = options_of(
        curve=curve, nodes=nodes, gpus=gpus, hours=hours, active_hours_per_day=active_hours_per_day, days=days,
        on_demand_price=on_demand_price,
    )  # fmt: skip
    if is_calculator(describing, run.asked.given()):
        from gpucost.whatif.answer import Assumption
        from gpucost.whatif.curve import described_curve
        from gpucost.whatif.fleet import Price
        from gpucost.whatif.reserve import Family, Use, family_name

        if max(len(instance_type or ()), len(region or ())) > 1:
            raise UsageError("options describe nodes of one kind in one place", "give --instance-type and --region once")
        kind, place = (instance_type or [""])[0], (region or [""])[0]
        shape, period_name = described_curve(curve, nodes, hours, active_hours_per_day, days)
        listed = _UNLISTED
        if kind:
            with list_prices(run.settings) as catalog:
                listed = _listed_type(catalog, kind, place)
        per_node = float(gpus or listed.gpus or node_shape(nodes, gpus)[1])
        on_demand = listed.on_demand
        if on_demand_price is not None:
            on_demand = Price(node_price(on_demand_price, price_per, per_node), "option")
        if on_demand is None:
            raise UsageError(
                "the price on demand is missing", "--on-demand-price, or --instance-type and --region of list prices"
            )
        use = given.over(Use(kind or "node", per_node, on_demand, shape, listed.offers))
        families: tuple[Family, ...] = (Family(listed.provider, place, family_name(kind) if kind else "nodes", (use,)),)
        existing = Existing(is_bill_loaded=False)
        assumptions: tuple[Assumption, ...] = (Assumption("usage", period_name, "nodes by hour", "option"),)
    else:
        families, existing, period_name, assumptions = stored_families(run, instance_type or (), region or (), given)
    result = answer(
        families, existing, currency=run.settings.currency, period=period_name, assumptions=assumptions,
        years=term_years or (), payments=payment_option or (),
    )  # fmt: skip
    run.write(run.evaluate(result))
