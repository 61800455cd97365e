"""Names that a period's usage does not have, in words: which one, and those most like it."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from gpucost.errors import GpucostError
from gpucost.store import sqlfiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

_DIMENSIONS = ("team", "namespace", "workload", "cluster")
_OFFERED = 5


def nothing_used(
    con: duckdb.DuckDBPyConnection,
    from_ms: int,
    to_ms: int,
    period_name: str,
    *,
    teams: Sequence[str] = (),
    namespaces: Sequence[str] = (),
    workloads: Sequence[str] = (),
    clusters: Sequence[str] = (),
) -> GpucostError:
    """The error for filters that leave nothing of [from_ms, to_ms): the first name that nobody had, and the ones most like it.

    Workloads may be named without their kind. Patterns are taken to fit.
    """
    rows = sqlfiles.run(con, "usage_names", {"from_ms": from_ms, "to_ms": to_ms}).fetchall()
    if not rows:
        return GpucostError(f"nothing held GPUs in {period_name}", "gpucost report shows the newest month with data")
    for position, (dimension, asked) in enumerate(zip(_DIMENSIONS, (teams, namespaces, workloads, clusters), strict=True)):
        names = sorted({str(row[position]) for row in rows})
        known = {*names, *(name.partition("/")[2] for name in names)} if dimension == "workload" else set(names)
        for name in asked:
            if name not in known and "*" not in name:
                offered = [one for one in names if one.partition("/")[2] == name]
                offered = offered or difflib.get_close_matches(name, names, _OFFERED, 0.5) or names[:_OFFERED]
                return GpucostError(
                    f"no {dimension} {name!r} held GPUs in {period_name}", f"name one that did: {', '.join(offered)}"
                )
    named = ", ".join([*teams, *namespaces, *workloads, *clusters])
    return GpucostError(f"nothing in {period_name} was used by {named}", "gpucost report --by workload shows who used what")
