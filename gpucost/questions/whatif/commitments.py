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
from gpucost.questions.request import store_or_empty
from gpucost.questions.whatif.prices import dated, list_prices
from gpucost.questions.whatif.request import WhatIfRequest
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
from gpucost.whatif.reserve import COMMITTABLE, KINDS, Demand, Offers, ReservedUse, Terms
from gpucost.whatif.spot.interruptions import Place
from gpucost.whatif.spot.market import find_instance, read_price

if TYPE_CHECKING:
    from gpucost.questions.findings.kinds import Freed
    from gpucost.store.connection import Store


def whatif_buy(
    request: WhatIfRequest,
    node: OwnNode,
    described: DescribedNodes,
    file: Annotated[
        Path | None, argument("FILE", "TOML file about your node, as for gpucost prices tco.")
    ] = None,
) -> Document:
    """Find out whether buying nodes pays off, how many to buy, and after how many months they pay off.

    Describe your node in a file or by options, as for gpucost prices tco (default: 8 GPUs). Cloud usage is the store's
    usage of the same GPU model at its cost, or --nodes at --on-demand-price or at the price of --instance-type in --region. Own
    nodes take the base load and are paid in all hours; the cloud takes the peaks.

    \b
    Examples:
      gpucost whatif buy onprem.toml --month 2026-10
      gpucost whatif buy onprem.toml --nodes 4 --on-demand-price 55.04
      gpucost whatif buy onprem.toml --nodes 4 --hours 500 --instance-type p5.48xlarge --region us-east-1
      gpucost whatif buy --purchase-price 280000 --gpu-model H100 --years 4 --price-per-kwh 0.12 --nodes 8 --on-demand-price 55
    """
    settings = request.settings
    own_cost = own_node(file, node.values, settings.currency, gpus_per_node=str(GPUS_PER_NODE))
    inputs, gpus = own_cost.inputs, float(own_cost.inputs.gpus_per_node)
    if inputs.currency != settings.currency:
        raise UsageError(
            f"the own node's costs are in {inputs.currency}, the cloud's in {settings.currency}",
            f"give both in {settings.currency}, or set currency in gpucost.toml",
        )
    if request.is_described(described):
        curve, evidence, period = described.curve, MONTH, A_MONTH
        cloud = described_use(request, described, gpus).on_demand
        use = _described_usage(gpus)
    else:
        usage, period = request.usage(), request.period_name
        if not inputs.gpu_model:
            raise UsageError(
                "--gpu-model of the own nodes is missing", "give it, or describe the cloud: --nodes"
            )
        curve, cloud = buy.cloud_usage(usage, request.period, inputs.gpu_model, gpus)
        evidence = request.read(lambda con: covered.read_evidence(con, request.period))
        use = Assumption("usage", usage.scope_name, f"{inputs.gpu_model} nodes by hour", "store", period)
    source = f"tco of {file.name if file else 'options'}"
    answer = buy.answer(
        own_cost, cloud, curve, evidence, currency=settings.currency, period=period, source=source, use=use
    )
    return dated(answer, request)


_DISCOUNT = re.compile(rf"(?:({'|'.join(KINDS)}):)?([13])=(\d+(?:\.\d+)?)")


def described_use(request: WhatIfRequest, nodes: PricedNodes, gpus: float | None = None) -> ReservedUse:
    """Nodes with `gpus` GPUs, by default those of their type or 8, at the price of options, the price book or the list.

    The curve and the offers are empty. Raises UsageError if the type is unknown, or without a price.
    """
    place, of_type, price = Place(""), float(GPUS_PER_NODE), None
    if nodes.region and not nodes.instance_type:
        raise UsageError("--region is of an --instance-type", "give --instance-type, or leave it out")
    if nodes.instance_type:
        with store_or_empty(request.settings) as con:
            provider, name, of_type = find_instance(con, nodes.instance_type)
            place = Place(name, provider, nodes.region)
            price = read_price(con, request.settings, place, of_type, "on_demand")
    gpus = gpus or of_type
    if nodes.on_demand_price:
        price = Price(nodes.on_demand_price, "option")
    elif price:
        share = to_decimal(gpus) / to_decimal(of_type)
        price = replace(price, per_node_hour=price.per_node_hour * share)
    else:
        raise UsageError(
            "--on-demand-price is missing",
            "give it, or --instance-type and --region of a place whose price is known",
        )
    name = place.instance_type or f"node of {gpus:g} GPUs"
    return ReservedUse(name, gpus, price, provider=place.provider or "", region=place.region or "")


def _described_usage(gpus: float) -> Assumption:
    return Assumption("usage", A_MONTH, f"nodes of {gpus:g} GPUs by hour", "option")


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
    """Commitments of the bill in a period, and list prices of the store's instance types, read once."""

    settings: Config
    store: Store
    period: Period

    @cached_property
    def read(self) -> tuple[Existing, Evidence, Mapping[Key, Offers]]:
        """Commitments, the collected days of the period, and list prices less discounts by instance type and region."""
        period = self.period
        with self.store.read() as con:
            types = covered.read_types(con)
            existing = covered.read_commitments(con, period.start_ms, period.end_ms, types)
            evidence = covered.read_evidence(con, period)
        rows = list_prices(self.settings, types, purchase_options=("on_demand", *KINDS))
        places = grouped(((row.provider, row.region or "", row.instance_type.lower()), row) for row in rows)
        return existing, evidence, {key: _prices(several) for key, several in places.items()}


def stored_demand(stored: StoredCommitments, usage: Usage, freed: Freed | None = None) -> Demand:
    """The usage of the store that may be committed, without the workloads that findings free.

    If on-demand nodes were empty, only the held part of each node counts. Raises GpucostError without such usage.
    """
    existing, evidence, offers = stored.read
    fleet, is_narrowed = usage.fleet, usage.is_narrowed
    owners = {pod.owner for pod in fleet.pods} & freed.owners if freed else frozenset[Workload]()
    is_held = is_narrowed or bool(freed and freed.empty.intersection(COMMITTABLE))
    unit = "parts of on-demand nodes that pods hold, by hour" if is_held else "on-demand nodes by hour"
    uses = reserve.uses_of(fleet, stored.period, existing, offers, is_narrowed=is_held, freed=owners)
    if not uses:
        raise GpucostError(
            f"{usage.scope_name} used no on-demand node with a price in {usage.period_name}",
            "commitments are for on-demand nodes; gpucost report --by capacity_type shows how nodes are paid",
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
            "Percent off the on-demand price, instead of list prices. TERMS is [KIND:]YEARS; repeatable.",
            "TERMS=PERCENT",
        ),
    ] = (),
) -> Document:
    """Find the cheapest commitments: how many instances, for how long, and the obligation.

    Uses the on-demand instances in use per hour: from the store, by instance type and region, or from the options. Workloads
    with better advice in gpucost findings are left out, and so are hours that commitments in the bill already cover. Prices
    of reserved instances, savings plans and CUDs are list prices (gpucost prices) or --commitment-discount, without upfront
    payment. KIND is reserved (default), savings_plan or cud; YEARS is 1 or 3.

    \b
    Examples:
      gpucost whatif reserve --month 2026-10 --commitment-discount 1=35 --commitment-discount savings_plan:3=55
      gpucost whatif reserve --nodes 8 --hours 600 --on-demand-price 32.77 --commitment-discount 1=35
      gpucost whatif reserve --nodes 4 --instance-type a2-highgpu-8g --region us-central1
    """
    if request.is_described(described):
        use, period_name = described_use(request, described), A_MONTH
        offers = {} if commitment_discount else _offers(request.settings, use)
        use = replace(use, curve=described.curve, offers=offers)
        block = CostBlock(use.curve.node_hours, use.on_demand.per_node_hour, use.gpus)
        today = position(request.settings.currency, [block])
        demand = Demand((use,), Existing(False), MONTH, today, (_described_usage(use.gpus),))
    else:
        usage, period_name = request.usage(), request.period_name
        found = read_findings(request.settings, request.store, request.period)
        stored = StoredCommitments(request.settings, request.store, request.period)
        demand = stored_demand(stored, usage, found.freed)
    if commitment_discount:
        uses = tuple(_discounted(use, commitment_discount) for use in demand.uses)
        demand = replace(demand, uses=uses)
    return dated(reserve.answer(demand, period=period_name), request)


def _offers(settings: Config, use: ReservedUse) -> Offers:
    """List prices of commitments for an instance type. Raises UsageError if several regions have prices and none is named."""
    if not use.provider:
        return {}
    regions = (use.region,) if use.region else ()
    which = {"purchase_options": KINDS, "providers": (use.provider,), "regions": regions}
    rows = list_prices(settings, use.instance_type, **which)
    places = sorted({row.region or "" for row in rows})
    if len(places) > 1:
        raise UsageError(
            f"{use.instance_type} has prices of commitments in several regions",
            f"--region names one: {', '.join(places)}",
        )
    return _prices(rows)


def _discounted(use: ReservedUse, texts: Names) -> ReservedUse:
    """The use with the commitments that `[KIND:]YEARS=PERCENT` describe. Raises UsageError."""
    offers = {}
    for text in texts:
        found = _DISCOUNT.fullmatch(text)
        kind, years, percent = found.groups("reserved") if found else ("", "", "0")
        if not 0 < Decimal(percent) <= 99:
            raise UsageError(
                f"--commitment-discount is invalid: {text!r}",
                f"write [KIND:]YEARS=PERCENT, as in 1=35; KIND is one of {', '.join(KINDS)}, YEARS is 1 or 3, PERCENT"
                " at most 99",
            )
        per_hour = use.on_demand.per_node_hour * (100 - Decimal(percent)) / 100
        offers[Terms(kind, int(years))] = Price(per_hour, f"option: {percent} % off")
    return replace(use, offers=offers)
