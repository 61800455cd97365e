"""The answer of every `gpucost unit` command: rows, totals and further lists, rendered elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpucost.model import MS_PER_HOUR, from_ms, iso

if TYPE_CHECKING:
    from gpucost.units.ask import UnitAsk

_PLACES = Decimal("0.000000001")
Item = dict[str, Any]


@dataclass(slots=True)
class UnitView:
    """`rows` and the lists in `sections` are dicts of the same keys each; money is Decimal, moments are ISO 8601 in UTC.

    `shown` names the columns of tables for people: of the rows ("rows"), and of each section.
    """

    schema: str
    title: str
    ask: UnitAsk
    rows: list[Item]
    totals: Item
    sections: dict[str, list[Item]] = field(default_factory=dict)
    shown: dict[str, tuple[str, ...]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def per(cost: Decimal, amount: float | Decimal | None, scale: int = 1) -> Decimal | None:
    """`cost` ÷ `amount` × `scale`; None where nothing was done."""
    if not amount:
        return None
    return (cost * scale / Decimal(str(amount))).quantize(_PLACES)


def hours(gpu_ms: float) -> float:
    """GPU-hours of GPU-milliseconds."""
    return round(gpu_ms / MS_PER_HOUR, 9)


def moment(ms: int | None) -> str | None:
    """ISO 8601 of a moment in milliseconds."""
    return None if ms is None else iso(from_ms(ms))


def amount(value: float) -> float | int:
    """Work as it is shown: whole numbers without a point."""
    return int(value) if float(value).is_integer() else round(float(value), 6)


def without_cost(rows: list[Item]) -> list[Item]:
    """Work that no cost belongs to, as rows of a view."""
    return [
        {
            "workload": row["workload"],
            "namespace": row["namespace"],
            "model": row["model"] or None,
            "unit": row["unit"],
            "amount": amount(row["amount"]),
            "failed": amount(row["failed"]),
            "since": row["first_day"],
            "source": row["source"],
            "why": "no pod with GPUs is known by this name" if row["is_unknown"] else "its pods cost nothing on that day",
        }
        for row in rows
    ]


def cost_without_work(rows: list[Item]) -> list[Item]:
    """Cost that no work of the unit asked for belongs to, as rows of a view."""
    return [
        {
            "cluster": row["cluster"],
            "namespace": row["namespace"],
            "workload": row["workload"],
            "team": row["team"],
            "cost": row["cost"],
            "idle_cost": row["idle_cost"],
            "allocated_gpu_hours": round(row["allocated_gpu_hours"], 9),
            "has_other_work": row["has_other_work"],
        }
        for row in rows
    ]
