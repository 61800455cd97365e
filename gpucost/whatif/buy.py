"""Own nodes next to the cloud: how many for the base load, and when they have paid for themselves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import chain

from gpucost.errors import GpucostError
from gpucost.periods import Period
from gpucost.price.onprem import Tco
from gpucost.whatif.answer import Answer, Assumption, Position, priced, today_of
from gpucost.whatif.cost import base_and_rest, fleet_costs, position
from gpucost.whatif.curve import Curve, Evidence, counted
from gpucost.whatif.flags import HOURS_PER_MONTH, kept, to_decimal, total
from gpucost.whatif.fleet import Node, Pod, Price, Usage

# Parts of the price that are paid on the first day; the others as the node runs.
_UPFRONT_PARTS = ("depreciation", "network")


def cloud_usage(usage: Usage, period: Period, gpu_model: str, own_gpus: float) -> tuple[Curve, Price]:
    """Usage of the model by the hour, in own nodes of `own_gpus` GPUs, and its mean price in the cloud.

    That is what pods hold of a part of the fleet, otherwise whole nodes, used or not. Raises GpucostError if none has a price.
    """
    same = usage.fleet.only(lambda node: node.gpu_model == gpu_model)
    today = today_of(usage._replace(fleet=same, reported=None), fleet_costs(same), is_held=usage.is_narrowed)
    if not today.cost or not today.gpu_hours:
        models = ", ".join(sorted({node.gpu_model for node in usage.fleet.nodes if node.gpu_model}))
        raise GpucostError(
            f"no {gpu_model} with a price was used in {period}",
            f"--gpu-model takes one of: {models}; gpucost report names nodes without a price",
        )
    held: Sequence[Node | Pod] = same.pods if usage.is_narrowed else same.nodes
    spans = ((one.from_ms, one.to_ms, one.gpus / own_gpus) for one in held)
    kinds = sorted({node.capacity_type.replace("_", " ") for node in same.nodes})
    prices = chain.from_iterable(node.prices for node in same.nodes)
    cloud = Price(
        kept(today.cost / to_decimal(today.gpu_hours) * to_decimal(own_gpus)),
        f"store: mean of {', '.join(kinds)}",
        max((price.as_of for price in prices if price.as_of), default=None),
    )
    return counted(spans, period.start_ms, period.end_ms), cloud


def answer(
    own: Tco,
    cloud: Price,
    curve: Curve,
    evidence: Evidence,
    *,
    currency: str,
    period: str,
    source: str,
    use: Assumption,
) -> Answer:
    """All in the cloud against own nodes for the base load and the cloud above it, over the period of the curve.

    `source` names where `own` is described; `cloud` is the price per hour of as many GPUs in the cloud. Own nodes are paid in all
    hours; their number follows the rules of commitments.
    """
    inputs, gpus, years = own.inputs, float(own.inputs.gpus_per_node), float(own.inputs.years)
    running = total(part.price_per_hour for part in own.parts if part.name not in _UPFRONT_PARTS)
    capex = inputs.purchase_price + (inputs.network_per_node or 0)
    share = float(own.price_per_hour / cloud.per_node_hour)
    nodes = evidence.safe_level(curve, share)

    def paid(number: int, price: Decimal) -> Position:
        return position(currency, base_and_rest(curve, number, price, cloud.per_node_hour, gpus))

    today, scenario = paid(0, own.price_per_hour), paid(nodes, own.price_per_hour)
    avoided = today.cost - paid(nodes, running).cost
    gain = avoided * HOURS_PER_MONTH / to_decimal(curve.hours)
    months = float(nodes * capex / gain) if nodes and gain > 0 else math.inf
    month = math.ceil(round(months, 6)) if months <= years * 12 else None
    per_hour, missing = "money per node-hour", ", ".join(inputs.not_given) or "anything"
    return Answer(
        kind="buy",
        title=f"Own nodes beside the cloud: {nodes} of {curve.peak:,.1f} at the peak",
        period=period,
        today=today,
        scenario=scenario,
        figures={
            "own_nodes": nodes,
            "obligation": nodes * capex,
            "break_even_month": month,
            "break_even_utilization_percent": round(share * 100, 6),
            "monthly_cash_saving": round(gain, 6),
        },
        assumptions=(
            use,
            Assumption("own node, parts not given", 0, f"money for {missing}", source),
            Assumption("own node, whole cost", own.price_per_hour, per_hour, source),
            Assumption("own node, as it runs", running, per_hour, source),
            Assumption("own node, on the first day", capex, "money per node", source),
            Assumption("life of an own node", years, "years", source),
            priced("cloud", cloud, f"money per hour of {gpus:g} GPUs"),
            Assumption("use and prices", "stay as they are", "over the nodes' life", "default"),
        ),
        break_even=tuple(_break_even(share, nodes, month)),
        time=("The months until own nodes run are not counted: until then all is in the cloud.",),
        findings=tuple(_findings(nodes, evidence)),
    )


def _break_even(share: float, nodes: int, month: int | None) -> Iterator[str]:
    yield f"An own node pays for itself if it is in use for over {share * 100:.1f} % of its hours (above 100 %: never)."
    if month is not None:
        yield f"Cumulative cash breaks even {month} months after own nodes run."
    elif nodes:
        yield "Cumulative cash does not break even while the nodes last."


def _findings(nodes: int, evidence: Evidence) -> Iterator[str]:
    if evidence.shortage:
        yield evidence.shortage
    elif not nodes:
        yield "No own node is safe to buy: it must be in use as much as a commitment (gpucost whatif reserve)."
    yield "A commitment with the cloud may cost less than both: gpucost whatif reserve."
