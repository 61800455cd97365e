"""The query of a unit cost, and the temporary tables of every answer."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from typing_extensions import TypedDict

from gpucost.config.model import Config
from gpucost.engine import dicts, run_stage
from gpucost.options import Names
from gpucost.periods import Period, from_ms, iso, time_buckets
from gpucost.questions.report.rows import in_hours
from gpucost.records import DuckDBPyConnection, frozen_dataclass, grouped
from gpucost.store import sqlfiles
from gpucost.store.usage import nothing_used

PACKAGE = "gpucost.questions.units"
Item = dict[str, Any]
PLACE = ("cluster", "namespace", "workload")
FILTERS = ("teams", "namespaces", "workloads", "users", "clusters")

# `from` is a Python keyword; moments are ISO 8601 in UTC
Span = TypedDict("Span", {"from": str, "to": str})
OpenSpan = TypedDict("OpenSpan", {"from": str | None, "to": str | None})


class Located(TypedDict):
    """The workload and its owner."""

    cluster: str
    namespace: str
    workload: str
    team: str


class WorkWithoutCost(TypedDict):
    """Work without a cost; `since` is a day or a moment."""

    workload: str | None
    namespace: str | None
    unit: str
    amount: float
    failed: float
    since: str | None
    source: str | None
    why: str


class ModelWithoutCost(WorkWithoutCost):
    """Work without a cost, by model."""

    model: str | None


class CostWithoutWork(Located):
    """Cost without work of the requested unit, of workloads that can have such work."""

    cost: Decimal
    idle_cost: Decimal
    allocated_gpu_hours: float
    has_other_work: bool


class UnitTotals(TypedDict):
    """`allocated_cost` is the cost of all selected workloads."""

    cost: Decimal
    idle_cost: Decimal
    cost_without_work: Decimal
    allocated_cost: Decimal


class UnitAnswer(Span):
    """Fields of all answers of `gpucost unit`."""

    currency: str
    cost_without_work: list[CostWithoutWork]
    notes: list[str]


@frozen_dataclass
class UnitQuery:
    """A period and filters; empty filters match everything."""

    config: Config
    period: Period
    period_name: str
    teams: Names = ()
    namespaces: Names = ()
    workloads: Names = ()
    clusters: Names = ()
    users: Names = ()

    @property
    def filters(self) -> dict[str, list[str]]:
        """The names of each filter."""
        return {name: list(getattr(self, name)) for name in FILTERS}

    @property
    def is_narrowed(self) -> bool:
        """Whether only some workloads are selected. Work of unknown workloads is then not part of the answer."""
        return any(self.filters.values())


_DAYS = """
CREATE OR REPLACE TEMP TABLE unit_days AS
SELECT unnest($from_ms::BIGINT[]) AS from_ms, unnest($to_ms::BIGINT[]) AS to_ms, unnest($day::VARCHAR[]) AS day"""


def prepare(con: DuckDBPyConnection, query: UnitQuery, bucket: Literal["day", "hour"] = "day") -> None:
    """Make unit_days, of days or hours, unit_cells and unit_candidates for the period.

    Raises GpucostError if the filters match nothing.
    """
    sqlfiles.run(con, "filters")
    days = time_buckets(query.period, query.config.tz, (bucket,))
    columns = {
        "from_ms": [day.from_ms for day in days],
        "to_ms": [day.to_ms for day in days],
        "day": [getattr(day, bucket) for day in days],
    }
    con.execute(_DAYS, columns)
    run_stage(con, PACKAGE, "20_cells", query.period.bounds | query.filters)
    if query.is_narrowed and not con.execute("FROM unit_cells WHERE is_selected LIMIT 1").fetchall():
        raise nothing_used(
            con, query.period.start_ms, query.period.end_ms, query.period_name, **query.filters
        )
    run_stage(con, PACKAGE, "30_candidates")


def quiet_hours(con: DuckDBPyConnection, period: Period) -> dict[tuple[str, str, str], list[int]]:
    """The epoch hours of `period` without requests, by workload (cluster, namespace, name).

    Leaves out hours without collected counters, and workloads without counters.
    """
    if not con.execute("FROM progress_series LIMIT 1").fetchall():
        return {}
    run_stage(con, PACKAGE, "30_candidates")
    rows = run_stage(con, PACKAGE, "35_quiet_hours", period.bounds).fetchall()
    return grouped(((row[0], row[1], row[2]), row[3]) for row in rows)


@dataclass(slots=True)
class UnitView:
    """An answer. `rows` and each list in `sections` are dicts with equal keys.

    Money is Decimal; moments are ISO 8601 in UTC. `name` is the name of the answer's schema. `displayed_columns` names the
    displayed columns: of the rows ("rows") and of each section. `facts` are further fields of the answer.
    """

    name: str
    title: str
    query: UnitQuery
    rows: list[Item]
    totals: Item
    sections: dict[str, Any]
    displayed_columns: dict[str, Names]
    notes: list[str] = field(default_factory=list)
    facts: Item = field(default_factory=dict)


# The cost of workloads without known work, whether they have work of another unit, and whether their type is one of $kinds.
_WITHOUT_WORK = """
SELECT c.cluster, c.namespace, c.workload, string_agg(DISTINCT c.team, ', ' ORDER BY c.team) AS team, sum(c.cost) AS cost,
    sum(c.idle_cost) AS idle_cost, sum(c.allocated_gpu_ms::DECIMAL(38, 9))::DOUBLE AS allocated_gpu_ms,
    bool_or(o.workload IS NOT NULL) AS has_other_work,
    len($kinds::VARCHAR[]) = 0 OR bool_or(list_contains($kinds::VARCHAR[], coalesce(c.workload_type, 'other'))) AS is_of_kind
FROM unit_cells AS c
ANTI JOIN (SELECT k[1] AS cluster, k[2] AS namespace, k[3] AS workload FROM (SELECT unnest($known::VARCHAR[][]) AS k))
    USING (cluster, namespace, workload)
LEFT JOIN (SELECT DISTINCT cluster, namespace, workload FROM unit_candidates) AS o USING (cluster, namespace, workload)
WHERE c.is_selected
GROUP BY c.cluster, c.namespace, c.workload
ORDER BY cost DESC, c.cluster, c.namespace, c.workload"""


def with_remainders(
    con: DuckDBPyConnection,
    view: UnitView,
    lost: list[Any],
    kinds: Names,
    places: Iterable[tuple[str, ...]] | None = None,
) -> UnitView:
    """Add to the answer `lost`, the work without a cost, and the cost without work.

    `kinds` are the workload types with such work; empty are all. Cost without work counts these and unknown types.
    `places` are the places of the rows, if these name others.
    """
    places = {tuple(row[name] for name in PLACE) for row in view.rows} if places is None else places
    params = {"known": [list(place) for place in sorted(places)], "kinds": [*kinds, "other"] if kinds else []}
    others = [in_hours(row) for row in dicts(con.execute(_WITHOUT_WORK, params))]
    rest = [row for row in others if row.pop("is_of_kind")]
    view.totals |= {"cost_without_work": total(rest), "allocated_cost": view.totals["cost"] + total(others)}
    view.sections |= {"work_without_cost": [] if view.query.is_narrowed else lost, "cost_without_work": rest}
    view.displayed_columns["cost_without_work"] = ("namespace", "workload", "team", "cost", "idle_cost")
    return view


def total(rows: Iterable[Item], name: str = "cost") -> Decimal:
    """The sum of money over rows."""
    return sum((row[name] for row in rows), Decimal(0))


def per(cost: Decimal, amount: float | Decimal | None, scale: int = 1) -> Decimal | None:
    """`cost` ÷ `amount` × `scale`; None without an amount."""
    if not amount:
        return None
    return (cost * scale / Decimal(str(amount))).quantize(Decimal("0.000000001"))


def plain(work: float) -> float | int:
    """An amount of work for display: whole numbers without a decimal point."""
    return int(work) if work.is_integer() else round(work, 6)


def moment(ms: int | None) -> str | None:
    """A moment in milliseconds as ISO 8601."""
    return None if ms is None else iso(from_ms(ms))
