"""Own nodes next to the cloud: their number for the base load, and the month in which they have paid for themselves."""

import math
from collections.abc import Iterator
from decimal import Decimal
from itertools import chain

from gpucost.errors import GpucostError
from gpucost.periods import Period
from gpucost.price.onprem import Tco
from gpucost.whatif.answer import Answer, Assumption, Position, priced
from gpucost.whatif.cost import CostBlock, fleet_costs, position
from gpucost.whatif.curve import Curve, Evidence, counted
from gpucost.whatif.flags import HOURS_PER_MONTH, round_money, to_decimal, total
from gpucost.whatif.fleet import Price, Usage

# Parts of the price that are paid on the first day; the others are paid as the node runs.
_UPFRONT_PARTS = ("depreciation", "network")
_SAFE = "An own node is safe to buy if it is in use as much as a commitment must be (gpucost whatif reserve)"
_COMMITMENT = "A commitment with the cloud may cost less than both: gpucost whatif reserve"


def cloud_usage(usage: Usage, period: Period, gpu_model: str, own_gpus: float) -> tuple[Curve, Price]:
    """Hourly usage of the model, in own nodes of `own_gpus` GPUs, and its mean price in the cloud.

    A part of the fleet counts by the GPUs that its pods hold, the whole fleet by whole nodes.
    Raises GpucostError without a price.
    """
    same = usage.fleet.only(lambda node: node.gpu_model == gpu_model)
    costs = fleet_costs(same)
    held = same.pods if usage.is_narrowed else same.nodes
    cost, gpu_hours = costs.node_cost, costs.gpu_hours
    if usage.is_narrowed:
        cost, gpu_hours = costs.cost, costs.allocated_gpu_hours
    if not cost:
        models = ", ".join(sorted({node.gpu_model for node in usage.fleet.nodes if node.gpu_model}))
        raise GpucostError(
            f"no {gpu_model} with a price was used in {period}",
            f"--gpu-model takes one of: {models}; gpucost report lists nodes without a price",
        )
    spans = ((use.from_ms, use.to_ms, use.gpus / own_gpus) for use in held)
    prices = chain.from_iterable(node.prices for node in same.nodes)
    as_of = max((price.as_of for price in prices if price.as_of), default=None)
    price = round_money(cost / to_decimal(gpu_hours) * to_decimal(own_gpus))
    return counted(spans, *period.span), Price(price, "store: mean price paid", as_of)


def answer(
    tco: Tco,
    cloud: Price,
    curve: Curve,
    evidence: Evidence,
    *,
    currency: str,
    period: str,
    source: str,
    use: Assumption,
) -> Answer:
    """All usage in the cloud, compared with own nodes for the base load and the cloud above it.

    `source` names the description of `tco`; `cloud` is the price per hour of the same number of GPUs in the cloud. Own nodes are
    paid in all hours; their number follows the rules of commitments.
    """
    inputs, gpus, years = tco.inputs, float(tco.inputs.gpus_per_node), float(tco.inputs.years)
    running = total(part.price_per_hour for part in tco.parts if part.name not in _UPFRONT_PARTS)
    capex = inputs.purchase_price + (inputs.network_per_node or 0)
    share = float(tco.price_per_hour / cloud.per_node_hour)
    nodes = evidence.safe_level(curve, share)

    def paid(number: int, price: Decimal) -> Position:
        """The position with `number` own nodes at this price per hour."""
        above = max(0.0, curve.node_hours - curve.used(number))
        blocks = CostBlock(number * curve.hours, price, gpus), CostBlock(above, cloud.per_node_hour, gpus)
        return position(currency, blocks)

    today, scenario = paid(0, running), paid(nodes, tco.price_per_hour)
    gain = (today.cost - paid(nodes, running).cost) * HOURS_PER_MONTH / to_decimal(curve.hours)
    months = float(nodes * capex / gain) if nodes and gain > 0 else math.inf
    month = math.ceil(round(months, 6)) if months <= years * 12 else None
    per_hour, missing = "money per node-hour", ", ".join(inputs.not_given) or "anything"
    return Answer(
        kind="buy",
        title=f"Own nodes next to the cloud: {nodes} of {curve.peak:,.1f} at the peak",
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
            Assumption("own node, missing parts", 0, f"money for {missing}", source),
            Assumption("own node, whole cost", tco.price_per_hour, per_hour, source),
            Assumption("own node, as it runs", running, per_hour, source),
            Assumption("own node, on the first day", capex, "money per node", source),
            Assumption("life of an own node", years, "years", source),
            priced("cloud", cloud, f"money per hour of {gpus:g} GPUs"),
            Assumption("use and prices", "constant", "over the nodes' life", "default"),
        ),
        break_even=tuple(_break_even(share, nodes, month)),
        time=("The months until own nodes run are not counted: all usage is in the cloud until then",),
        findings=(evidence.shortage or _SAFE, _COMMITMENT),
    )


def _break_even(share: float, nodes: int, month: int | None) -> Iterator[str]:
    yield f"An own node pays for itself if it is in use for over {share * 100:.1f} % of its hours (above 100 %: never)"
    if nodes:
        when = "never, while the nodes last" if month is None else f"{month} months after own nodes run"
        yield f"Cumulative cash breaks even: {when}"
