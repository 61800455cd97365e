"""`gpucost whatif reserve`: the commitment that costs least."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.cli._whatif_commitments import given_price, given_terms, listed_type, offers_to_choose, stored_families
from gpucost.cli._whatif_options import (
    ActiveHoursPerDayOption,
    CurveOption,
    DaysOption,
    GpusOption,
    HoursOption,
    NodesOption,
    OnDemandPriceOption,
    PricePerOption,
    is_calculator,
)
from gpucost.cli._whatif_run import Run, whatif_command
from gpucost.errors import UsageError
from gpucost.whatif.described import PricePer, node_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpucost.whatif.answer import Assumption
    from gpucost.whatif.reserve import Family


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
            show_default=False,
        ),
    ] = None,
    commitment_discount: Annotated[
        list[str] | None,
        typer.Option(
            "--commitment-discount",
            metavar="TERMS=PERCENT",
            help="The same as percent off the price on demand; for all families of the store. Repeatable.",
            show_default=False,
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
    from gpucost.cli._whatif_offers import list_prices
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
        from gpucost.whatif.curve_file import described_curve
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
        existing, assumptions = Existing(is_bill_loaded=False), _of_options(period_name)
    else:
        families, existing, period_name, assumptions = stored_families(
            run, instance_type or (), region or (), prices, discounts, price_per
        )
    run.write(
        answer(
            families,
            existing,
            run.cost_of,
            currency=settings.currency,
            period=period_name,
            years=term_years or (),
            payments=payment_option or (),
            assumptions=assumptions,
        ),
    )


def _of_options(period_name: str) -> tuple[Assumption, ...]:
    from gpucost.whatif.answer import Assumption

    return (Assumption("usage", period_name, "nodes by hour", "option"),)


def _check(years: Sequence[int] | None, payments: Sequence[str] | None) -> None:
    from gpucost.whatif.reserve.offers import PAYMENTS

    if 2 in (years or ()):
        raise UsageError("nobody sells commitments of 2 years", "--term-years is 1 or 3")
    for word in payments or ():
        if word not in PAYMENTS:
            raise UsageError(f"--payment-option {word} is not known", f"there are {', '.join(PAYMENTS)}")
