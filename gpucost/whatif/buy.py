"""Own nodes next to the cloud: how many for the base load, when they have paid for themselves, and what the peaks still cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from itertools import chain
from typing import Annotated, Any, NamedTuple

from gpucost.errors import GpucostError
from gpucost.options import Option, OptionGroup
from gpucost.periods import Period
from gpucost.records import record
from gpucost.whatif.answer import Answer, Assumption, Line, Position, Rows, old_prices, priced, stated
from gpucost.whatif.cost import base_and_rest, fleet_costs, position
from gpucost.whatif.curve import Curve, DescribedCurve, Evidence, counted
from gpucost.whatif.flags import HOURS_PER_MONTH, kept, to_decimal
from gpucost.whatif.fleet import Fleet, Node, Pod, Price

_ROWS = 9
_COLUMNS = (
    "own nodes",
    "cost",
    "saving",
    "own utilization %",
    "in the cloud %",
    "break-even month",
    "purchase",
)


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
    held: Sequence[Node | Pod] = same.nodes
    paid, gpu_hours = costs.node_cost, costs.gpu_hours
    if is_narrowed:
        held, paid, gpu_hours = same.pods, costs.cost, costs.allocated_gpu_hours
    if not paid or not gpu_hours:
        raise GpucostError(
            f"the {gpu_model} nodes of {period} have no price", "gpucost report says how to give them one"
        )
    spans = ((one.from_ms, one.to_ms, one.gpus / own_gpus) for one in held)
    kinds = sorted({node.capacity_type.replace("_", " ") for node in same.nodes})
    prices = chain.from_iterable(node.prices for node in same.nodes)
    cloud = Price(
        kept(paid / to_decimal(gpu_hours) * to_decimal(own_gpus)),
        f"store: mean of {', '.join(kinds)}",
        max((price.as_of for price in prices if price.as_of), default=None),
    )
    return counted(spans, period.start_ms, period.end_ms), cloud


@record
class _Split:
    """`nodes` own ones for the base, the cloud for the rest."""

    own: Own
    cloud: Price
    curve: Curve
    nodes: int
    lead_months: float
    currency: str

    @property
    def used(self) -> float:
        """Node-hours on own nodes."""
        return self.curve.used(self.nodes)

    @property
    def all_cloud(self) -> Position:
        """Without own nodes."""
        return self._position(0, self.own.price)

    @property
    def mixed(self) -> Position:
        """The whole cost of own nodes, and the cloud's."""
        return self._position(self.nodes, self.own.price)

    @property
    def saving(self) -> Decimal:
        return self.all_cloud.cost - self.mixed.cost

    def _position(self, nodes: int, price: Decimal) -> Position:
        blocks = base_and_rest(self.curve, nodes, price, self.cloud.per_node_hour, self.own.gpus)
        return position(self.currency, blocks)

    def _per_month(self, cost: Decimal) -> Decimal:
        return cost * HOURS_PER_MONTH / to_decimal(self.curve.hours)

    @property
    def monthly_gain(self) -> Decimal:
        """Cash that is saved per month, once the nodes are bought."""
        running = self._position(self.nodes, self.own.running_price)
        return self._per_month(self.all_cloud.cost - running.cost)

    @property
    def break_even_months(self) -> float | None:
        """From buying until cumulative cash is no more than the cloud's; None: not in the nodes' life."""
        gain = self.monthly_gain
        months = float(self.nodes * self.own.capex / gain) if self.nodes and gain > 0 else math.inf
        return round(self.lead_months + months, 6) if months <= self.own.years * 12 else None

    @property
    def break_even_month(self) -> int | None:
        return None if self.break_even_months is None else math.ceil(self.break_even_months)

    @property
    def line(self) -> Line:
        when, share = self.break_even_month, self.curve.utilization(self.nodes)
        return (
            self.nodes,
            round(self.mixed.cost, 2),
            round(self.saving, 2),
            "-" if share is None else round(share * 100, 1),
            round(100 - self.used / self.curve.node_hours * 100, 1),
            "-" if not self.nodes else "never" if when is None else when,
            round(self.nodes * self.own.capex, 2),
        )

    def cash(self, year: float) -> Line:
        """Cumulative cash at the end of a year of the nodes' life, which begins when they do."""
        months, own = to_decimal(year * 12), self.own
        all_cloud = self._per_month(self.all_cloud.cost) * (months + to_decimal(self.lead_months))
        bought = self.nodes * (own.capex - (own.residual if year == own.years else 0))
        ahead = self.monthly_gain * months - bought
        return year, round(all_cloud, 2), round(all_cloud - ahead, 2), round(ahead, 2)


def answer(
    own: Own,
    cloud: Price,
    curve: Curve,
    evidence: Evidence,
    *,
    currency: str,
    period: str,
    purchase: Purchase,
    bought_on: date,
    assumptions: Sequence[Assumption] = (),
    stale_after_days: int = 90,
) -> Answer:
    """All in the cloud against own nodes for the base load and the cloud above it, over the period of the curve.

    `cloud` is its price per hour of as many GPUs as an own node has. Own nodes are paid in all hours; their number follows the
    rules of commitments.
    """
    share = float(own.price / cloud.per_node_hour)
    safe, peak, lead = evidence.safe_level(curve, share), math.ceil(curve.peak), purchase.lead_months
    nodes = safe if purchase.own_nodes is None else purchase.own_nodes
    # none, all at the peak, the chosen number, those next to it, and some between
    some = range(0, peak, max(1, math.ceil(peak / (_ROWS - 4))))
    levels = sorted({0, peak, nodes, max(0, nodes - 1), nodes + 1, *some})
    split = _Split(own, cloud, curve, nodes, lead, currency)
    lines = [replace(split, nodes=level).line for level in levels]
    cash = (
        [split.cash(year) for year in (*map(float, range(math.ceil(own.years))), own.years)] if nodes else []
    )
    return Answer(
        kind="buy",
        title=f"Own nodes beside the cloud: {nodes} of {curve.peak:,.1f} at the peak"
        + old_prices([("the cloud", cloud)], bought_on, stale_after_days),
        period=period,
        today=split.all_cloud,
        scenario=replace(split.mixed, more={"own_nodes": nodes}),
        figures=_figures(split, share),
        assumptions=(*assumptions, *_assumptions(split, purchase)),
        break_even=tuple(_break_even(split, share)),
        time=(
            f"Own nodes run {lead:g} months after they are bought; until then all is in the cloud."
            if lead
            else "The months until own nodes run are not counted: --lead-months does.",
            f"No workload waits: what is over {nodes} own nodes, {max(0.0, curve.node_hours - split.used):,.1f} node-hours,"
            " the cloud takes as fast as it can.",
        ),
        findings=tuple(_findings(split, safe, evidence)),
        tables=(
            Rows("own nodes for the base, cloud for the peaks", _COLUMNS, tuple(lines)),
            *Rows.of(
                "cumulative cash",
                ("years", "all in the cloud", "own nodes and cloud", "ahead by"),
                cash,
                "The last line has the residual value in it, where one is got back.",
            ),
        ),
    )


def _figures(split: _Split, share: float) -> dict[str, Any]:
    own, nodes, use = split.own, split.nodes, split.curve.utilization(split.nodes)
    return {
        "price_per": "node",
        "own_nodes": nodes,
        "own_price": own.price,
        "own_running_price": own.running_price,
        "cloud_price": split.cloud.per_node_hour,
        "obligation": nodes * own.capex,
        "capex": nodes * own.capex,
        "residual": nodes * own.residual,
        "break_even_month": split.break_even_month,
        "break_even_months": split.break_even_months,
        "break_even_utilization_percent": round(share * 100, 6),
        "own_utilization_percent": use and round(use * 100, 6),
        "base_load_percent": round(split.used / split.curve.node_hours * 100, 6),
        "monthly_cash_saving": round(split.monthly_gain, 6),
    }


def _assumptions(split: _Split, purchase: Purchase) -> Iterator[Assumption]:
    own, per_hour = split.own, "money per node-hour"
    yield Assumption("own node, whole cost", own.price, per_hour, own.source)
    yield Assumption("own node, as it runs", own.running_price, per_hour, own.source)
    yield Assumption("own node, on the first day", own.capex, "money per node", own.source)
    yield Assumption("life of an own node", own.years, "years", own.source)
    yield priced("cloud", split.cloud, f"money per hour of {own.gpus:g} GPUs")
    yield Assumption("mean use", round(split.curve.mean, 3), "nodes", "the curve")
    yield from stated(purchase, "lead_months")
    yield Assumption("use and prices", "stay as they are", "over the nodes' life", "default")


def _break_even(split: _Split, share: float) -> Iterator[str]:
    if share <= 1:
        yield f"An own node pays for itself from {share * 100:.1f} % of its hours in use on."
    else:
        yield f"An own node never pays for itself: its hour costs {share:.2f} × the cloud's."
    if split.break_even_month is not None:
        yield f"Cumulative cash breaks even in month {split.break_even_month}."
    elif split.nodes:
        yield f"Cumulative cash does not break even in the {split.own.years:g} years that the nodes last."


def _findings(split: _Split, safe: int, evidence: Evidence) -> Iterator[str]:
    if evidence.shortage:
        yield evidence.shortage
    elif not safe:
        yield "No own node is safe to buy: it must be in use as much as a commitment (gpucost whatif reserve)."
    if split.saving < 0:
        yield "Own nodes cost more than the cloud here."
    if split.nodes != safe:
        yield f"{safe} own nodes are advised; {split.nodes} were requested."
    yield "A commitment with the cloud may beat both: gpucost whatif reserve."
