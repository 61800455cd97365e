"""Cost per unit of work: what workloads cost (cost_hourly) over what they did (progress_*). docs/units.md has the formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucost.engine import dicts
from gpucost.report.units.query import UnitAsk, UnitView, prepare
from gpucost.report.units.serving import GENERATION, PROMPT, requests, tokens
from gpucost.report.units.work import epochs, experiments

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["UnitView", "epochs", "experiments", "requests", "tokens"]


def known(con: DuckDBPyConnection, ask: UnitAsk) -> tuple[UnitView, ...]:
    """What epochs, requests and tokens cost, each where work was done in the period by pods that cost something.

    Cheap where no progress was ever collected. Raises GpucostError where the filters leave nothing.
    """
    units = {row["unit"] for row in dicts(con.execute("SELECT DISTINCT unit FROM progress_series"))}
    if not units & {"epoch", "request", PROMPT, GENERATION}:
        return ()
    prepare(con, ask)
    views = []
    if "epoch" in units:
        views.append(epochs(con, ask, is_prepared=True))
    if "request" in units:
        views.append(requests(con, ask, is_prepared=True))
    if units & {PROMPT, GENERATION}:
        views.append(tokens(con, ask, is_prepared=True))
    return tuple(view for view in views if view.sections.get("runs") or view.sections.get("models"))
