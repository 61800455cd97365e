"""Own nodes beside the cloud: how many for the base load, when they have paid for themselves, and what the peaks still cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from gpucost.errors import GpucostError
from gpucost.periods import Period
from gpucost.whatif.answer import Answer, Assumption, Position, Rows, Value
from gpucost.whatif.cost import Block, kept, positions
from gpucost.whatif.curve import Curve, counted
from gpucost.whatif.fleet import HOURS_PER_MONTH, Fleet, Price, Scenario

_ROWS = 9
_COLUMNS = ("own nodes", "cost", "saving", "own utilization %", "in the cloud %", "break-even month")


@dataclass(frozen=True, slots=True)
class Own:
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


@dataclass(frozen=True, slots=True)
class _Split:
    """`nodes` own ones for the base, the cloud for the rest: by whole cost, and by cash as it is paid."""

    nodes: int
    whole: Position
    running: Position

    def monthly_gain(self, cloud: Position, months: float) -> Decimal:
        """Cash that is saved per month, once the nodes are bought."""
        return (cloud.cost - self.running.cost) / Decimal(repr(months))

    def break_even_months(self, own: Own, cloud: Position, months: float, lead: float) -> float | None:
        """Months from buying until cumulative cash is no more than the cloud's; None where not in the nodes' life."""
        gain = self.monthly_gain(cloud, months)
        if not self.nodes or gain <= 0:
            return None
        needed = float(self.nodes * own.capex / gain)
        return round(lead + needed, 6) if needed <= own.years * 12 else None


def cloud_usage(
    fleet: Fleet, period: Period, gpu_model: str, own_gpus: float, *, is_narrowed: bool
) -> Scenario[tuple[Curve, Price]]:
    """What of the fleet own nodes of that model could have been, hour by hour, and what the cloud asked for it on the mean.

    In own nodes of `own_gpus` GPUs. `is_narrowed`: by what the fleet's pods hold; else by whole nodes, used or not.
    Raises GpucostError where the fleet has no such GPU, or they cost nothing.
    """
    same = fleet.with_nodes(lambda node: node if node.gpu_model == gpu_model else None)
    if not same.nodes:
        there = sorted({node.gpu_model for node in fleet.nodes if node.gpu_model})
        raise GpucostError(
            f"no {gpu_model} was used in {period}",
            f"--gpu-model takes one of {', '.join(there)}"
            if there
            else "--nodes and --on-demand-price describe the cloud instead",
        )
    (costs,) = yield (same,)
    spans = (
        ((pod.from_ms, pod.to_ms, pod.gpus / own_gpus) for pod in same.pods)
        if is_narrowed
        else ((node.from_ms, node.to_ms, node.gpus / own_gpus) for node in same.nodes)
    )
    paid, gpu_hours = (costs.cost, costs.allocated_gpu_hours) if is_narrowed else (costs.node_cost, costs.gpu_hours)
    if not paid or not gpu_hours:
        raise GpucostError(f"the {gpu_model} nodes of {period} have no price", "gpucost report says how to give them one")
    price = kept(paid / Decimal(repr(gpu_hours)) * Decimal(repr(own_gpus)))
    kinds = sorted({node.capacity_type.replace("_", " ") for node in same.nodes})
    days = [price.as_of for node in same.nodes for price in node.prices if price.as_of]
    return counted(spans, period.start_ms, period.end_ms), Price(
        price, f"store: mean of {', '.join(kinds)}", max(days, default=None)
    )


def answer(
    own: Own,
    cloud: Price,
    curve: Curve,
    *,
    currency: str,
    period: str,
    own_nodes: int | None = None,
    lead_months: float = 0.0,
    assumptions: Sequence[Assumption] = (),
) -> Scenario[Answer]:
    """All in the cloud against own nodes for the base load and the cloud above it, over the period of the curve.

    `cloud` is its price per hour of as many GPUs as an own node has. The number of own nodes is the one that costs least, unless
    `own_nodes` gives it. Own nodes are paid in all hours.
    """
    share = float(own.price / cloud.per_node_hour)
    nodes = curve.best_level(share) if own_nodes is None else own_nodes
    today, splits = yield from _costs(own, cloud, curve, _levels(curve, nodes), currency)
    chosen, months = splits[nodes], curve.hours / HOURS_PER_MONTH
    breaks = {split.nodes: split.break_even_months(own, today, months, lead_months) for split in splits.values()}
    when = breaks[nodes]
    utilization = curve.utilization(nodes)
    return Answer(
        kind="buy",
        title=f"Own nodes beside the cloud: {nodes} of {curve.peak:,.1f} at the peak",
        period=period,
        today=today,
        scenario=Position(chosen.whole.cost, currency, chosen.whole.gpu_hours, chosen.whole.node_hours, {"own_nodes": nodes}),
        figures={
            "price_per": "node",
            "own_nodes": nodes,
            "own_price": own.price,
            "own_running_price": own.running_price,
            "cloud_price": cloud.per_node_hour,
            "capex": nodes * own.capex,
            "residual": nodes * own.residual,
            "break_even_month": None if when is None else math.ceil(round(when, 6)),
            "break_even_months": when,
            "break_even_utilization_percent": round(share * 100, 6),
            "own_utilization_percent": None if utilization is None else round(utilization * 100, 6),
            "base_load_percent": round(curve.used(nodes) / curve.node_hours * 100, 6),
            "monthly_cash_saving": round(chosen.monthly_gain(today, months), 6),
        },
        assumptions=(*assumptions, *_assumptions(own, cloud, curve, lead_months)),
        break_even=_break_even(own, share, nodes, when),
        time=_time(lead_months, curve, nodes),
        findings=_findings(own_nodes, nodes, share, curve, chosen, today),
        tables=(
            Rows(
                "own nodes for the base, cloud for the peaks",
                _COLUMNS,
                tuple(_line(s, curve, today, breaks) for s in splits.values()),
            ),
            *([_cash(own, chosen, today, months, lead_months)] if nodes else []),
        ),
    )


def _levels(curve: Curve, nodes: int) -> list[int]:
    """Numbers of own nodes to show: none, all at the peak, the chosen one, those beside it, and some between."""
    peak = math.ceil(curve.peak)
    step = max(1, math.ceil(peak / (_ROWS - 4)))
    return sorted({0, peak, nodes, max(0, nodes - 1), nodes + 1, *range(0, peak, step)})


def _costs(
    own: Own, cloud: Price, curve: Curve, levels: Iterable[int], currency: str
) -> Scenario[tuple[Position, dict[int, _Split]]]:
    groups = {"cloud": [Block(curve.node_hours, cloud.per_node_hour, own.gpus)]}
    for nodes in levels:
        peaks = Block(max(0.0, curve.node_hours - curve.used(nodes)), cloud.per_node_hour, own.gpus)
        groups[f"{nodes} whole"] = [Block(nodes * curve.hours, own.price, own.gpus), peaks]
        groups[f"{nodes} running"] = [Block(nodes * curve.hours, own.running_price, own.gpus), peaks]
    told = yield from positions(currency, groups)
    return told["cloud"], {nodes: _Split(nodes, told[f"{nodes} whole"], told[f"{nodes} running"]) for nodes in levels}


def _line(split: _Split, curve: Curve, cloud: Position, breaks: dict[int, float | None]) -> tuple[Value, ...]:
    used, when = curve.utilization(split.nodes), breaks[split.nodes]
    return (
        split.nodes,
        round(split.whole.cost, 2),
        round(cloud.cost - split.whole.cost, 2),
        "-" if used is None else round(used * 100, 1),
        round(100 - curve.used(split.nodes) / curve.node_hours * 100, 1),
        "-" if not split.nodes else "never" if when is None else math.ceil(when),
    )


def _cash(own: Own, split: _Split, cloud: Position, months: float, lead: float) -> Rows:
    """Cumulative cash at the end of each year of the nodes' life, which begins when they do."""
    per_month, gain = cloud.cost / Decimal(repr(months)), split.monthly_gain(cloud, months)
    lines: list[tuple[Value, ...]] = []
    life = [float(year) for year in range(math.ceil(own.years))] + [own.years]
    for year in life:
        passed = Decimal(repr(year * 12))
        all_cloud = per_month * (passed + Decimal(repr(lead)))
        mixed = all_cloud - gain * passed + split.nodes * own.capex - (split.nodes * own.residual if year == own.years else 0)
        lines.append((year, round(all_cloud, 2), round(mixed, 2), round(all_cloud - mixed, 2)))
    columns = ("years", "all in the cloud", "own nodes and cloud", "ahead by")
    return Rows(
        "cumulative cash", columns, tuple(lines), note="The last line has the residual value in it, where one is got back."
    )


def _assumptions(own: Own, cloud: Price, curve: Curve, lead: float) -> list[Assumption]:
    return [
        Assumption("own node, whole cost", own.price, "money per node-hour", own.source),
        Assumption("own node, as it runs", own.running_price, "money per node-hour", own.source),
        Assumption("own node, on the first day", own.capex, "money per node", own.source),
        Assumption("life of an own node", own.years, "years", own.source),
        Assumption("cloud", cloud.per_node_hour, f"money per hour of {own.gpus:g} GPUs", cloud.source, cloud.as_of),
        Assumption("mean use", round(curve.mean, 3), "nodes", "the curve"),
        Assumption("months from buying to running", lead, "months", "option" if lead else "default"),
        Assumption("use and prices", "stay as they are", "over the nodes' life", "default"),
    ]


def _break_even(own: Own, share: float, nodes: int, when: float | None) -> tuple[str, ...]:
    said = [
        f"An own node pays for itself from {share * 100:.1f} % of its hours in use on."
        if share <= 1
        else f"An own node never pays for itself: its hour costs {share:.2f} × the cloud's."
    ]
    if nodes:
        said.append(
            f"Cumulative cash breaks even in month {math.ceil(when)}."
            if when is not None
            else f"Cumulative cash does not break even in the {own.years:g} years that the nodes last."
        )
    return tuple(said)


def _time(lead: float, curve: Curve, nodes: int) -> tuple[str, ...]:
    waits = (
        f"Own nodes run {lead:g} months after they are bought; until then all is in the cloud."
        if lead
        else "The months until own nodes run are not counted: --lead-months does."
    )
    above = max(0.0, curve.node_hours - curve.used(nodes))
    return (
        waits,
        f"No workload waits: what is over {nodes} own nodes, {above:,.1f} node-hours, the cloud takes as fast as it can.",
    )


def _findings(asked: int | None, nodes: int, share: float, curve: Curve, chosen: _Split, cloud: Position) -> tuple[str, ...]:
    said = ["A commitment with the cloud may beat both: gpucost whatif reserve."]
    best = curve.best_level(share)
    if asked is not None and asked != best:
        said.insert(0, f"{best} own nodes would cost least; {nodes} were asked for.")
    if not nodes:
        said.insert(0, "At no level of use that was seen does an own node cost less than the cloud.")
    elif chosen.whole.cost > cloud.cost:
        said.insert(0, "Own nodes cost more than the cloud here.")
    return tuple(said)
