"""`gpucost whatif buy` and `gpucost whatif reserve`: own nodes next to the cloud, and commitments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from gpucost.config.model import Config
from gpucost.errors import GpucostError, UsageError
from gpucost.options import argument
from gpucost.periods import Period
from gpucost.price.listing import ListedPrice, price_of_region
from gpucost.price.onprem import Tco
from gpucost.questions.prices.tco import OwnNode, own_node
from gpucost.questions.whatif.prices import list_prices, price, source_of
from gpucost.questions.whatif.request import WhatIfRequest
from gpucost.records import grouped
from gpucost.render.view import Document
from gpucost.whatif import buy, covered, reserve
from gpucost.whatif.answer import Assumption, Position, today_of
from gpucost.whatif.avoidable import Key
from gpucost.whatif.buy import DescribedCloud, Own, Purchase
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.covered import Existing
from gpucost.whatif.curve import Curve, Evidence, described_curve
from gpucost.whatif.flags import GPUS_PER_NODE, PricePer, node_price, to_decimal, total
from gpucost.whatif.fleet import Price, Usage
from gpucost.whatif.reserve import (
    ANYTHING,
    ON_DEMAND,
    Considered,
    Demand,
    DescribedUse,
    Offers,
    ReservedUse,
    Terms,
)

if TYPE_CHECKING:
    from gpucost.store.connection import Store

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
    settings = request.settings
    costs = own_node(file, node.values, settings.currency, gpus_per_node=str(GPUS_PER_NODE))
    inputs, own = costs.inputs, _own(costs, f"tco of {file.name}" if file else "tco of options")
    if inputs.currency != settings.currency:
        raise UsageError(
            f"the own node's costs are in {inputs.currency}, the cloud's in {settings.currency}",
            f"give both in {settings.currency}, or set currency in gpucost.toml",
        )
    if request.is_described(described):
        shape, evidence, period = described_curve(described)
        listed = listed_type(request, described.instance_type, described.region)
        cloud = listed.given_or_listed(described.on_demand_price, described.price_per, own.gpus)
        use = Assumption("usage", period, "nodes by hour", "option")
    else:
        usage, period = request.usage(), request.period_name
        if not inputs.gpu_model:
            raise UsageError(
                "--gpu-model is missing: which nodes of the store could be own ones",
                "or describe them: --nodes",
            )
        shape, cloud = buy.cloud_usage(
            usage.fleet, request.period, inputs.gpu_model, own.gpus, is_narrowed=usage.is_narrowed
        )
        evidence = request.read(lambda con: covered.read_evidence(con, request.period))
        use = Assumption("usage", usage.scope_name, f"{inputs.gpu_model} nodes by hour", "store", period)
    parts = (Assumption(p.name, p.price_per_hour, "money per node-hour", p.basis) for p in costs.parts)
    result = buy.answer(
        own, cloud, shape, evidence,
        currency=settings.currency, period=period, purchase=purchase, assumptions=(use, *parts),
        bought_on=request.today, stale_after_days=settings.prices.stale_after_days,
    )  # fmt: skip
    answer = request.finish(result)
    if not inputs.not_given:
        return answer
    note = f"not given, and counted as nothing (pue as 1): {', '.join(inputs.not_given)}"
    return replace(answer, notes=(note,))


def _own(costs: Tco, source: str) -> Own:
    """The own node of these costs."""
    inputs = costs.inputs
    return Own(
        price=costs.price_per_hour,
        running_price=total(part.price_per_hour for part in costs.parts if part.name not in _UPFRONT_PARTS),
        capex=inputs.purchase_price + (inputs.network_per_node or 0),
        residual=inputs.purchase_price * (inputs.residual_percent or 0) / 100,
        years=float(inputs.years),
        gpus=float(inputs.gpus_per_node),
        source=source,
    )


_PURCHASE_OPTIONS = ("on_demand", "reserved", "savings_plan", "cud")


class GivenOffers(NamedTuple):
    """What --commitment-price and --commitment-discount say, prices in --price-per."""

    prices: dict[Terms, Decimal]
    discounts: dict[Terms, Decimal]
    per: PricePer

    def over(self, use: ReservedUse) -> ReservedUse:
        """The same with these commitments to choose from; those listed where none is given."""
        offers = {
            terms: Price(
                use.on_demand.per_node_hour * (100 - percent) / 100, f"option: {percent} % off on demand"
            )
            for terms, percent in self.discounts.items()
        }
        for terms, money in self.prices.items():
            offers[terms] = Price(node_price(money, self.per, use.gpus), "option")
        return replace(use, offers=offers or use.offers)


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
    prices: Offers

    def given_or_listed(self, price: Decimal | None, per: PricePer, gpus: float) -> Price:
        """The price on demand of so many GPUs: an option's, otherwise the list price. Raises UsageError without either."""
        if price:
            return Price(node_price(price, per, gpus), "option")
        listed = self.prices.get(ON_DEMAND)
        if not listed:
            raise UsageError(
                "the price on demand is missing",
                "--on-demand-price, or --instance-type and --region of list prices",
            )
        share = to_decimal(gpus) / to_decimal(self.gpus or gpus)
        return replace(listed, per_node_hour=listed.per_node_hour * share)


def listed_type(request: WhatIfRequest, instance_type: str | None, region: str | None) -> ListedType:
    """The list prices of a type in the only place that has them; nothing without a type.

    Raises UsageError if several places have them, GpucostError for an unknown type.
    """
    if not instance_type:
        return ListedType("", None, {})
    with list_prices(request.settings) as listed:
        rows = listed(instance_type, purchase_options=_PURCHASE_OPTIONS, regions=(region,) if region else ())
    places = {(row.provider, row.region or "") for row in rows}
    regions = [place for _, place in places if place not in ("", region)]
    if len(places) > 1 and regions:
        raise UsageError(
            f"{instance_type} has list prices in {len(places)} regions",
            f"--region names one, such as {min(regions)}",
        )
    if len(places) > 1:
        raise UsageError(
            f"{instance_type} has list prices of {' and '.join(sorted({name for name, _ in places}))}, and no region"
            " tells them apart",
            "leave out --instance-type, and give --on-demand-price",
        )
    gpus = next((float(row.gpu_count) for row in rows if row.gpu_count), None)
    return ListedType(rows[0].provider, gpus, _prices(rows))


def _prices(rows: Sequence[ListedPrice]) -> dict[Terms, Price]:
    """The prices of one type in one place."""
    by_terms = grouped(
        (Terms(row.purchase_option, row.term_years or 0, row.payment_option or "", row.offering or ""), row)
        for row in rows
    )
    regional = {terms: price_of_region(several) for terms, several in by_terms.items()}
    return {terms: Price(row.price_per_hour, *source_of(row)) for terms, row in regional.items()}


class StoredCommitments:
    """Commitments of the bill in a period, and list prices of the instance types of the store, both read once."""

    def __init__(self, settings: Config, store: Store, period: Period) -> None:
        self.settings, self.store, self.period = settings, store, period

    @cached_property
    def bill(self) -> tuple[list[str], Existing, Evidence]:
        """The store's instance types, their commitments, and how much of the period was collected."""
        period = self.period
        with self.store.read() as con:
            types = covered.read_types(con)
            existing = covered.read_commitments(con, period.start_ms, period.end_ms, types)
            return types, existing, covered.read_evidence(con, period)

    @cached_property
    def offers(self) -> Mapping[Key, Offers]:
        """List prices less discounts by instance type and region, on demand and of commitments."""
        with list_prices(self.settings) as listed:
            rows = listed(self.bill[0], purchase_options=_PURCHASE_OPTIONS)
        places = grouped(((row.provider, row.region or "", row.instance_type.lower()), row) for row in rows)
        return {key: _prices(several) for key, several in places.items()}


def stored_demand(
    known: StoredCommitments,
    usage: Usage,
    considered: Considered = ANYTHING,
    given: GivenOffers = _NONE,
    freed: Mapping[Key, Curve] | None = None,
) -> Demand:
    """What of the store's usage may be committed. `freed`: nodes that findings take away, by hours of the period."""
    _, existing, evidence = known.bill
    is_part, narrow = bool(considered.instance_type or considered.region), usage
    if is_part:
        narrow = usage._replace(fleet=usage.fleet.only(considered.includes), reported=None)
    uses = reserve.uses_of(
        narrow.fleet, known.period, existing, known.offers, is_narrowed=usage.is_narrowed, freed=freed
    )
    if not uses:
        seen = {node.instance_type or "?" for node in usage.fleet.nodes if node.capacity_type != "spot"}
        raise GpucostError(
            f"{usage.scope_name} used no priced node on demand in {usage.period_name}"
            + (" that --instance-type and --region name" if is_part else ""),
            f"on demand were {', '.join(sorted(seen))}; what the price book prices under a commitment is committed already"
            if seen
            else "spot nodes are not committed to; whatif spot compares them",
        )
    if given.prices and len(uses) > 1:
        kinds = ", ".join(f"{use.instance_type} ({use.region})" for use in uses)
        raise UsageError(
            f"--commitment-price is the price of one instance type, and there are {kinds}",
            "add --instance-type and --region, or give --commitment-discount, which holds for all",
        )
    hours = round(uses[0].curve.hours, 3)
    return Demand(
        tuple(map(given.over, uses)),
        existing,
        evidence,
        today_of(narrow, fleet_costs(narrow.fleet), is_held=usage.is_narrowed),
        (
            Assumption("usage", usage.scope_name, "on-demand nodes by hour", "store", usage.period_name),
            Assumption("hours of the period", hours, "h; not collected ones count as unused", "store"),
            Assumption("days of data", round(evidence.days, 1), "days", "store"),
        ),
    )


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
    if request.is_described(described):
        demand, period_name = _described_demand(request, described, considered, given)
    else:
        usage, period_name = request.usage(), request.period_name
        known = StoredCommitments(request.settings, request.store, request.period)
        demand = stored_demand(known, usage, considered, given)
    result = reserve.answer(
        demand,
        period=period_name,
        considered=considered,
        bought_on=request.today,
        stale_after_days=request.settings.prices.stale_after_days,
    )
    return request.finish(result)


def _described_demand(
    request: WhatIfRequest, described: DescribedUse, considered: Considered, given: GivenOffers
) -> tuple[Demand, str]:
    """The nodes that options describe, with the commitments on offer; and the period. Raises UsageError without a price."""
    if max(len(considered.instance_type), len(considered.region)) > 1:
        raise UsageError(
            "options describe nodes of one kind in one place", "give --instance-type and --region once"
        )
    kind, place = ((*names, "")[0] for names in (considered.instance_type, considered.region))
    curve, evidence, period_name = described_curve(described)
    listed = listed_type(request, kind, place)
    gpus = float(described.gpus or listed.gpus or GPUS_PER_NODE)
    on_demand = listed.given_or_listed(described.on_demand_price, described.price_per, gpus)
    use = ReservedUse(
        kind or "nodes", gpus, on_demand, curve, listed.prices, provider=listed.provider, region=place
    )
    hours = curve.node_hours
    today = Position(use.cost, request.settings.currency, round(hours * gpus, 6), round(hours, 6))
    assumption = Assumption("usage", period_name, "nodes by hour", "option")
    return Demand((given.over(use),), Existing(False), evidence, today, (assumption,)), period_name
