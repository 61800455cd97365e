"""The query of a report: a period, dimensions and filters."""

from __future__ import annotations

from datetime import datetime
from difflib import SequenceMatcher
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo

from gpucost.errors import StoreError, UsageError
from gpucost.options import Names
from gpucost.periods import Period, from_ms, month_name, month_period
from gpucost.records import frozen_dataclass
from gpucost.store.sqlfiles import value

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LABEL = "label:"
NODE_DIMENSIONS = ("cluster", "node", "gpu_model", "capacity_type", "region", "zone")
DIMENSIONS = (
    "cluster", "namespace", "team", "top_team", "workload", "workload_type", "pod", "uid", "account", "user", "partition", "qos",
    "reservation", "priority_class", "node", "gpu_model", "capacity_type", "region", "zone", "month", "day", "hour",
)  # fmt: skip


def is_label(dimension: str) -> bool:
    """Whether a dimension is a label: `label:NAME`."""
    return dimension.startswith(LABEL) and dimension != LABEL


@frozen_dataclass
class Query:
    """A period, dimensions and filters. Values of one filter are alternatives; filters combine.

    Empty filters match everything. Empty `by` means team; with `teams` namespace; with other filters of pods
    workload. `most` limits the allocated rows, unless costs are shared. `period_note`: how the period was chosen, if
    not by the user. `now` is the time up to which data can be expected (default: the clock), for tests. Without
    `with_sections` only the data for programs is computed; `with_series` adds the data for charts.
    `top_teams` are teams with a parent, each with the topmost team above it. `share_unallocated`: how unallocated
    cost is spread. With `may_be_absent`, filters may name objects without GPUs in the period, as long as others had
    some, for comparisons. With `may_be_idle`, a collected period without nodes
    costs nothing and is not an error. Raises UsageError for an unknown dimension or an empty period.
    """

    period: Period
    period_name: str
    by: Names = ()
    teams: Names = ()
    namespaces: Names = ()
    clusters: Names = ()
    workloads: Names = ()
    users: Names = ()
    labels: Names = ()
    top_teams: tuple[tuple[str, str], ...] = ()
    top: int = 10
    most: int | None = None
    period_note: str | None = None
    now: datetime | None = None
    with_sections: bool = True
    with_series: bool = False
    share_unallocated: Literal["proportional", "even"] | None = None
    may_be_absent: bool = False
    may_be_idle: bool = False

    def __post_init__(self) -> None:
        for name in self.by:
            if name not in DIMENSIONS and not is_label(name):
                near = nearest(name.strip().lower().replace("-", "_"), DIMENSIONS)[0]
                raise UsageError(
                    f"dimension not found: {name!r}; did you mean {near}?",
                    f"--by takes any of {', '.join(DIMENSIONS)}, {LABEL}NAME",
                )
        for text in self.labels:
            if not all(text.partition("=")[::2]):
                raise UsageError(f"invalid label {text!r}", "--label takes NAME=VALUE")
        if self.period.is_empty:
            raise UsageError(
                f"the period {self.period} is empty: it ends before it begins",
                "--to is exclusive and must be after --from",
            )

    @property
    def dimensions(self) -> Names:
        """The dimensions of the rows, each once, in the requested order."""
        return tuple(dict.fromkeys(self.by)) or (self.usual,)

    @property
    def usual(self) -> str:
        """The default dimension of the rows."""
        if self.namespaces or self.workloads or self.users or self.labels:
            return "workload"
        return "namespace" if self.teams else "team"

    @property
    def filters(self) -> dict[str, Names]:
        """The names that each filter accepts; empty means all."""
        names = ("teams", "namespaces", "clusters", "workloads", "users", "labels")
        return {name: getattr(self, name) for name in names}

    @property
    def relatives(self) -> set[str]:
        """Teams of a tree, which may have no usage of their own."""
        return {*chain(*self.top_teams)}

    @property
    def is_narrowed(self) -> bool:
        """Whether only some pods are selected. Unallocated GPUs are then not part of the answer."""
        return any(names for name, names in self.filters.items() if name != "clusters")


def filters(query: Query) -> dict[str, Any]:
    """The filters as parameters; label_spans has the rows that pass the filter of labels."""
    return {name: list(names) for name, names in query.filters.items() if name != "labels"}


def nearest(word: str, names: Names | list[str]) -> list[str]:
    """Sort `names` by similarity to `word`."""
    return sorted(names, key=lambda name: (-SequenceMatcher(None, word.lower(), name.lower()).ratio(), name))


def newest_data(con: DuckDBPyConnection) -> int | None:
    """The end of the newest window of metrics, in milliseconds; None without any."""
    newest: int | None = value(
        con, "SELECT max(to_ms) FROM loads WHERE kind IN ('prometheus', 'slurm') AND rows > 0"
    )
    return newest


def default_period(con: DuckDBPyConnection, tz: ZoneInfo, now: datetime) -> tuple[Period, str, str]:
    """The default period, its name, and a note: the current month so far, otherwise the newest with data.

    Reads the `loads` of metrics: prices and bills contain no usage. Raises StoreError if the store is empty.
    """
    newest_ms = newest_data(con)
    if newest_ms is None:
        raise StoreError("the store has no data yet", "gpucost collect prometheus")
    newest = from_ms(newest_ms - 1).astimezone(tz).date()
    today = now.astimezone(tz).date()
    period = month_period(newest, tz)
    name = month_name(newest)
    if (newest.year, newest.month) == (today.year, today.month):
        return period, f"{name} so far", "the current month"
    return period, name, "the newest month with data"
