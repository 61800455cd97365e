"""What a unit cost is asked for, and the temporary tables that every answer begins with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from gpucost.engine.local import answer_rows, run_stage
from gpucost.model import Period, to_ms
from gpucost.store.names import nothing_used
from gpucost.timeline import local_days, local_midnight

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duckdb import DuckDBPyConnection

PACKAGE = "gpucost.units"
Place = tuple[str, str, str]


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


def prepare(con: DuckDBPyConnection, ask: UnitAsk) -> None:
    """Makes unit_days, unit_cells and unit_candidates for the period. Raises GpucostError where the filters leave nothing."""
    days = list(local_days(ask.period, ask.tz))
    starts = [max(to_ms(local_midnight(day, ask.tz)), ask.period.start_ms) for day in days]
    ends = [*starts[1:], ask.period.end_ms]
    run_stage(con, PACKAGE, "10_days", {"from_ms": starts, "to_ms": ends, "day": [day.isoformat() for day in days]})
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


def without_work(con: DuckDBPyConnection, known: Iterable[Place]) -> list[dict[str, Any]]:
    """What workloads cost that are not among `known`."""
    places = sorted(set(known))
    lists = {name: [place[i] for place in places] for i, name in enumerate(("cluster", "namespace", "workload"))}
    run_stage(con, PACKAGE, "64_known", lists)
    return answer_rows(con, PACKAGE, "66_without_work")


def answer(con: DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    """What a statement answers, a dict per row."""
    found = con.execute(sql)
    columns = [column[0] for column in found.description or []]
    return [dict(zip(columns, values, strict=True)) for values in found.fetchall()]
