"""`gpucost whatif buy` and `gpucost whatif reserve`: own nodes beside the cloud, and commitments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from gpucost.catalog import load_catalog
from gpucost.errors import GpucostError, UsageError
from gpucost.options import argument
from gpucost.periods import MS_PER_DAY
from gpucost.price.discounts import left_of, load_discounts
from gpucost.questions.prices.tco import OwnNode, own_node
from gpucost.questions.whatif.prices import list_prices, price, price_of_region, source_of
from gpucost.questions.whatif.request import WhatIfRequest
from gpucost.render.view import Document
from gpucost.whatif import buy, reserve
from gpucost.whatif.answer import Assumption, total
from gpucost.whatif.buy import DescribedCloud, Own, Purchase
from gpucost.whatif.cost import kept
from gpucost.whatif.curve import described_curve
from gpucost.whatif.flags import GPUS_PER_NODE, PricePer, node_price, to_decimal
from gpucost.whatif.fleet import Price
from gpucost.whatif.reserve import (
    ANYTHING,
    Considered,
    DescribedUse,
    Existing,
    Family,
    Offers,
    ReservedUse,
    Terms,
    family_name,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.periods import Period
    from gpucost.price.listing import ListedPrice
    from gpucost.store.connection import Store
    from gpucost.whatif.fleet import Usage

# Parts of the price that are paid on the first day; the others as the node runs.
_UPFRONT_PARTS = ("depreciation", "network")


def whatif_buy(
    request: WhatIfRequest,
    node: OwnNode,
    described: DescribedCloud,
    purchase: Purchase,
    file: Annotated[
        Path | None, argument("FILE", "TOML file of an own node, as gpucost prices tco takes it.")
    ] = None,
) -> Document:
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
    settings, is_described = request.settings, request.is_described(described)
    costs = own_node(file, node.values, settings.currency, gpus_per_node=str(GPUS_PER_NODE))
    inputs, gpus = costs.inputs, float(costs.inputs.gpus_per_node)
    if inputs.currency != settings.currency:
        raise UsageError(
            f"the own node's costs are in {inputs.currency}, the cloud's in {settings.currency}",
            f"give both in {settings.currency}, or set currency in gpucost.toml",
        )
    own = Own(
        price=costs.price_per_hour,
        running_price=total(part.price_per_hour for part in costs.parts if part.name not in _UPFRONT_PARTS),
        capex=inputs.purchase_price + (inputs.network_per_node or 0),
        residual=inputs.purchase_price * (inputs.residual_percent or 0) / 100,
        years=float(inputs.years),
        gpus=gpus,
        source=f"tco of {file.name}" if file else "tco of options",
    )
    if is_described:
        (shape, period_name), cloud = described_curve(described), _described_price(request, described, gpus)
        use = Assumption("usage", period_name, "nodes by hour", "option")
    else:
        usage = request.usage()
        model, period_name = inputs.gpu_model, usage.period_name
        if model is None:
            raise UsageError(
                "--gpu-model is missing: which nodes of the store could be own ones",
                "or describe them: --nodes",
            )
        shape, cloud = buy.cloud_usage(
            usage.fleet, request.period, model, gpus, is_narrowed=usage.is_narrowed
        )
        use = Assumption("usage", usage.scope_name, f"{model} nodes by hour", "store", period_name)
    assumptions = (
        use,
        *(Assumption(p.name, p.price_per_hour, "money per node-hour", p.basis) for p in costs.parts),
    )
    result = buy.answer(
        own,
        cloud,
        shape,
        currency=settings.currency,
        period=period_name,
        purchase=purchase,
        assumptions=assumptions,
    )
    answer = request.finish(result)
    if not inputs.not_given:
        return answer
    note = f"not given, and counted as nothing (pue as 1): {', '.join(inputs.not_given)}"
    return replace(answer, notes=(note,))


def _described_price(request: WhatIfRequest, described: DescribedCloud, gpus: float) -> Price:
    """What the cloud asks for as many GPUs as an own node has: given, else listed. Raises UsageError where it is not known."""
    if described.on_demand_price is not None:
        return Price(node_price(described.on_demand_price, described.price_per, gpus), "option")
    if described.instance_type is None:
        raise UsageError(
            "the cloud's price is missing",
            "--on-demand-price, or --instance-type and --region for the list price",
        )
    listed = listed_type(request, described.instance_type, described.region)
    if listed.on_demand is None or not listed.gpus:
        raise UsageError(
            f"no list price on demand of {described.instance_type} is known", "--on-demand-price gives it"
        )
    per_gpu = listed.on_demand.per_node_hour / to_decimal(listed.gpus)
    return replace(listed.on_demand, per_node_hour=per_gpu * to_decimal(gpus))


_PURCHASE_OPTIONS = ("on_demand", "reserved", "savings_plan", "cud")


class GivenOffers(NamedTuple):
    """What --commitment-price and --commitment-discount say, prices in --price-per."""

    prices: dict[Terms, Decimal]
    discounts: dict[Terms, Decimal]
    per: PricePer

    def of(self, gpus: float, on_demand: Price) -> Offers:
        """Of nodes with so many GPUs, at that price on demand."""
        offers = {
            terms: Price(
                on_demand.per_node_hour * (100 - percent) / 100, f"option: {percent} % off on demand"
            )
            for terms, percent in self.discounts.items()
        }
        return offers | {
            terms: Price(node_price(price, self.per, gpus), "option") for terms, price in self.prices.items()
        }

    def over(self, use: ReservedUse) -> ReservedUse:
        """The same with these commitments to choose from; those listed where none is given."""
        return replace(use, offers=self.of(use.gpus, use.on_demand) or use.offers)


# without options of commitments: what is listed of all terms
_NONE = GivenOffers({}, {}, PricePer.node)


def given_terms(option: str, texts: Sequence[str] | None, highest: int | None = None) -> dict[Terms, Decimal]:
    """What `TERMS=NUMBER`s say. Raises UsageError."""
    numbers: dict[Terms, Decimal] = {}
    for text in texts or ():
        terms, equals, value = text.partition("=")
        if not equals:
            raise UsageError(
                f"{option} {text}: what stands after TERMS= is missing",
                f"{option} 1=20.10, or savings_plan:3:all_upfront=…",
            )
        numbers[reserve.parse_terms(terms, option)] = price(option, text, value, highest)
    return numbers


class ListedType(NamedTuple):
    """List prices of an instance type in one place."""

    provider: str
    gpus: float | None
    on_demand: Price | None
    offers: Offers

    def given_or_listed(self, price: Decimal | None, per: PricePer, gpus: float) -> Price:
        """The price on demand that an option gives, else the list price. Raises UsageError without either."""
        if price is not None:
            return Price(node_price(price, per, gpus), "option")
        if self.on_demand is None:
            raise UsageError(
                "the price on demand is missing",
                "--on-demand-price, or --instance-type and --region of list prices",
            )
        return self.on_demand


def listed_type(request: WhatIfRequest, instance_type: str | None, region: str | None) -> ListedType:
    """Of the one place that has them; nothing without a type.

    Raises UsageError where several places do, GpucostError where nothing is called so.
    """
    if not instance_type:
        return _listed(())
    with list_prices(request.settings) as listed:
        rows = listed(instance_type, purchase_options=_PURCHASE_OPTIONS, regions=(region,) if region else ())
    places = {(row.provider, row.region or "") for row in rows}
    if len(places) < 2:
        return _listed(rows)
    regions = [place for _, place in places if place not in ("", region)]
    if regions:
        raise UsageError(
            f"{instance_type} has list prices in {len(places)} regions",
            f"--region names one, such as {min(regions)}",
        )
    raise UsageError(
        f"{instance_type} has list prices of {' and '.join(sorted({provider for provider, _ in places}))}, and no region"
        " tells them apart",
        "leave out --instance-type, and give --on-demand-price",
    )


def _listed(rows: Sequence[ListedPrice]) -> ListedType:
    """What prices of one type in one place come to."""
    by_terms: dict[Terms, list[ListedPrice]] = {}
    for row in rows:
        terms = Terms(row.purchase_option, row.term_years or 0, row.payment_option or "", row.offering or "")
        by_terms.setdefault(terms, []).append(row)
    regional = {terms: price_of_region(several) for terms, several in by_terms.items()}
    prices = {terms: Price(row.price_per_hour, *source_of(row)) for terms, row in regional.items()}
    return ListedType(
        rows[0].provider if rows else "",
        next((float(row.gpu_count) for row in rows if row.gpu_count), None),
        next((price for terms, price in prices.items() if terms.kind == "on_demand"), None),
        {terms: price for terms, price in prices.items() if terms.years},
    )


class StoredCommitments:
    """What the bill knows of commitments in a period, and list prices of instance types, each looked up once."""

    def __init__(self, settings: Config, store: Store, period: Period) -> None:
        self.settings, self.store, self.period = settings, store, period
        self._offers: dict[reserve.Key, tuple[Price | None, Offers]] = {}

    @cached_property
    def existing(self) -> Existing:
        with self.store.read() as con:
            return reserve.read_commitments(con, self.period.start_ms, self.period.end_ms)

    @cached_property
    def collected_days(self) -> float:
        """Days of the period that were collected, of any cluster."""
        seen, until = 0, self.period.start_ms
        with self.store.read() as con:
            for start, end in con.execute("SELECT from_ms, to_ms FROM collected ORDER BY from_ms").fetchall():
                seen += max(0, min(end, self.period.end_ms) - max(start, until))
                until = max(until, end)
        return seen / MS_PER_DAY

    def offers_of(self, provider: str, region: str, instance_type: str) -> tuple[Price | None, Offers]:
        """The list price on demand, and the commitments; without any where nothing is known of the type there."""
        kind = provider, region, instance_type
        if kind not in self._offers:
            places = {"providers": (provider,) if provider else (), "regions": (region,) if region else ()}
            with list_prices(self.settings) as listed:
                try:
                    rows = listed(instance_type, purchase_options=_PURCHASE_OPTIONS, **places)
                except GpucostError:
                    rows = []
            known = _listed(rows)
            model = next((row.gpu_model for row in rows), None)
            of = {"seller": provider.lower(), "instance_type": instance_type.lower(), "gpu_model": model}
            with self.store.read() as con:
                load_catalog(con)
                load_discounts(con, self.settings)
                less = partial(self._less, con, of)
                on_demand = less("on_demand", known.on_demand) if known.on_demand else None
                self._offers[kind] = (
                    on_demand,
                    {terms: less(terms.kind, price) for terms, price in known.offers.items()},
                )
        return self._offers[kind]

    def _less(self, con: DuckDBPyConnection, of: dict[str, str | None], option: str, price: Price) -> Price:
        """A list price less what [[prices.discounts]] take off it at the end of the period."""
        left = left_of(con, option=option, at_ms=self.period.end_ms - 1, **of)
        if left == 1:
            return price
        source = f"{price.source}, less {float(round((1 - left) * 100, 4)):g} % ([[prices.discounts]])"
        return replace(price, per_node_hour=kept(price.per_node_hour * left), source=source)


def stored_families(
    known: StoredCommitments, usage: Usage, considered: Considered = ANYTHING, given: GivenOffers = _NONE
) -> tuple[tuple[Family, ...], Existing, tuple[Assumption, ...]]:
    """What the store's usage asks of commitments: families with their offers, commitments there are, assumptions."""
    existing = known.existing
    names, places = (
        {name.lower() for name in several} for several in (considered.instance_type, considered.region)
    )
    fleet = usage.fleet.only(
        lambda node: (
            (not names or (node.instance_type or "").lower() in names)
            and (not places or (node.region or "").lower() in places)
        )
    )
    families = reserve.families_of(
        fleet, known.period, existing, known.offers_of, is_narrowed=usage.is_narrowed
    )
    if not families:
        seen = sorted(
            {node.instance_type or "?" for node in usage.fleet.nodes if node.capacity_type != "spot"}
        )
        raise GpucostError(
            f"{usage.scope_name} used no priced node on demand in {usage.period_name}"
            + (" that --instance-type and --region name" if names or places else ""),
            f"on demand were {', '.join(seen)}"
            if seen
            else "spot nodes are not committed to; whatif spot compares them",
        )
    kinds = [f"{use.instance_type} ({family.region})" for family in families for use in family.uses]
    if given.prices and len(kinds) > 1:
        raise UsageError(
            f"--commitment-price is the price of one instance type, and there are {', '.join(kinds)}",
            "add --instance-type and --region, or give --commitment-discount, which holds for all",
        )
    hours = round(families[0].uses[0].curve.hours, 3)
    assumptions = (
        Assumption("usage", usage.scope_name, "on-demand nodes by hour", "store", usage.period_name),
        Assumption("hours of the period", hours, "h; not collected ones count as unused", "store"),
    )
    families = tuple(replace(family, uses=tuple(map(given.over, family.uses))) for family in families)
    return families, existing, assumptions


def whatif_reserve(request: WhatIfRequest, described: DescribedUse, considered: Considered) -> Document:
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
    given = GivenOffers(
        given_terms("--commitment-price", considered.commitment_price),
        given_terms("--commitment-discount", considered.commitment_discount, highest=99),
        described.price_per,
    )
    days = None
    if request.is_described(described):
        family, period_name = _described_family(request, described, considered, given)
        families: tuple[Family, ...] = (family,)
        existing = Existing(is_bill_loaded=False)
        assumptions: tuple[Assumption, ...] = (Assumption("usage", period_name, "nodes by hour", "option"),)
    else:
        usage = request.usage()
        period_name = usage.period_name
        known = StoredCommitments(request.settings, request.store, request.period)
        families, existing, assumptions = stored_families(known, usage, considered, given)
        days = known.collected_days
    return request.finish(
        reserve.answer(
            families,
            existing,
            currency=request.settings.currency,
            period=period_name,
            considered=considered,
            assumptions=assumptions,
            bought_on=request.today,
            stale_after_days=request.settings.prices.stale_after_days,
            days=days,
            any_terms=bool(
                considered.term_years or considered.payment_option or given.prices or given.discounts
            ),
        )
    )


def _described_family(
    request: WhatIfRequest, described: DescribedUse, considered: Considered, given: GivenOffers
) -> tuple[Family, str]:
    """The nodes that options describe, with what could be committed; and the period. Raises UsageError without a price."""
    if max(len(considered.instance_type), len(considered.region)) > 1:
        raise UsageError(
            "options describe nodes of one kind in one place", "give --instance-type and --region once"
        )
    kind, place = ((*names, "")[0] for names in (considered.instance_type, considered.region))
    curve, period_name = described_curve(described)
    listed = listed_type(request, kind, place)
    gpus = float(described.gpus or listed.gpus or GPUS_PER_NODE)
    on_demand = listed.given_or_listed(described.on_demand_price, described.price_per, gpus)
    use = given.over(ReservedUse(kind or "node", gpus, on_demand, curve, listed.offers))
    return Family(listed.provider, place, family_name(kind) if kind else "nodes", (use,)), period_name
