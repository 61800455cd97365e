"""`gpucost whatif buy`: own nodes beside the cloud."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucost.cli._common import note
from gpucost.cli._whatif_options import (
    ActiveHoursPerDayOption,
    CurveOption,
    DaysOption,
    HoursOption,
    NodesOption,
    OnDemandPriceOption,
    PricePerOption,
    is_calculator,
    number_option,
)
from gpucost.cli._whatif_run import Run, whatif_command
from gpucost.errors import UsageError
from gpucost.whatif.described import PricePer, node_price

if TYPE_CHECKING:
    from decimal import Decimal

    from gpucost.config import Config
    from gpucost.price.onprem import Tco
    from gpucost.whatif.buy import Cloud, Own

# Parts of the price that are paid on the first day; the others as the node runs.
_UPFRONT_PARTS = ("depreciation", "network")
_DEFAULT_GPUS = "8"


def _number(name: str, help: str) -> Any:
    return typer.Option(name, metavar="NUMBER", help=help, show_default=False)


@whatif_command()
def whatif_buy(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="TOML file of an own node, as gpucost prices tco takes it.", show_default=False),
    ] = None,
    nodes: NodesOption = None,
    hours: HoursOption = None,
    active_hours_per_day: ActiveHoursPerDayOption = None,
    days: DaysOption = None,
    curve: CurveOption = None,
    on_demand_price: OnDemandPriceOption = None,
    price_per: PricePerOption = PricePer.node,
    instance_type: Annotated[
        str | None,
        typer.Option("--instance-type", metavar="TYPE", help="Cloud instance, for its list price.", show_default=False),
    ] = None,
    region: Annotated[
        str | None, typer.Option("--region", metavar="NAME", help="Where that list price holds.", show_default=False)
    ] = None,
    own_nodes: Annotated[
        int | None,
        typer.Option("--own-nodes", min=0, metavar="COUNT", help="Buy so many; else what costs least.", show_default=False),
    ] = None,
    lead_months: Annotated[float, number_option("--lead-months", "Months from buying to running.")] = 0.0,
    purchase_price: Annotated[str | None, _number("--purchase-price", "Of one own node, GPUs included.")] = None,
    gpus_per_node: Annotated[str | None, _number("--gpus-per-node", "GPUs in an own node. Default: 8.")] = None,
    gpu_model: Annotated[
        str | None, typer.Option("--gpu-model", metavar="NAME", help="GPU model in any spelling.", show_default=False)
    ] = None,
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
    from gpucost.whatif.curve_file import described_curve

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
        shape, cloud = cloud_usage(usage.fleet, usage.period, model, own.gpus, run.cost_of, is_narrowed=usage.is_narrowed)
        period_name = usage.period_name
        use = Assumption("usage", usage.scope_name, f"{model} nodes by hour", "store", period_name)
    result = answer(
        own,
        cloud,
        shape,
        run.cost_of,
        currency=settings.currency,
        period=period_name,
        own_nodes=own_nodes,
        lead_months=lead_months,
        assumptions=(use, *(Assumption(p.name, p.price_per_hour, "money per node-hour", p.basis) for p in costs.parts)),
    )
    run.write(result)
    if costs.inputs.not_given:
        note(f"not given, and counted as nothing (pue as 1): {', '.join(costs.inputs.not_given)}", quiet=run.quiet)


def _tco(settings: Config, file: Path | None, options: dict[str, str]) -> Tco:
    """What an own node costs, part by part. Raises ConfigError naming what is missing or cannot be used."""
    from dataclasses import replace

    from gpucost.price.onprem import read_file, read_inputs, tco
    from gpucost.price.onprem.gpus import rated_power
    from gpucost.store.scratch import scratch_store

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
    from decimal import Decimal

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
) -> Cloud:
    """What the cloud asks for as many GPUs as an own node has. Raises UsageError where no price is given or named."""
    from decimal import Decimal

    from gpucost.cli._whatif_commitments import listed_type
    from gpucost.cli._whatif_offers import list_prices
    from gpucost.whatif.buy import Cloud

    if price is not None:
        return Cloud(node_price(price, per, own.gpus), "option")
    if instance_type is None:
        raise UsageError("the cloud's price is missing", "--on-demand-price, or --instance-type and --region for the list price")
    with list_prices(settings) as listed:
        _, gpus, on_demand, _ = listed_type(listed, instance_type, region or "")
    if on_demand is None or not gpus:
        raise UsageError(f"no list price on demand of {instance_type} is known", "--on-demand-price gives it")
    return Cloud(on_demand.price / Decimal(repr(gpus)) * Decimal(repr(own.gpus)), on_demand.source, on_demand.as_of)
