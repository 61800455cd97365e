"""What a unit of work costs by numbers that are given, without a store."""

from __future__ import annotations

from decimal import Decimal

from gpucost.errors import UsageError
from gpucost.questions.units.query import per
from gpucost.records import record
from gpucost.shapes import Shape

_SCALES = {"epoch": 1, "request": 1000, "token": 1_000_000}


@record
class UnitPrice(Shape):
    """What `gpucost unit` prints of described work: `cost` is of `per` units, `planned_cost` of all that are planned."""

    unit: str
    currency: str
    gpus: Decimal
    price_per_gpu_hour: Decimal
    units_per_hour: Decimal
    busy_percent: Decimal
    cost_per_hour: Decimal
    per: int
    cost: Decimal
    planned: int | None
    planned_hours: Decimal | None
    planned_cost: Decimal | None


def unit_price(
    unit: str,
    currency: str,
    *,
    gpus: Decimal,
    price_per_gpu_hour: Decimal,
    units_per_hour: Decimal,
    busy_percent: Decimal,
    planned: int | None,
) -> UnitPrice:
    """Paid hours × price ÷ units done in them: 1 of an epoch, 1,000 of a request, a million of a token.

    `units_per_hour` are done by all GPUs while they work, `busy_percent` of the hours that are paid.
    """
    per_hour, scale = gpus * price_per_gpu_hour, _SCALES[unit]
    done = units_per_hour * busy_percent / 100  # in an hour that is paid
    cost = per(per_hour, done, scale)
    if cost is None:
        raise UsageError(f"no {unit} is ever done", "a rate above 0 is needed")
    hours = None if planned is None else planned / done
    return UnitPrice(
        unit,
        currency,
        gpus,
        price_per_gpu_hour,
        units_per_hour,
        busy_percent,
        per_hour,
        scale,
        cost,
        planned,
        hours and hours.quantize(Decimal("0.000001")),
        hours and (hours * per_hour).quantize(Decimal("0.000000001")),
    )
