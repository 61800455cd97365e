"""Prices of commitments for `gpucost whatif reserve`: those given as options, else list prices."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import typer

from gpucost.cli._whatif_options import PricePer, decimal_number, node_price
from gpucost.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpucost.cli._whatif_offers import ListPrices
    from gpucost.whatif.reserve import Offer, Terms

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
    from gpucost.cli._whatif_offers import source_of
    from gpucost.whatif.reserve import Offer, Terms

    rows = listed.some(instance_type, purchase_options=_PURCHASE_OPTIONS, provider=provider, region=region)
    if not rows:
        return None
    offers: dict[Terms, Offer] = {}
    for row in rows:
        terms = Terms(row.purchase_option, row.term_years or 0, row.payment_option or "", row.offering or "")
        offers.setdefault(terms, Offer(terms, row.price_per_hour, *source_of(row)))
    on_demand = next((offer for terms, offer in offers.items() if terms.kind == "on_demand"), None)
    gpus = next((float(row.gpu_count) for row in rows if row.gpu_count), None)
    return provider, gpus, on_demand, tuple(offer for terms, offer in offers.items() if terms.years)
