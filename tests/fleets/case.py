"""The format of fleets as data: a few nodes and pods, edits of their scrapes, and one table of the exact figures.

A table is text. Its head names keys and columns; a row follows for each value of the keys that has figures:

    node pod | held cost unallocated
    w    a   |   40   40           0
    w    -   |    0    0          24

Keys are columns of KEYS or the hour ("-" is null). Other columns are from COLUMNS, in GPU-hours and dollars. Figures are
exact: to the ninth decimal of a dollar and the millionth of an hour; a fraction such as 24/7 allows for rounding to nine
decimals in each hour. An empty line separates two tables; a head without keys covers the whole fleet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.replay import edits
from tests.replay.cases.words import fleet, node
from tests.replay.fleet import Fleet
from tests.replay.scrape import scrape
from tests.replay.series import Series
from tests.text_tables import columns

Edit = Callable[[list[Series]], list[Series]]
#: Words of a warning, or of each of several warnings of a code.
Words = str | tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """A fleet, its scrapes, and everything expected in its store: figures, coverage gaps and warnings by code.

    In `settings` and `warnings`, CLUSTER is replaced by the fleet's cluster. `bill` is a CUR with the fleet's machines. Gaps
    begin and end in hours ("ever": unbounded); gaps before the fleet's first or after its last moment are ignored. A
    warning's text and fix must contain the given words, separated by " … ". The table covers only `hours`; in the hours of
    `strays`, the series have the label of another cluster: CLUSTER-stray.
    """

    name: str
    fleet: Fleet
    table: str
    scraped: Callable[[Fleet], list[Series]]
    settings: str = ""
    bill: str = ""
    hours: tuple[float, float] = (-100, 1000)
    strays: tuple[float, float] | None = None
    gaps: tuple[str, ...] = ()
    warnings: Mapping[str, Words] = field(default_factory=dict)

    @property
    def cluster(self) -> str:
        return self.name.replace(" ", "-")


def case(
    name: str,
    described: Fleet,
    table: str,
    *changes: Edit,
    series: Callable[[], list[Series]] | None = None,
    gaps: str = "",
    warnings: Mapping[str, Words] | str = "",
    **more: Any,
) -> Case:
    """Return a case whose scrapes (or `series` instead) pass through `changes` in order.

    Gaps are separated by ", "; each line of warnings has a code and the words it must contain.
    """

    def scraped(described: Fleet) -> list[Series]:
        found = series() if series else scrape(described, lean=True)
        for change in changes:
            found = change(found)
        return found

    expected = columns(warnings) if isinstance(warnings, str) else warnings
    return Case(
        name, described, table, scraped, gaps=tuple(filter(None, gaps.split(", "))), warnings=expected, **more
    )


def edit(change: Callable[..., list[Series]]) -> Callable[..., Edit]:
    """Return an edit of series that is applied later."""

    def later(*args: Any, **more: Any) -> Edit:
        return lambda series: change(series, *args, **more)

    return later


drop, relabel, revalue = edit(edits.drop), edit(edits.relabel), edit(edits.revalue)
duplicate, scale = edit(edits.duplicate), edit(edits.scale)


def machine(name: str, gpus: int, start: float = 0, end: float = 8, **more: Any) -> dict[str, Any]:
    """Return a machine outside of the catalog with so many GPUs, at a dollar per GPU-hour."""
    uuids = [f"GPU-{name}-{number}" for number in range(gpus)]
    facts = {"gpu_model": "NVIDIA A30", "gpus": uuids, "instance_type": f"own-{gpus}", "provider": "onprem"}
    return {**node(name, "g5.xlarge", start, end), **facts, **more}


def alone(
    hours: float, kind: str, *pods: Any, util: Any = None, of: Mapping[str, Any] | None = None, **more: Any
) -> Fleet:
    """Return a fleet with one node w that is always up."""
    return fleet(hours, [node("w", kind, 0, hours) | dict(of or {})], list(pods), util or {}, **more)


eight_hours = partial(fleet, 8)
