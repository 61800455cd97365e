"""`gpucost whatif reserve`: the commitment that costs least."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors, output_file
from gpucost.cli._periods import FromOption, LastOption, MonthOption, ToOption
from gpucost.cli._whatif import AnswerFormat, write_answer
from gpucost.cli._whatif_commitments import found_type, given_price, given_terms, listed_type, offers_to_choose
from gpucost.cli._whatif_curve import CurveOption, described_curve
from gpucost.cli._whatif_options import (
    ActiveHoursPerDayOption,
    ClusterOption,
    DaysOption,
    GpusOption,
    HoursOption,
    NamespaceOption,
    NodesOption,
    OnDemandPriceOption,
    OutputOption,
    PricePer,
    PricePerOption,
    SaveOption,
    StoreOptions,
    TeamOption,
    WorkloadOption,
    cost_of,
    is_calculator,
    node_shape,
    saved_answer,
    stored_usage,
)
from gpucost.errors import GpucostError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpucost.config import Config
    from gpucost.whatif.answer import Assumption
    from gpucost.whatif.reserve import Existing, Family, Offer, Terms


@handle_errors
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
    team: TeamOption = None,
    namespace: NamespaceOption = None,
    workload: WorkloadOption = None,
    cluster: ClusterOption = None,
    month: MonthOption = None,
    start: FromOption = None,
    end: ToOption = None,
    last: LastOption = None,
    format: Annotated[AnswerFormat, typer.Option("--format", help="How to write it.")] = AnswerFormat.table,
    output: OutputOption = None,
    save: SaveOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
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
    from gpucost.config import load_config
    from gpucost.whatif.reserve import answer

    prices = given_terms("--commitment-price", commitment_price)
    discounts = given_terms("--commitment-discount", commitment_discount, highest=99)
    _check(term_years, payment_option)
    settings = load_config(config, store=store)
    target = output_file(output)
    asked = StoreOptions(team, namespace, workload, cluster, month, start, end, last)
    described = {
        "--curve": curve, "--nodes": nodes, "--gpus": gpus, "--hours": hours, "--active-hours-per-day": active_hours_per_day,
        "--days": days, "--on-demand-price": on_demand_price,
    }  # fmt: skip
    if is_calculator(described, asked.given()):
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
            settings, asked, instance_type or (), region or (), prices, discounts, price_per, quiet=quiet
        )
    write_answer(
        answer(
            families,
            existing,
            cost_of(settings),
            currency=settings.currency,
            period=period_name,
            years=term_years or (),
            payments=payment_option or (),
            assumptions=assumptions,
        ),
        format,
        target,
        saved_answer(settings, save),
    )


def stored_families(
    settings: Config,
    asked: StoreOptions,
    types: Sequence[str],
    regions: Sequence[str],
    prices: dict[Terms, Decimal],
    discounts: dict[Terms, Decimal],
    price_per: PricePer,
    *,
    quiet: bool,
) -> tuple[tuple[Family, ...], Existing, str, tuple[Assumption, ...]]:
    """What the store's usage asks of commitments: families with their offers, commitments there are, the period, assumptions."""
    from dataclasses import replace

    from gpucost.cli._whatif_offers import list_prices
    from gpucost.store import Store
    from gpucost.whatif.answer import Assumption
    from gpucost.whatif.fleet import Node
    from gpucost.whatif.reserve import Offer, Terms, families_of, read_commitments

    usage = stored_usage(settings, asked, quiet=quiet)
    with Store(settings.store).read() as con:
        existing = read_commitments(con, usage.period.start_ms, usage.period.end_ms)
    names, places = {name.lower() for name in types}, {name.lower() for name in regions}

    def wanted(node: Node) -> bool:
        is_type = not names or (node.instance_type or "").lower() in names
        return is_type and (not places or (node.region or "").lower() in places)

    none = Offer(Terms("on_demand", 0, ""), Decimal(0), "none")
    with list_prices(settings) as listed:

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
