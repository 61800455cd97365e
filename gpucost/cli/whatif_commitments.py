"""`gpucost whatif buy`: own nodes beside the cloud."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucost.cli.output import note
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
    number_option,
    whatif_command,
)
from gpucost.errors import GpucostError, UsageError
from gpucost.whatif.fleet import PricePer, node_price, node_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpucost.cli.whatif import ListPrices
    from gpucost.config.model import Config
    from gpucost.price.listing import ListedPrice
    from gpucost.price.onprem import Tco
    from gpucost.whatif.answer import Assumption
    from gpucost.whatif.buy import Own
    from gpucost.whatif.fleet import Price
    from gpucost.whatif.reserve import Existing, Family, Offer, Terms

# Parts of the price that are paid on the first day; the others as the node runs.
_UPFRONT_PARTS = ("depreciation", "network")
_DEFAULT_GPUS = "8"


def _number(name: str, help: str) -> Any:
    return typer.Option(name, metavar="NUMBER", help=help)


@whatif_command()
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
    purchase_price: Annotated[str | None, _number("--purchase-price", "Of one own node, GPUs included.")] = None,
    gpus_per_node: Annotated[str | None, _number("--gpus-per-node", "GPUs in an own node. Default: 8.")] = None,
    gpu_model: Annotated[str | None, typer.Option("--gpu-model", metavar="NAME", help="GPU model in any spelling.")] = None,
    years: Annotated[str | None, _number("--years", "Over which an own node is written off.")] = None,
    residual_percent: Annotated[str | None, _number("--residual-percent", "Of the purchase price, got back at the end.")] = None,
    gpu_watts: Annotated[str | None, _number("--gpu-watts", "Power of one GPU; else the model's rated power.")] = None,
    other_watts: Annotated[str | None, _number("--other-watts", "Power of the node without its GPUs.")] = None,
    pue: Annotated[str | None, _number("--pue", "Power of the site over power of its machines: 1 or more.")] = None,
    price_per_kwh: Annotated[str | None, _number("--price-per-kwh", "Price of electricity.")] = None,
    colocation_per_kw_month: Annotated[str | None, _number("--colocation-per-kw-month", "Space, per rated kW and month.")] = None,
    staff_per_year: Annotated[str | None, _number("--staff-per-year", "Cost of the people who run the nodes.")] = None,
    staff_nodes: Annotated[str | None, _number("--staff-nodes", "How many nodes they run.")] = None,
    network_per_node: Annotated[str | None, _number("--network-per-node", "Network of one node, once.")] = None,
    maintenance_percent_per_year: Annotated[
        str | None, _number("--maintenance-percent-per-year", "Of the purchase price: support and spare parts.")
    ] = None,
    *,
    run: Run,
) -> None:
    """Say whether own nodes beside the cloud pay, how many, and from which month on.

    An own node is what gpucost prices tco takes: a file, options or both. The cloud is the store's usage of the same GPU model
    at what it cost, or described by options: --nodes or --curve, at --on-demand-price or the list price of --instance-type in
    --region. Own nodes take the base load and are paid in all hours; the cloud takes the peaks.

    \b
    Examples:
      gpucost whatif buy onprem.toml --month 2026-10
      gpucost whatif buy onprem.toml --nodes 4 --on-demand-price 55.04
      gpucost whatif buy onprem.toml --curve nodes.csv --instance-type p5.48xlarge --region us-east-1 --lead-months 4
      gpucost whatif buy --purchase-price 280000 --gpu-model H100 --years 4 --price-per-kwh 0.12 --nodes 8 --on-demand-price 55
    """
    from gpucost.whatif.answer import Assumption
    from gpucost.whatif.buy import answer, cloud_usage
    from gpucost.whatif.curve import described_curve

    keys = {
        "purchase_price": purchase_price, "gpus_per_node": gpus_per_node, "gpu_model": gpu_model, "years": years,
        "residual_percent": residual_percent, "gpu_watts": gpu_watts, "other_watts": other_watts, "pue": pue,
        "price_per_kwh": price_per_kwh, "colocation_per_kw_month": colocation_per_kw_month, "staff_per_year": staff_per_year,
        "staff_nodes": staff_nodes, "network_per_node": network_per_node,
        "maintenance_percent_per_year": maintenance_percent_per_year,
    }  # fmt: skip
    settings = run.settings
    described = {
        "--curve": curve, "--nodes": nodes, "--hours": hours, "--active-hours-per-day": active_hours_per_day, "--days": days,
        "--on-demand-price": on_demand_price, "--instance-type": instance_type, "--region": region,
    }  # fmt: skip
    from_options = is_calculator(described, run.asked.given())
    costs = _tco(settings, file, {key: value for key, value in keys.items() if value is not None})
    own = _own(costs, file)
    if from_options:
        shape, period_name = described_curve(curve, nodes, hours, active_hours_per_day, days)
        cloud = _cloud(settings, own, on_demand_price, price_per, instance_type, region)
        use = Assumption("usage", period_name, "nodes by hour", "option")
    else:
        usage = run.usage()
        model = costs.inputs.gpu_model
        if model is None:
            raise UsageError("--gpu-model is missing: which nodes of the store could be own ones", "or describe them: --nodes")
        shape, cloud = run.evaluate(cloud_usage(usage.fleet, usage.period, model, own.gpus, is_narrowed=usage.is_narrowed))
        period_name = usage.period_name
        use = Assumption("usage", usage.scope_name, f"{model} nodes by hour", "store", period_name)
    result = answer(
        own,
        cloud,
        shape,
        currency=settings.currency,
        period=period_name,
        own_nodes=own_nodes,
        lead_months=lead_months,
        assumptions=(use, *(Assumption(p.name, p.price_per_hour, "money per node-hour", p.basis) for p in costs.parts)),
    )
    run.write(run.evaluate(result))
    if costs.inputs.not_given:
        note(f"not given, and counted as nothing (pue as 1): {', '.join(costs.inputs.not_given)}", quiet=run.quiet)


def _tco(settings: Config, file: Path | None, options: dict[str, str]) -> Tco:
    """What an own node costs, part by part. Raises ConfigError naming what is missing or cannot be used."""
    from dataclasses import replace

    from gpucost.price.onprem import rated_power, read_file, read_inputs, tco
    from gpucost.store.connection import scratch_store

    read = read_file(file) if file else {}
    if "gpus_per_node" not in read:
        options.setdefault("gpus_per_node", _DEFAULT_GPUS)
    inputs = read_inputs(read, options, file, settings.currency)
    if inputs.currency != settings.currency:
        raise UsageError(
            f"the own node's costs are in {inputs.currency}, the cloud's in {settings.currency}",
            f"give both in {settings.currency}, or set currency in gpucost.toml",
        )
    if inputs.gpu_model is None:
        return tco(inputs, None)
    with scratch_store() as con:
        model, rated = rated_power(con, inputs.gpu_model, needed=inputs.gpu_watts is None)
    return tco(replace(inputs, gpu_model=model), rated)


def _own(costs: Tco, file: Path | None) -> Own:
    from gpucost.whatif.buy import Own

    inputs = costs.inputs
    running = sum((part.price_per_hour for part in costs.parts if part.name not in _UPFRONT_PARTS), Decimal(0))
    return Own(
        price=costs.price_per_hour,
        running_price=running,
        capex=inputs.purchase_price + (inputs.network_per_node or 0),
        residual=inputs.purchase_price * (inputs.residual_percent or 0) / 100,
        years=float(inputs.years),
        gpus=float(inputs.gpus_per_node),
        source=f"tco of {file.name}" if file else "tco of options",
    )


def _cloud(
    settings: Config, own: Own, price: Decimal | None, per: PricePer, instance_type: str | None, region: str | None
) -> Price:
    """What the cloud asks for as many GPUs as an own node has. Raises UsageError where no price is given or named."""
    from gpucost.cli.whatif import list_prices
    from gpucost.whatif.fleet import Price

    if price is not None:
        return Price(node_price(price, per, own.gpus), "option")
    if instance_type is None:
        raise UsageError("the cloud's price is missing", "--on-demand-price, or --instance-type and --region for the list price")
    with list_prices(settings) as listed:
        _, gpus, on_demand, _ = listed_type(listed, instance_type, region or "")
    if on_demand is None or not gpus:
        raise UsageError(f"no list price on demand of {instance_type} is known", "--on-demand-price gives it")
    return Price(on_demand.price / Decimal(repr(gpus)) * Decimal(repr(own.gpus)), on_demand.source, on_demand.as_of)


_PURCHASE_OPTIONS = ("on_demand", "reserved", "savings_plan", "cud")


def given_terms(option: str, texts: Sequence[str] | None, *, highest: int | None = None) -> dict[Terms, Decimal]:
    """What `TERMS=NUMBER`s say. Raises UsageError."""
    from gpucost.whatif.reserve import parse_terms

    number, found = decimal_number(above=True, highest=highest), {}
    for text in texts or ():
        terms, equals, value = text.partition("=")
        if not equals:
            raise UsageError(
                f"{option} {text}: what stands after TERMS= is missing", f"{option} 1=20.10, or savings_plan:3:all_upfront=…"
            )
        try:
            found[parse_terms(terms, option)] = number(value)
        except typer.BadParameter as error:
            raise UsageError(f"{option} {text}: {error.message}") from None
    return found


def given_price(price: Decimal | None, per: PricePer, gpus: float) -> Offer | None:
    from gpucost.whatif.reserve import Offer, Terms

    return Offer(Terms("on_demand", 0, ""), node_price(price, per, gpus), "option") if price is not None else None


def offers_to_choose(
    on_demand: Offer,
    listed: tuple[Offer, ...],
    prices: dict[Terms, Decimal],
    discounts: dict[Terms, Decimal],
    per: PricePer,
    gpus: float,
) -> tuple[Offer, ...]:
    """Commitments to choose from: those given; list prices where none is."""
    from gpucost.whatif.reserve import Offer, committed_price

    given = [Offer(terms, node_price(price, per, gpus), "option") for terms, price in prices.items()]
    given += [
        Offer(terms, committed_price(on_demand.price, percent), f"option: {percent} % off on demand")
        for terms, percent in discounts.items()
        if terms not in prices
    ]
    return tuple(given) or listed


def listed_type(listed: ListPrices, instance_type: str, region: str) -> tuple[str, float | None, Offer | None, tuple[Offer, ...]]:
    """Provider, GPUs, price on demand and commitments of an instance type by list prices. Raises GpucostError where unknown."""
    regions = (region,) if region else ()
    rows = listed.all(instance_type, purchase_options=_PURCHASE_OPTIONS, regions=regions)
    found = {(row.provider, row.region) for row in rows}
    if len(found) > 1:
        raise UsageError(
            f"{instance_type} has list prices in {len(found)} regions",
            f"--region names one, such as {sorted(r for _, r in found if r)[0]}",
        )
    provider, place = next(iter(found), ("", ""))
    result = found_type(listed, instance_type, provider, place or "")
    return result or (provider, None, None, ())


def found_type(
    listed: ListPrices, instance_type: str, provider: str, region: str
) -> tuple[str, float | None, Offer | None, tuple[Offer, ...]] | None:
    from gpucost.cli.whatif import price_of_region, source_of
    from gpucost.whatif.reserve import Offer, Terms

    rows = listed.some(instance_type, purchase_options=_PURCHASE_OPTIONS, provider=provider, region=region)
    if not rows:
        return None
    by_terms: dict[Terms, list[ListedPrice]] = {}
    for row in rows:
        terms = Terms(row.purchase_option, row.term_years or 0, row.payment_option or "", row.offering or "")
        by_terms.setdefault(terms, []).append(row)
    offers = {
        terms: Offer(terms, price.price_per_hour, *source_of(price))
        for terms, price in ((terms, price_of_region(found)) for terms, found in by_terms.items())
    }
    on_demand = next((offer for terms, offer in offers.items() if terms.kind == "on_demand"), None)
    gpus = next((float(row.gpu_count) for row in rows if row.gpu_count), None)
    return provider, gpus, on_demand, tuple(offer for terms, offer in offers.items() if terms.years)


def stored_families(
    run: Run,
    types: Sequence[str],
    regions: Sequence[str],
    prices: dict[Terms, Decimal],
    discounts: dict[Terms, Decimal],
    price_per: PricePer,
) -> tuple[tuple[Family, ...], Existing, str, tuple[Assumption, ...]]:
    """What the store's usage asks of commitments: families with their offers, commitments there are, the period, assumptions."""
    from dataclasses import replace

    from gpucost.cli.whatif import list_prices
    from gpucost.whatif.answer import Assumption
    from gpucost.whatif.fleet import Node
    from gpucost.whatif.reserve import Offer, Terms, families_of, read_commitments

    usage = run.usage()
    with run.store.read() as con:
        existing = read_commitments(con, usage.period.start_ms, usage.period.end_ms)
    names, places = {name.lower() for name in types}, {name.lower() for name in regions}

    def wanted(node: Node) -> bool:
        is_type = not names or (node.instance_type or "").lower() in names
        return is_type and (not places or (node.region or "").lower() in places)

    none = Offer(Terms("on_demand", 0, ""), Decimal(0), "none")
    with list_prices(run.settings) as listed:

        def offers_of(provider: str, region: str, instance_type: str) -> tuple[Offer, tuple[Offer, ...]]:
            found = found_type(listed, instance_type, provider, region)
            return (found[2] or none, found[3]) if found else (none, ())

        families = families_of(usage.fleet, usage.period, existing, offers_of, is_narrowed=usage.is_narrowed, wanted=wanted)
    if not families:
        seen = sorted({node.instance_type or "?" for node in usage.fleet.nodes if node.capacity_type != "spot"})
        raise GpucostError(
            f"{usage.scope_name} used no priced node on demand in {usage.period_name}"
            + (" that --instance-type and --region name" if names or places else ""),
            f"on demand were {', '.join(seen)}" if seen else "spot nodes are not committed to; whatif spot compares them",
        )
    if prices and sum(len(family.uses) for family in families) > 1:
        kinds = ", ".join(f"{use.instance_type} ({family.region})" for family in families for use in family.uses)
        raise UsageError(
            f"--commitment-price is the price of one instance type, and there are {kinds}",
            "add --instance-type and --region, or give --commitment-discount, which holds for all",
        )
    priced = tuple(
        replace(
            family,
            uses=tuple(
                replace(use, offers=offers_to_choose(use.on_demand, use.offers, prices, discounts, price_per, use.gpus))
                for use in family.uses
            ),
        )
        for family in families
    )
    return (
        priced,
        existing,
        usage.period_name,
        (
            Assumption("usage", usage.scope_name, "on-demand nodes by hour", "store", usage.period_name),
            Assumption(
                "hours of the period", round(priced[0].uses[0].curve.hours, 3), "h; not collected ones count as unused", "store"
            ),
        ),
    )


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
    from gpucost.cli.whatif import list_prices
    from gpucost.whatif.answer import Assumption
    from gpucost.whatif.reserve import answer

    prices = given_terms("--commitment-price", commitment_price)
    discounts = given_terms("--commitment-discount", commitment_discount, highest=99)
    _check(term_years, payment_option)
    settings = run.settings
    described = {
        "--curve": curve, "--nodes": nodes, "--gpus": gpus, "--hours": hours, "--active-hours-per-day": active_hours_per_day,
        "--days": days, "--on-demand-price": on_demand_price,
    }  # fmt: skip
    if is_calculator(described, run.asked.given()):
        from gpucost.whatif.curve import described_curve
        from gpucost.whatif.reserve import Existing, Family, Use, family_name

        if max(len(instance_type or ()), len(region or ())) > 1:
            raise UsageError("options describe nodes of one kind in one place", "give --instance-type and --region once")
        kind, place = (instance_type or [""])[0], (region or [""])[0]
        shape, period_name = described_curve(curve, nodes, hours, active_hours_per_day, days)
        if kind:
            with list_prices(settings) as listed:
                provider, gpus_listed, on_demand, offers = listed_type(listed, kind, place)
        else:
            provider, gpus_listed, on_demand, offers = "", None, None, ()
        per_node = float(gpus or gpus_listed or node_shape(nodes, gpus)[1])
        on_demand = given_price(on_demand_price, price_per, per_node) or on_demand
        if on_demand is None:
            raise UsageError(
                "the price on demand is missing", "--on-demand-price, or --instance-type and --region of list prices"
            )
        use = Use(
            kind or "node",
            per_node,
            on_demand,
            shape,
            offers_to_choose(on_demand, offers, prices, discounts, price_per, per_node),
        )
        families: tuple[Family, ...] = (Family(provider, place, family_name(kind) if kind else "nodes", (use,)),)
        existing = Existing(is_bill_loaded=False)
        assumptions: tuple[Assumption, ...] = (Assumption("usage", period_name, "nodes by hour", "option"),)
    else:
        families, existing, period_name, assumptions = stored_families(
            run, instance_type or (), region or (), prices, discounts, price_per
        )
    run.write(
        run.evaluate(
            answer(
                families, existing, currency=settings.currency, period=period_name, assumptions=assumptions,
                years=term_years or (), payments=payment_option or (),
            )
        )
    )  # fmt: skip


def _check(years: Sequence[int] | None, payments: Sequence[str] | None) -> None:
    from gpucost.whatif.reserve import PAYMENTS

    if 2 in (years or ()):
        raise UsageError("nobody sells commitments of 2 years", "--term-years is 1 or 3")
    for word in payments or ():
        if word not in PAYMENTS:
            raise UsageError(f"--payment-option {word} is not known", f"there are {', '.join(PAYMENTS)}")
