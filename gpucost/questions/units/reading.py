"""Cost per unit of work: the cost of workloads divided by their work (progress_*). See docs/units.md."""

from collections.abc import Callable

from gpucost.questions.units.query import UnitQuery, UnitView, prepare
from gpucost.questions.units.serving import (
    DIMENSIONS,
    GENERATION,
    PROMPT,
    REQUEST_DIMENSIONS,
    requests,
    token_hours,
    tokens,
)
from gpucost.questions.units.work import epochs, experiments
from gpucost.records import DuckDBPyConnection

__all__ = [
    "DIMENSIONS",
    "REQUEST_DIMENSIONS",
    "UnitView",
    "epochs",
    "experiments",
    "requests",
    "token_hours",
    "tokens",
]


def unit_views(con: DuckDBPyConnection, query: UnitQuery) -> tuple[UnitView, ...]:
    """The cost of epochs, requests and tokens, for each kind with work in the period.

    Cheap if progress was never collected. Raises GpucostError if the filters match nothing.
    """
    units = {unit for (unit,) in con.execute("SELECT DISTINCT unit FROM progress_series").fetchall()}
    builders: list[tuple[Callable[..., UnitView], set[str]]] = [
        (epochs, {"epoch"}),
        (requests, {"request"}),
        (tokens, {PROMPT, GENERATION}),
    ]
    wanted = [build for build, its_units in builders if units & its_units]
    if wanted:
        prepare(con, query)
    views = (build(con, query) for build in wanted)
    return tuple(view for view in views if view.sections.get("runs") or view.sections.get("models"))
