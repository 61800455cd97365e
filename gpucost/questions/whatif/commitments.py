"""`gpucost whatif buy` and `gpucost whatif reserve`: own nodes next to the cloud, and commitments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gpucost.config.model import Config
from gpucost.errors import GpucostError, UsageError
from gpucost.options import Names, Option, argument
from gpucost.periods import Period
from gpucost.price.listing import ListedPrice, price_of_region, source_of
from gpucost.questions.findings import read_findings
from gpucost.questions.prices.tco import OwnNode, own_node
from gpucost.questions.whatif.prices import list_prices, named_old
from gpucost.questions.whatif.request import WhatIfRequest
from gpucost.questions.whatif.view import document
from gpucost.records import grouped
from gpucost.render.view import Document
from gpucost.whatif import buy, covered, reserve
from gpucost.whatif.answer import Assumption, today_of
from gpucost.whatif.avoidable import Key
from gpucost.whatif.cost import CostBlock, fleet_costs, position
from gpucost.whatif.covered import Existing
from gpucost.whatif.curve import A_MONTH, MONTH, DescribedNodes, Evidence, PricedNodes
from gpucost.whatif.flags import GPUS_PER_NODE, to_decimal
from gpucost.whatif.fleet import Price, Usage, Workload
from gpucost.whatif.reserve import COMMITTABLE, KINDS, ON_DEMAND, Demand, Offers, ReservedUse, Terms

if TYPE_CHECKING:
    from gpucost.questions.findings.kinds import Freed
    from gpucost.store.connection import Store


def whatif_buy(
    request: WhatIfRequest,
    node: OwnNode,
    described: DescribedNodes,
    file: Annotated[
        Path | None, argument("FILE", "TOML file of an own node, as gpucost prices tco takes it.")
    ] = None,
) -> Document:
    """Say whether own nodes beside the cloud pay, how many, and from which month on.

    An own node is what gpucost prices tco takes: a file, options or both; with 8 GPUs where neither says. The cloud is the
    store's usage of the same GPU model at what it cost, or --nodes at --on-demand-price or the list price of --instance-type in
    --region. Own nodes take the base load and are paid in all hours; the cloud takes the peaks.

    \b
    Examples:
      gpucost whatif buy onprem.toml --month 2026-10
      gpucost whatif buy onprem.toml --nodes 4 --on-demand-price 55.04
      gpucost whatif buy onprem.toml --nodes 4 --hours 500 --instance-type p5.48xlarge --region us-east-1
      gpucost whatif buy --purchase-price 280000 --gpu-model H100 --years 4 --price-per-kwh 0.12 --nodes 8 --on-demand-price 55
    """
    settings = request.settings
    own = own_node(file, node.values, settings.currency, gpus_per_node=str(GPUS_PER_NODE))
    inputs, gpus = own.inputs, float(own.inputs.gpus_per_node)
    if inputs.currency != settings.currency:
        raise UsageError(
            f"the own node's costs are in {inputs.currency}, the cloud's in {settings.currency}",
            f"give both in {settings.currency}, or set currency in gpucost.toml",
        )
    if request.is_described(described):
        (nodes, use), evidence, period = _described(request, described, gpus), MONTH, A_MONTH
        curve, cloud = nodes.curve, nodes.on_demand
    else:
        usage, period = request.usage(), request.period_name
        if not inputs.gpu_model:
            raise UsageError(
                "--gpu-model is missing: which nodes of the store could be own ones",
                "or describe them: --nodes",
            )
        curve, cloud = buy.cloud_usage(usage, request.period, inputs.gpu_model, gpus)
        evidence = request.read(lambda con: covered.read_evidence(con, request.period))
        use = Assumption("usage", usage.scope_name, f"{inputs.gpu_model} nodes by hour", "store", period)
    source = f"tco of {file.name if file else 'options'}"
    answer = buy.answer(
        own, cloud, curve, evidence, currency=settings.currency, period=period, source=source, use=use
    )
    return document(named_old(answer, request))


_PURCHASE_OPTIONS = ("on_demand", *KINDS)
_DISCOUNT = re.compile(rf"(?:({'|'.join(KINDS)}):)?([13])=(\d+(?:\.\d+)?)")


def use_on_offer(request: WhatIfRequest, described: PricedNodes, gpus: float | None = None) -> ReservedUse:
    """Nodes of so many GPUs, otherwise of those of their type, otherwise of 8, at the price of options or the list price.

    How long they are in use is left open. Raises UsageError if several places have list prices of the type, or if neither has a
    price; GpucostError for an unknown type.
    """
    name, region, price = described.instance_type, described.region, described.on_demand_price
    rows = []
    if name:
        regions = (region,) if region else ()
        rows = list_prices(request.settings, name, purchase_options=_PURCHASE_OPTIONS, regions=regions)
    places = sorted({f"{row.provider} {row.region or ''}".strip() for row in rows})
    if len(places) > 1:
        raise UsageError(
            f"{name} has list prices in several places: {', '.join(places)}",
            "--region names one; without regions leave out --instance-type, and give --on-demand-price",
        )
    offers = _prices(rows)
    listed_gpus = next((float(row.gpu_count) for row in rows if row.gpu_count), None)
    gpus = gpus or listed_gpus or float(GPUS_PER_NODE)
    if price:
        on_demand = Price(price, "option")
    elif ON_DEMAND in offers:
        share = to_decimal(gpus) / to_decimal(listed_gpus or gpus)
        on_demand = replace(offers[ON_DEMAND], per_node_hour=offers[ON_DEMAND].per_node_hour * share)
    else:
        raise UsageError(
            "the price on demand is missing",
            "--on-demand-price, or --instance-type and --region of list prices",
        )
    provider = rows[0].provider if rows else ""
    return ReservedUse(
        name or f"node of {gpus:g} GPUs",
        gpus,
        on_demand,
        offers=offers,
        provider=provider,
        region=region or "",
    )


def _prices(rows: Sequence[ListedPrice]) -> dict[Terms, Price]:
    """The prices of one type in one place."""
    by_terms = grouped(
        (Terms(row.purchase_option, row.term_years or 0, row.payment_option or "", row.offering or ""), row)
        for row in rows
    )
    regional = {terms: price_of_region(several) for terms, several in by_terms.items()}
    return {
        terms: Price(row.price_per_hour, *source_of(row), is_stale=row.is_stale)
        for terms, row in regional.items()
    }


@dataclass(frozen=True)
class StoredCommitments:
    """Commitments of the bill in a period, and list prices of the instance types of the store, both read once."""

    settings: Config
    store: Store
    period: Period

    @cached_property
    def read(self) -> tuple[Existing, Evidence, Mapping[Key, Offers]]:
        """Commitments, how much of the period was collected, and list prices less discounts by instance type and region."""
        period = self.period
        with self.store.read() as con:
            types = covered.read_types(con)
            existing = covered.read_commitments(con, period.start_ms, period.end_ms, types)
            evidence = covered.read_evidence(con, period)
        rows = list_prices(self.settings, types, purchase_options=_PURCHASE_OPTIONS)
        places = grouped(((row.provider, row.region or "", row.instance_type.lower()), row) for row in rows)
        return existing, evidence, {key: _prices(several) for key, several in places.items()}


def stored_demand(known: StoredCommitments, usage: Usage, freed: Freed | None = None) -> Demand:
    """What of the store's usage may be committed, without what findings free.

    If nodes that may be committed stood empty, nodes count by what pods hold of them.
    """
    existing, evidence, offers = known.read
    fleet, is_narrowed = usage.fleet, usage.is_narrowed
    owners = {pod.owner for pod in fleet.pods} & freed.owners if freed else frozenset[Workload]()
    is_held = is_narrowed or bool(freed and freed.empty.intersection(COMMITTABLE))
    unit = "parts of on-demand nodes that pods hold, by hour" if is_held else "on-demand nodes by hour"
    uses = reserve.uses_of(fleet, known.period, existing, offers, is_narrowed=is_held, freed=owners)
    if not uses:
        raise GpucostError(
            f"{usage.scope_name} used no priced node on demand in {usage.period_name}",
            "commitments are for nodes on demand; gpucost report shows how nodes are paid",
        )
    return Demand(
        uses,
        existing,
        evidence,
        today_of(usage, fleet_costs(fleet), is_held=is_narrowed),
        (
            Assumption("usage", usage.scope_name, unit, "store", usage.period_name),
            Assumption("data", round(evidence.days, 1), "days; other hours count as unused", "store"),
            Assumption("left out for other findings", len(owners), "workloads", "gpucost findings"),
        ),
    )


def whatif_reserve(
    request: WhatIfRequest,
    described: DescribedNodes,
    commitment_discount: Annotated[
        Names,
        Option(
            "Percent off the price on demand, instead of list prices. TERMS is [KIND:]YEARS; repeatable.",
            "TERMS=PERCENT",
        ),
    ] = (),
) -> Document:
    """Say which commitment costs least: how many instances, for how long, and what is owed.

    From the hourly curve of instances in use on demand: the store's, by instance type and region, or one described by options.
    Workloads that gpucost findings has better advice for are left out. Prices of reserved instances, savings plans and CUDs are
    list prices (gpucost prices), or --commitment-discount, without upfront payment: kind reserved (default), savings_plan or cud;
    years 1 or 3. Commitments that the bill knows are counted first.

    \b
    Examples:
      gpucost whatif reserve --month 2026-10 --commitment-discount 1=35 --commitment-discount savings_plan:3=55
      gpucost whatif reserve --nodes 8 --hours 600 --on-demand-price 32.77 --commitment-discount 1=35
      gpucost whatif reserve --nodes 4 --instance-type a2-highgpu-8g --region us-central1
    """
    if request.is_described(described):
        demand, period_name = _described_demand(request, described), A_MONTH
    else:
        usage, period_name = request.usage(), request.period_name
        found = read_findings(request.settings, request.store, request.period)
        known = StoredCommitments(request.settings, request.store, request.period)
        demand = stored_demand(known, usage, found.freed)
    uses = tuple(_discounted(use, commitment_discount) for use in demand.uses)
    answer = reserve.answer(replace(demand, uses=uses), period=period_name)
    return document(named_old(answer, request))


def _discounted(use: ReservedUse, texts: Names) -> ReservedUse:
    """The use with the commitments that `[KIND:]YEARS=PERCENT` give, otherwise those listed. Raises UsageError."""
    offers = {}
    for text in texts:
        found = _DISCOUNT.fullmatch(text)
        kind, years, percent = found.groups("reserved") if found else ("", "", "0")
        if not 0 < Decimal(percent) <= 99:
            raise UsageError(
                f"--commitment-discount: {text!r} is invalid",
                f"write [KIND:]YEARS=PERCENT, as in 1=35; KIND is one of {', '.join(KINDS)}, YEARS is 1 or 3, PERCENT"
                " at most 99",
            )
        per_hour = use.on_demand.per_node_hour * (100 - Decimal(percent)) / 100
        offers[Terms(kind, int(years))] = Price(per_hour, f"option: {percent} % off")
    return replace(use, offers=offers or use.offers)


def _described_demand(request: WhatIfRequest, described: DescribedNodes) -> Demand:
    """The nodes that options describe, with the commitments on offer."""
    use, assumption = _described(request, described)
    block = CostBlock(use.curve.node_hours, use.on_demand.per_node_hour, use.gpus)
    today = position(request.settings.currency, [block])
    return Demand((use,), Existing(False), MONTH, today, (assumption,))


def _described(
    request: WhatIfRequest, described: DescribedNodes, gpus: float | None = None
) -> tuple[ReservedUse, Assumption]:
    """The nodes that options describe, and the assumption about them."""
    use = replace(use_on_offer(request, described, gpus), curve=described.curve)
    return use, Assumption("usage", A_MONTH, f"nodes of {use.gpus:g} GPUs by hour", "option")
