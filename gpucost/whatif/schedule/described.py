"""Options that describe nodes which are needed only for some hours, as the calculator takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucost.errors import UsageError
from gpucost.whatif.answer import Assumption
from gpucost.whatif.described import DAYS, PricePer, days_counted, node_price, node_shape
from gpucost.whatif.fleet import HOURS_PER_MONTH
from gpucost.whatif.schedule.calculator import Options

if TYPE_CHECKING:
    from decimal import Decimal

    from gpucost.whatif.schedule.hours import OfficeHours


def described(
    *,
    on_demand_price: Decimal | None,
    spot_price: Decimal | None,
    price_per: PricePer,
    nodes: int | None,
    gpus: int | None,
    hours: float | None,
    active_hours_per_day: float | None,
    days: int | None,
    provision_minutes: float | None,
    office: OfficeHours | None,
    currency: str,
) -> Options:
    """The calculator's options. Raises UsageError where they do not say enough, or contradict."""
    if on_demand_price is None:
        raise UsageError("what a node costs now is not told", "--on-demand-price 32.77 tells it, per hour")
    if (active_hours_per_day is None) == (office is None):
        raise UsageError(
            "the hours that nodes are needed are told twice" if office else "the hours that nodes are needed are not told",
            "either --active-hours-per-day 10 or --office-hours 08:00-18:00 tells them",
        )
    count, per_node = node_shape(nodes, gpus)
    counted = days_counted(days, active_hours_per_day)
    # more days than a month has are all of them today
    longest = max(HOURS_PER_MONTH, 24 * counted) if counted > DAYS else HOURS_PER_MONTH
    always = longest if hours is None else hours
    told = [
        Assumption("on-demand price", on_demand_price, f"per {price_per}-hour", "option"),
        Assumption("always on", always, "hours", "default" if hours is None else "option"),
        Assumption("nodes", count, "nodes", "default" if nodes is None else "option"),
        Assumption("GPUs of a node", per_node, "GPUs", "default" if gpus is None else "option"),
    ]
    if spot_price is not None:
        told.append(Assumption("spot price", spot_price, f"per {price_per}-hour", "option"))
    if office is not None:
        active = always * office.share_of_week
        starts = round(always / 168 * len(office.weekdays))
        told.append(Assumption("office hours", round(active, 4), f"of {always:g} hours", "option"))
    else:
        active, starts = (active_hours_per_day or 0.0) * counted, counted
        told.append(Assumption("needed", active_hours_per_day, "hours a day", "option"))
        told.append(Assumption("days", counted, "days", "default" if days is None else "option"))
        if active > always:
            raise UsageError(
                f"{active_hours_per_day:g} hours on {counted} days are {active:g}, more than the {always:g} that nodes are on",
                "--hours says how long nodes are on today, --days how many days are counted",
            )
    told.append(
        Assumption(
            "a node is provisioned in", provision_minutes or 0.0, "minutes", "default" if provision_minutes is None else "option"
        )
    )
    return Options(
        nodes=count,
        gpus_per_node=per_node,
        on_demand_price=node_price(on_demand_price, price_per, per_node),
        active_hours=active,
        currency=currency,
        hours=always,
        spot_price=node_price(spot_price, price_per, per_node) if spot_price is not None else None,
        starts=starts,
        provision_minutes=provision_minutes or 0.0,
        told=tuple(told),
    )
