"""What a report is asked for: a period, dimensions and filters."""

from __future__ import annotations

from datetime import datetime
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Literal
from zoneinfo import ZoneInfo

from gpucost.errors import StoreError, UsageError
from gpucost.periods import Period, from_ms, month_name, month_period
from gpucost.records import record
from gpucost.store.sqlfiles import value

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NODE_DIMENSIONS = ("cluster", "node", "gpu_model", "capacity_type", "region", "zone")
DIMENSIONS = (
    "cluster", "namespace", "team", "workload", "workload_type", "pod", "uid", "account", "user", "partition", "qos",
    "reservation", "node", "gpu_model", "capacity_type", "region", "zone", "month", "day", "hour",
)  # fmt: skip


@record
class Query:
    """A period and how to cut it. Empty filters take everything; values of one filter are alternatives, filters add up.

    `by` empty means: by team; with `teams` by namespace; with other filters of pods by workload. `period_note`: how the period
    was chosen, where the user named none. `now` is the moment up to which data can be expected, for tests; the clock by default.
    Without `with_sections` only what programs read is computed; `with_series` adds what charts draw. `share_unallocated`
    says how unallocated cost is spread. With `may_be_absent` filters may name what held nothing in the period, as long as others
    did: what is compared need not have been there. With `may_be_idle` a period that was collected, and in which no node was up,
    is no failure: it cost nothing.
    Raises UsageError for an unknown dimension or an empty period.
    """

    period: Period
    period_name: str
    by: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    top: int = 10
    period_note: str | None = None
    now: datetime | None = None
    with_sections: bool = True
    with_series: bool = False
    share_unallocated: Literal["proportional", "even"] | None = None
    may_be_absent: bool = False
    may_be_idle: bool = False

    def __post_init__(self) -> None:
        for name in self.by:
            if name not in DIMENSIONS:
                near = nearest(name.strip().lower().replace("-", "_"), DIMENSIONS)[0]
                raise UsageError(
                    f"there is no dimension {name!r}; did you mean {near}?",
                    f"--by takes any of {', '.join(DIMENSIONS)}",
                )
        if self.period.is_empty:
            raise UsageError(
                f"the period {self.period} is empty: it ends before it begins",
                "--to is exclusive and must lie after --from",
            )

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The dimensions of the rows, each once, in the order asked for."""
        return tuple(dict.fromkeys(self.by)) or (self.usual,)

    @property
    def usual(self) -> str:
        """The dimension of the rows where none is asked for."""
        if self.namespaces or self.workloads or self.users:
            return "workload"
        return "namespace" if self.teams else "team"

    @property
    def filters(self) -> dict[str, tuple[str, ...]]:
        """The names that each filter lets through; empty means all."""
        names = ("teams", "namespaces", "clusters", "workloads", "users")
        return {name: getattr(self, name) for name in names}

    @property
    def is_narrowed(self) -> bool:
        """Whether only some pods are asked for, so that what nobody held has no place in the answer."""
        return bool(self.teams or self.namespaces or self.workloads or self.users)


def nearest(word: str, names: tuple[str, ...] | list[str]) -> list[str]:
    """`names`, those most alike `word` first."""
    return sorted(names, key=lambda name: (-SequenceMatcher(None, word.lower(), name.lower()).ratio(), name))


def newest_data(con: DuckDBPyConnection) -> int | None:
    """Where the newest window of metrics ends, in milliseconds; None without any."""
    newest: int | None = value(
        con, "SELECT max(to_ms) FROM loads WHERE kind IN ('prometheus', 'slurm') AND rows > 0"
    )
    return newest


def default_period(con: DuckDBPyConnection, tz: ZoneInfo, now: datetime) -> tuple[Period, str, str]:
    """The period where none is asked for, its name and a note on why it: the current month so far, else the newest with data.

    Reads the `loads` of metrics: prices and bills tell nothing of use. Raises StoreError where the store holds nothing.
    """
    newest_ms = newest_data(con)
    if newest_ms is None:
        raise StoreError("the store holds no data yet", "gpucost collect prometheus")
    newest = from_ms(newest_ms - 1).astimezone(tz).date()
    today = now.astimezone(tz).date()
    period = month_period(newest, tz)
    name = month_name(newest)
    if (newest.year, newest.month) == (today.year, today.month):
        return period, f"{name} so far", "the current month"
    return period, name, "the newest month with data"
