"""What the attributed store says was used in a period: nodes with their prices, and the pods asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpucost.store import sqlfiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class UsageRows:
    """Rows as the SQL of `usage_*.sql` names their columns. A node that was not collected for a while has several rows."""

    nodes: list[Row]
    prices: list[Row]
    pods: list[Row]


def read_usage(
    con: duckdb.DuckDBPyConnection,
    from_ms: int,
    to_ms: int,
    *,
    teams: Sequence[str] = (),
    namespaces: Sequence[str] = (),
    workloads: Sequence[str] = (),
    clusters: Sequence[str] = (),
) -> UsageRows:
    """What was used in [from_ms, to_ms). Without filters all nodes, those on which nothing ran too. Makes temporary tables."""
    period: dict[str, object] = {"from_ms": from_ms, "to_ms": to_ms}
    filters = {"teams": list(teams), "namespaces": list(namespaces), "workloads": list(workloads), "clusters": list(clusters)}
    sqlfiles.run(con, "usage_teams", period)
    sqlfiles.run(con, "usage_pods", period | filters)
    narrowed = period | {"all_nodes": not any(filters.values())}
    return UsageRows(
        nodes=_rows(sqlfiles.run(con, "usage_nodes", narrowed)),
        prices=_rows(sqlfiles.run(con, "usage_prices", narrowed)),
        pods=_rows(con.execute("FROM usage_pods ORDER BY cluster, uid, held_from_ms")),
    )


def _rows(answer: duckdb.DuckDBPyConnection) -> list[Row]:
    columns = [str(column[0]) for column in answer.description or []]
    return [dict(zip(columns, values, strict=True)) for values in answer.fetchall()]
