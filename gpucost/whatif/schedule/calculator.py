"""Scaling nodes to zero, from options alone: always on against the hours that are needed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal

from gpucost.whatif.answer import Answer, Assumption, Position
from gpucost.whatif.fleet import HOURS_PER_MONTH, CostOf, Price, uniform


@dataclass(frozen=True, slots=True)
class Options:
    """Prices per node-hour. A node is needed `active_hours` of its `hours` today, and starts `starts` times meanwhile."""

    nodes: int
    gpus_per_node: int
    on_demand_price: Decimal
    active_hours: float
    currency: str
    hours: float = HOURS_PER_MONTH
    spot_price: Decimal | None = None
    starts: int = 0
    provision_minutes: float = 0.0
    told: tuple[Assumption, ...] = field(default_factory=tuple)


def answer(options: Options, cost_of: CostOf) -> Answer:
    """Today (on demand, up all the time) against up when needed, at the spot price where one is given."""
    paid = min(options.active_hours + options.starts * options.provision_minutes / 60, options.hours)
    price = options.spot_price or options.on_demand_price
    today = _position(options, options.hours, options.on_demand_price, "on_demand", cost_of)
    scenario = _position(options, paid, price, "spot" if options.spot_price else "on_demand", cost_of)
    even = float(options.on_demand_price / price) * options.hours
    reachable = even < options.hours
    return Answer(
        kind="schedule",
        title="Nodes scaled to zero when they are not needed",
        period=f"{options.hours:g} hours",
        today=today,
        scenario=replace(scenario, more={"hours_per_node": round(paid, 6)}),
        figures={
            "waits": options.starts * options.nodes if options.provision_minutes else 0,
            "wait_hours": round(options.starts * options.nodes * options.provision_minutes / 60, 6),
            "longest_wait_minutes": options.provision_minutes if options.starts else 0.0,
            "break_even_hours": round(min(even, options.hours), 6),
        },
        assumptions=options.told,
        break_even=(
            f"It saves as long as a node is needed less than {even:,.1f} of {options.hours:,.1f} hours."
            if reachable
            else f"It saves as long as a node is needed less than all of the {options.hours:,.1f} hours"
            + (", and even then, as spot is cheaper." if even > options.hours else "."),
        ),
        time=_time(options),
    )


def _position(options: Options, hours: float, price: Decimal, capacity_type: str, cost_of: CostOf) -> Position:
    """So many times one of the nodes: they are equal in all that a cost depends on."""
    one = uniform(
        "nodes",
        nodes=1,
        gpus_per_node=options.gpus_per_node,
        hours=hours,
        price=Price(price, "option"),
        capacity_type=capacity_type,
    )
    return Position.of(cost_of(one), options.currency) * options.nodes


def _time(options: Options) -> tuple[str, ...]:
    if not options.provision_minutes:
        return ("Provisioning is not counted: --provision-minutes says how long a node takes to come up, each day.",)
    minutes = options.provision_minutes
    return (f"{options.starts} starts, each {minutes:g} minutes of waiting that are paid; a node's work begins so much later.",)
