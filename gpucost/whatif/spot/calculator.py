"""A fleet described by options, on demand and on spot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpucost.whatif.answer import Answer, Assumption, Position, Range
from gpucost.whatif.fleet import CostOf, Fleet, Price, uniform
from gpucost.whatif.spot import formulas
from gpucost.whatif.spot.formulas import Work
from gpucost.whatif.spot.options import Options, Target, rate_assumption
from gpucost.whatif.spot.rates import Rate, money
from gpucost.whatif.spot.simulate import Makespans, expected_hours, simulate
from gpucost.whatif.spot.words import break_even_sentences, free_first_hours, no_discount, time_sentences

_DIGITS = 6
_PERCENTILES = (5, 50, 95)
# standard errors on either side that hold the true mean 99.9 % of the time
_NORMAL_999 = 3.29


@dataclass(frozen=True, slots=True)
class Quote:
    """Both prices of a node, how many there are and how long each is needed. `unit` GPUs are what shown prices are per."""

    on_demand: Price
    spot: Price
    nodes: int
    gpus: int
    hours: float
    currency: str
    price_per: str = "node"
    name: str = ""

    @property
    def unit(self) -> int:
        return self.gpus if self.price_per == "gpu" else 1

    def node(self, name: str, price: Decimal | float) -> Fleet:
        """One of the nodes at this price."""
        return uniform(
            name,
            nodes=1,
            gpus_per_node=self.gpus,
            hours=self.hours,
            price=Price(money(price), "option"),
            capacity_type="on_demand" if name == "on_demand" else "spot",
        )

    def costs(self, prices: Mapping[str, Decimal | float], cost_of: CostOf) -> dict[str, Decimal]:
        """What the nodes cost at each of these prices, asked of the stages at once: every price is a team of its own.

        The nodes are equal in all that a cost depends on, so one of them is asked for.
        """
        together = sum((self.node(name, price) for name, price in prices.items()), Fleet())
        return {name: cost * self.nodes for name, cost in cost_of(together).by_team.items()}


def answer(options: Options, rate: Rate, quote: Quote, cost_of: CostOf) -> Answer:
    """What moving `quote` costs, by the exact effective price; first order beside it.

    Raises UsageError where the checkpoint interval is longer than the job.
    """
    options.check(quote.hours)
    work = options.work(rate.per_hour, quote.nodes)
    spot, on_demand = float(quote.spot.per_node_hour), quote.on_demand.per_node_hour
    exact, first = spot * _finite(formulas.exact(work)), spot * formulas.first_order(work)
    simulated = simulate(work, quote.hours, options.wait_hours, options.runs, options.seed)
    expected = _finite(expected_hours(work, quote.hours))
    percentiles = _paid_percentiles(simulated)
    prices: dict[str, Decimal | float] = {"on_demand": on_demand, "exact": exact, "first_order": first}
    prices |= {name: exact * hours / expected for name, hours in percentiles.items()}
    costs = quote.costs(prices, cost_of)
    node_hours = sum(node.hours for node in quote.node("exact", exact).nodes) * quote.nodes
    as_on_demand, as_spot = (
        Position(costs[name], quote.currency, node_hours * quote.gpus, node_hours) for name in ("on_demand", "exact")
    )
    as_spot.more.update(price_per_node_hour=money(exact), cost_first_order=costs["first_order"])
    to_spot = options.to is Target.spot
    ratio = float(on_demand) / spot
    even = formulas.break_even_exact(work, ratio), formulas.break_even_first_order(work, ratio)
    figures: dict[str, Any] = {
        "price_per": quote.price_per,
        "on_demand_price": float(on_demand) / quote.unit,
        "spot_price": spot / quote.unit,
        "has_discount": spot < on_demand,
        "effective_price_first_order": round(first / quote.unit, _DIGITS),
        "effective_price_exact": round(exact / quote.unit, _DIGITS),
        "effective_price_per_gpu_hour_first_order": round(first / quote.gpus, _DIGITS),
        "effective_price_per_gpu_hour_exact": round(exact / quote.gpus, _DIGITS),
        "interruptions_per_hour": rate.per_hour,
        "break_even_interruptions_per_hour": even[0],
        "break_even_interruptions_per_hour_first_order": even[1],
        **checkpoint_figures(work),
        **per_interruption(work, spot, float(on_demand)),
        "makespan_hours": makespan_figures(quote.hours, expected, work, options.wait_hours, simulated),
    }
    return Answer(
        kind="spot",
        title=f"{quote.name or 'On demand'} to spot" if to_spot else f"{quote.name or 'Spot'} to on demand",
        period=f"{quote.nodes:,} node(s) of {quote.gpus} GPUs, {quote.hours:,g} h each",
        today=as_on_demand if to_spot else as_spot,
        scenario=as_spot if to_spot else as_on_demand,
        figures=figures,
        assumptions=(
            Assumption("on-demand price", on_demand, f"{quote.currency} per node-hour", *_origin(quote.on_demand)),
            Assumption("spot price", quote.spot.per_node_hour, f"{quote.currency} per node-hour", *_origin(quote.spot)),
            rate_assumption(rate),
            *options.assumptions(),
        ),
        ranges=_ranges(options, rate, quote, simulated, [costs[name] for name in percentiles]),
        break_even=break_even_sentences(
            even[0], even[1], rate.per_hour, quote.nodes, is_cheaper=formulas.exact(options.work(0.0)) < ratio
        ),
        time=time_sentences(figures["makespan_hours"], figures["optimal_checkpoint_minutes"]),
        findings=(
            *no_discount(spot, float(on_demand)),
            *free_first_hours(work, ratio, even[0]),
            *_formulas(first, exact, quote),
        ),
    )


def checkpoint_figures(work: Work) -> dict[str, float | None]:
    """The best intervals in minutes; None where checkpoints cost nothing, or nothing is lost."""
    best = formulas.best_checkpoints(work)
    return {
        "optimal_checkpoint_minutes": round(best.exact * 60, _DIGITS) if best else None,
        "optimal_checkpoint_minutes_young": round(best.young * 60, _DIGITS) if best else None,
        "optimal_checkpoint_minutes_daly": round(best.daly * 60, _DIGITS) if best else None,
    }


def per_interruption(work: Work, spot: float, on_demand: float) -> dict[str, float | None]:
    """Money per node, at prices per node-hour: what an interruption loses, and what was saved since the one before."""
    between = (on_demand - spot) / work.gang_rate if work.gang_rate else None
    return {
        "lost_per_interruption": round(spot * (work.lost + work.restart), _DIGITS),
        "saved_between_interruptions": None if between is None else round(between, _DIGITS),
    }


def makespan_figures(
    hours: float, expected: float, work: Work, wait: float, simulated: Makespans | None
) -> dict[str, float | int | None]:
    """Hours from start to end, waits for capacity among them: expected exactly, and as simulated."""
    interruptions = expected * work.gang_rate
    figures: dict[str, float | int | None] = {
        "without_interruptions": hours,
        "expected": round(expected + wait * interruptions, _DIGITS),
        "expected_paid": round(expected, _DIGITS),
        "expected_interruptions": round(interruptions, _DIGITS),
    }
    if simulated is None:
        return figures | {"runs": 0}
    import numpy as np

    mean, error = float(simulated.elapsed.mean()), float(simulated.elapsed.std(ddof=1)) / len(simulated.elapsed) ** 0.5
    figures |= {
        "runs": len(simulated.elapsed),
        "mean": round(mean, _DIGITS),
        "mean_low": round(mean - _NORMAL_999 * error, _DIGITS),
        "mean_high": round(mean + _NORMAL_999 * error, _DIGITS),
    }
    values = np.percentile(simulated.elapsed, _PERCENTILES)
    return figures | {f"p{at}": round(float(value), _DIGITS) for at, value in zip(_PERCENTILES, values, strict=True)}


def _paid_percentiles(simulated: Makespans | None) -> dict[str, float]:
    """Paid hours of a node that 5 % and 95 % of runs stay within."""
    if simulated is None:
        return {}
    import numpy as np

    low, high = np.percentile(simulated.paid, (5, 95))
    return {"p5": float(low), "p95": float(high)}


def _ranges(
    options: Options, rate: Rate, quote: Quote, simulated: Makespans | None, costs: Sequence[Decimal]
) -> tuple[Range, ...]:
    spans = []
    if simulated is not None:
        import numpy as np

        low, high = (float(value) for value in np.percentile(simulated.elapsed, (5, 95)))
        meaning = f"5 % to 95 % of {len(simulated.paid):,} simulated runs"
        spans.append(Range("makespan", round(low, 3), round(high, 3), "hours", meaning))
        spans.append(Range("cost on spot", min(costs), max(costs), quote.currency, meaning))
    if rate.low is not None and rate.high is not None:
        ends = [formulas.exact(options.work(end, quote.nodes)) * float(quote.spot.per_node_hour) for end in (rate.low, rate.high)]
        if all(price < float("inf") for price in ends):
            shown = [round(price / quote.unit, _DIGITS) for price in ends]
            unit = f"{quote.currency} per {quote.price_per}-hour"
            spans.append(Range("effective price", min(shown), max(shown), unit, "at both ends of what is known of interruptions"))
    return tuple(spans)


def _formulas(first: float, exact: float, quote: Quote) -> tuple[str, ...]:
    unit = f"{quote.currency} per useful {quote.price_per}-hour"
    return (f"effective price: {first / quote.unit:,.4f} by first order, {exact / quote.unit:,.4f} exactly, {unit}",)


def _origin(price: Price) -> tuple[str, str | None]:
    return price.source, price.as_of


def _finite(value: float) -> float:
    """Raises UsageError for work that never ends."""
    from gpucost.errors import UsageError

    if value > 1e9:
        raise UsageError(
            "interrupted so often, this work would practically never end", "more checkpoints, or fewer interruptions per hour"
        )
    return value
