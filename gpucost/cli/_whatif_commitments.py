"""What `gpucost whatif reserve` chooses from: commitments at given or list prices, over what the store's usage asks of them."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import typer

from gpucost.cli._whatif_options import decimal_number
from gpucost.errors import GpucostError, UsageError
from gpucost.whatif.described import PricePer, node_price

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpucost.cli._whatif_offers import ListPrices
    from gpucost.cli._whatif_run import Run
    from gpucost.price.listing import ListedPrice
    from gpucost.whatif.answer import Assumption
    from gpucost.whatif.reserve import Existing, Family, Offer, Terms

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
    from gpucost.cli._whatif_offers import price_of_region, source_of
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

    from gpucost.cli._whatif_offers import list_prices
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
