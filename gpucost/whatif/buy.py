"""Own nodes beside the cloud: how many for the base load, when they have paid for themselves, and what the peaks still cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, NamedTuple

from gpucost.errors import GpucostError
from gpucost.options import Option, OptionGroup
from gpucost.periods import Period
from gpucost.records import record
from gpucost.whatif.answer import Answer, Assumption, Line, Position, Rows, priced, stated
from gpucost.whatif.cost import CostBlock, base_and_rest, fleet_costs, kept, positions
from gpucost.whatif.curve import Curve, DescribedCurve, counted
from gpucost.whatif.flags import HOURS_PER_MONTH, to_decimal
from gpucost.whatif.fleet import Fleet, Node, Pod, Price

_ROWS = 9


class Own(NamedTuple):
    """An own node. `price` per node-hour is its whole cost over its life; `running_price` is what of it is paid as it runs.

    The rest is `capex`, paid on the first day, less `residual`, got back after `years`.
    """

    price: Decimal
    running_price: Decimal
    capex: Decimal
    residual: Decimal
    years: float
    gpus: float
    source: str


@record
class DescribedCloud(DescribedCurve):
    """The cloud's nodes that options describe."""

    instance_type: Annotated[str | None, Option("Cloud instance, for its list price.", "TYPE")] = None
    region: Annotated[str | None, Option("Where that list price holds.", "NAME")] = None


@record
class Purchase(OptionGroup):
    """How many own nodes are bought, None: what costs least; and how long it takes until they run."""

    own_nodes: Annotated[int | None, Option("Buy so many; else what costs least.")] = None
    lead_months: Annotated[
        float, Option("Months from buying to running.", says="months from buying to running", unit="months")
    ] = 0.0


class _Split(NamedTuple):
    """`nodes` own ones for the base, the cloud for the rest: by whole cost, and by cash as it is paid."""

    nodes: int
    whole: Position
    monthly_gain: Decimal  # cash that is saved per month, once the nodes are bought
    utilization: float | None  # of the own nodes, 0-1
    used: float  # node-hours on own nodes
    break_even_months: (
        float | None
    )  # from buying until cumulative cash is no more than the cloud's; None: not in their life

    @property
    def break_even_month(self) -> int | None:
        return None if self.break_even_months is None else math.ceil(self.break_even_months)


def cloud_usage(
    fleet: Fleet, period: Period, gpu_model: str, own_gpus: float, *, is_narrowed: bool
) -> tuple[Curve, Price]:
    """What of the fleet own nodes of that model could have been, hour by hour, and what the cloud asked for it on the mean.

    In own nodes of `own_gpus` GPUs. `is_narrowed`: by what the fleet's pods hold; else by whole nodes, used or not.
    Raises GpucostError where the fleet has no such GPU, or they cost nothing.
    """
    same = fleet.only(lambda node: node.gpu_model == gpu_model)
    if not same.nodes:
        models = ", ".join(sorted({node.gpu_model for node in fleet.nodes if node.gpu_model}))
        fix = (
            f"--gpu-model takes one of {models}"
            if models
            else "--nodes and --on-demand-price describe the cloud instead"
        )
        raise GpucostError(f"no {gpu_model} was used in {period}", fix)
    costs = fleet_costs(same)
    held: Sequence[Node | Pod] = same.pods if is_narrowed else same.nodes
    spans = ((one.from_ms, one.to_ms, one.gpus / own_gpus) for one in held)
    paid, gpu_hours = (
        (costs.cost, costs.allocated_gpu_hours) if is_narrowed else (costs.node_cost, costs.gpu_hours)
    )
    if not paid or not gpu_hours:
        raise GpucostError(
            f"the {gpu_model} nodes of {period} have no price", "gpucost report says how to give them one"
        )
    price = kept(paid / to_decimal(gpu_hours) * to_decimal(own_gpus))
    kinds = sorted({node.capacity_type.replace("_", " ") for node in same.nodes})
    as_of = max((price.as_of for node in same.nodes for price in node.prices if price.as_of), default=None)
    cloud = Price(price, f"store: mean of {', '.join(kinds)}", as_of)
    return counted(spans, period.start_ms, period.end_ms), cloud


def answer(
    own: Own,
    cloud: Price,
    curve: Curve,
    *,
    currency: str,
    period: str,
    purchase: Purchase,
    assumptions: Sequence[Assumption] = (),
) -> Answer:
    """All in the cloud against own nodes for the base load and the cloud above it, over the period of the curve.

    `cloud` is its price per hour of as many GPUs as an own node has. Own nodes are paid in all hours.
    """
    share = float(own.price / cloud.per_node_hour)
    best, peak = curve.best_level(share), math.ceil(curve.peak)
    nodes, lead_months = best if purchase.own_nodes is None else purchase.own_nodes, purchase.lead_months
    # none, all at the peak, the chosen number, those beside it, and some between
    levels = sorted(
        {0, peak, nodes, max(0, nodes - 1), nodes + 1, *range(0, peak, max(1, math.ceil(peak / (_ROWS - 4))))}
    )
    today, splits = _splits(own, cloud, curve, levels, currency, lead_months)
    chosen = splits[nodes]
    when = chosen.break_even_month
    findings = []
    if not nodes:
        findings.append("At no level of use that was seen does an own node cost less than the cloud.")
    elif chosen.whole.cost > today.cost:
        findings.append("Own nodes cost more than the cloud here.")
    if nodes != best:
        findings.append(f"{best} own nodes would cost least; {nodes} were asked for.")
    return Answer(
        kind="buy",
        title=f"Own nodes beside the cloud: {nodes} of {curve.peak:,.1f} at the peak",
        period=period,
        today=today,
        scenario=replace(chosen.whole, more={"own_nodes": nodes}),
        figures={
            "price_per": "node",
            "own_nodes": nodes,
            "own_price": own.price,
            "own_running_price": own.running_price,
            "cloud_price": cloud.per_node_hour,
            "capex": nodes * own.capex,
            "residual": nodes * own.residual,
            "break_even_month": when,
            "break_even_months": chosen.break_even_months,
            "break_even_utilization_percent": round(share * 100, 6),
            "own_utilization_percent": None
            if chosen.utilization is None
            else round(chosen.utilization * 100, 6),
            "base_load_percent": round(chosen.used / curve.node_hours * 100, 6),
            "monthly_cash_saving": round(chosen.monthly_gain, 6),
        },
        assumptions=(
            *assumptions,
            Assumption("own node, whole cost", own.price, "money per node-hour", own.source),
            Assumption("own node, as it runs", own.running_price, "money per node-hour", own.source),
            Assumption("own node, on the first day", own.capex, "money per node", own.source),
            Assumption("life of an own node", own.years, "years", own.source),
            priced("cloud", cloud, f"money per hour of {own.gpus:g} GPUs"),
            Assumption("mean use", round(curve.mean, 3), "nodes", "the curve"),
            *stated(purchase, "lead_months"),
            Assumption("use and prices", "stay as they are", "over the nodes' life", "default"),
        ),
        break_even=tuple(_break_even(own, share, nodes, when)),
        time=(
            f"Own nodes run {lead_months:g} months after they are bought; until then all is in the cloud."
            if lead_months
            else "The months until own nodes run are not counted: --lead-months does.",
            f"No workload waits: what is over {nodes} own nodes, {max(0.0, curve.node_hours - chosen.used):,.1f} node-hours,"
            " the cloud takes as fast as it can.",
        ),
        findings=(*findings, "A commitment with the cloud may beat both: gpucost whatif reserve."),
        tables=(
            Rows(
                "own nodes for the base, cloud for the peaks",
                ("own nodes", "cost", "saving", "own utilization %", "in the cloud %", "break-even month"),
                tuple(_line(split, curve, today) for split in splits.values()),
            ),
            *([_cash(own, chosen, today, curve, lead_months)] if nodes else []),
        ),
    )


def _splits(
    own: Own, cloud: Price, curve: Curve, levels: Sequence[int], currency: str, lead: float
) -> tuple[Position, dict[int, _Split]]:
    """All in the cloud, and each number of own nodes."""
    groups = {"cloud": [CostBlock(curve.node_hours, cloud.per_node_hour, own.gpus)]}
    for nodes in levels:
        for what, price in (("whole", own.price), ("running", own.running_price)):
            groups[f"{nodes} {what}"] = base_and_rest(curve, nodes, price, cloud.per_node_hour, own.gpus)
    costs = positions(currency, groups)
    splits = {}
    for nodes in levels:
        gain = (costs["cloud"].cost - costs[f"{nodes} running"].cost) / _months(curve)
        months = float(nodes * own.capex / gain) if nodes and gain > 0 else math.inf
        when = round(lead + months, 6) if months <= own.years * 12 else None
        splits[nodes] = _Split(
            nodes, costs[f"{nodes} whole"], gain, curve.utilization(nodes), curve.used(nodes), when
        )
    return costs["cloud"], splits


def _months(curve: Curve) -> Decimal:
    return to_decimal(curve.hours / HOURS_PER_MONTH)


def _line(split: _Split, curve: Curve, cloud: Position) -> Line:
    when = split.break_even_month
    return (
        split.nodes,
        round(split.whole.cost, 2),
        round(cloud.cost - split.whole.cost, 2),
        "-" if split.utilization is None else round(split.utilization * 100, 1),
        round(100 - split.used / curve.node_hours * 100, 1),
        "-" if not split.nodes else "never" if when is None else when,
    )


def _cash(own: Own, split: _Split, cloud: Position, curve: Curve, lead: float) -> Rows:
    """Cumulative cash at the end of each year of the nodes' life, which begins when they do."""
    per_month = cloud.cost / _months(curve)
    lines: list[Line] = []
    for year in (*map(float, range(math.ceil(own.years))), own.years):
        passed = to_decimal(year * 12)
        all_cloud = per_month * (passed + to_decimal(lead))
        mixed = (
            all_cloud
            - split.monthly_gain * passed
            + split.nodes * (own.capex - (own.residual if year == own.years else 0))
        )
        lines.append((year, round(all_cloud, 2), round(mixed, 2), round(all_cloud - mixed, 2)))
    columns = ("years", "all in the cloud", "own nodes and cloud", "ahead by")
    return Rows(
        "cumulative cash",
        columns,
        tuple(lines),
        "The last line has the residual value in it, where one is got back.",
    )


def _break_even(own: Own, share: float, nodes: int, when: int | None) -> Iterator[str]:
    if share <= 1:
        yield f"An own node pays for itself from {share * 100:.1f} % of its hours in use on."
    else:
        yield f"An own node never pays for itself: its hour costs {share:.2f} × the cloud's."
    if when is not None:
        yield f"Cumulative cash breaks even in month {when}."
    elif nodes:
        yield f"Cumulative cash does not break even in the {own.years:g} years that the nodes last."
