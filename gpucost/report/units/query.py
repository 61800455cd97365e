"""What a unit cost is asked for, and the temporary tables that every answer begins with."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from typing_extensions import TypedDict

from gpucost.engine import dicts, run_stage
from gpucost.periods import MS_PER_HOUR, Period, from_ms, iso, local_days, local_midnight, to_ms
from gpucost.store import sqlfiles
from gpucost.store.usage import nothing_used

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duckdb import DuckDBPyConnection

PACKAGE = "gpucost.report.units"
Place = tuple[str, str, str]

# `from` is a word of Python's; moments are ISO 8601 in UTC
Span = TypedDict("Span", {"from": str, "to": str})
OpenSpan = TypedDict("OpenSpan", {"from": str | None, "to": str | None})


class Located(TypedDict):
    """Whose it is."""

    cluster: str
    namespace: str
    workload: str
    team: str


class WorkWithoutCost(TypedDict):
    """Work that no cost belongs to; `since` a day or a moment."""

    workload: str | None
    namespace: str | None
    unit: str
    amount: float
    failed: float
    since: str | None
    source: str | None
    why: str


class ModelWithoutCost(WorkWithoutCost):
    """The same of a model."""

    model: str | None


class CostWithoutWork(Located):
    """Cost that no work of the unit asked for belongs to."""

    cost: Decimal
    idle_cost: Decimal
    allocated_gpu_hours: float
    has_other_work: bool


class UnitTotals(TypedDict):
    """`allocated_cost` is cost and cost_without_work."""

    cost: Decimal
    idle_cost: Decimal
    cost_without_work: Decimal
    allocated_cost: Decimal


class UnitAnswer(Span):
    """What all answers of `gpucost unit` have."""

    currency: str
    cost_without_work: list[CostWithoutWork]
    notes: list[str]


@dataclass(frozen=True, slots=True)
class UnitAsk:
    """A period and filters; empty filters take everything. `currency` names the money of the store."""

    period: Period
    period_name: str
    tz: ZoneInfo
    currency: str
    teams: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()

    @property
    def is_narrowed(self) -> bool:
        """Whether only some workloads are asked for, so that work of unknown ones has no place in the answer."""
        return bool(self.teams or self.namespaces or self.workloads or self.clusters)


_DAYS = """
CREATE OR REPLACE TEMP TABLE unit_days AS
SELECT unnest($from_ms::BIGINT[]) AS from_ms, unnest($to_ms::BIGINT[]) AS to_ms, unnest($day::VARCHAR[]) AS day"""


def prepare(con: DuckDBPyConnection, ask: UnitAsk) -> None:
    """Makes unit_days, unit_cells and unit_candidates for the period. Raises GpucostError where the filters leave nothing."""
    days = list(local_days(ask.period, ask.tz))
    starts = [max(to_ms(local_midnight(day, ask.tz)), ask.period.start_ms) for day in days]
    ends = [*starts[1:], ask.period.end_ms]
    sqlfiles.run(con, "filters")
    con.execute(_DAYS, {"from_ms": starts, "to_ms": ends, "day": [day.isoformat() for day in days]})
    filters = {
        "teams": list(ask.teams),
        "namespaces": list(ask.namespaces),
        "workloads": list(ask.workloads),
        "clusters": list(ask.clusters),
    }
    run_stage(con, PACKAGE, "20_cells", {"from_ms": ask.period.start_ms, "to_ms": ask.period.end_ms, **filters})
    (found,) = con.execute("SELECT count(*) FROM unit_cells WHERE is_asked").fetchall()[0]
    if ask.is_narrowed and not found:
        raise nothing_used(con, ask.period.start_ms, ask.period.end_ms, ask.period_name, **filters)
    run_stage(con, PACKAGE, "30_candidates")


# What workloads cost of which no work is known, and whether other work than asked for is.
_WITHOUT_WORK = """
SELECT c.cluster, c.namespace, c.workload, string_agg(DISTINCT c.team, ', ' ORDER BY c.team) AS team, sum(c.cost) AS cost,
    sum(c.idle_cost) AS idle_cost, sum(c.allocated_gpu_ms::DECIMAL(38, 9))::DOUBLE / 3600000 AS allocated_gpu_hours,
    bool_or(o.workload IS NOT NULL) AS has_other_work
FROM unit_cells AS c
ANTI JOIN (SELECT k[1] AS cluster, k[2] AS namespace, k[3] AS workload FROM (SELECT unnest($known::VARCHAR[][]) AS k))
    USING (cluster, namespace, workload)
LEFT JOIN (SELECT DISTINCT cluster, namespace, workload FROM unit_candidates) AS o USING (cluster, namespace, workload)
WHERE c.is_asked
GROUP BY c.cluster, c.namespace, c.workload
ORDER BY cost DESC, c.cluster, c.namespace, c.workload"""


def without_work(con: DuckDBPyConnection, known: Iterable[Place]) -> list[dict[str, Any]]:
    """What workloads cost that are not among `known`."""
    return dicts(con.execute(_WITHOUT_WORK, {"known": [list(place) for place in sorted(set(known))]}))


_PLACES = Decimal("0.000000001")
Item = dict[str, Any]


@dataclass(slots=True)
class UnitView:
    """`rows` and the lists in `sections` are dicts of the same keys each; money is Decimal, moments are ISO 8601 in UTC.

    `name` is that of the answer's schema. `shown` names the columns of tables for people: of the rows ("rows"), and of each
    section.
    """

    name: str
    title: str
    ask: UnitAsk
    rows: list[Item]
    totals: Item
    sections: dict[str, Any] = field(default_factory=dict)
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


def without_cost(rows: list[Item]) -> list[ModelWithoutCost]:
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


def cost_without_work(rows: list[Item]) -> list[CostWithoutWork]:
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
