"""Builds a month's bundle from the attributed tables: every view that it is written from, and the FOCUS file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from gpucost import focus
from gpucost.chargeback.state import State, missing_bills, state_of
from gpucost.errors import GpucostError, IncompleteError, StoreError
from gpucost.reconcile import reconcile
from gpucost.report import Query
from gpucost.report import build as build_report
from gpucost.report.slots import slots
from gpucost.units import UnitAsk, known
from gpucost.waste import build as dissect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from gpucost.config import Config
    from gpucost.focus import FocusTotals
    from gpucost.model import Period
    from gpucost.reconcile import Reconciliation
    from gpucost.report.view import ReportView, Row
    from gpucost.units import UnitView
    from gpucost.waste import Waste

_COLLECT = "--collect collects what the store lacks of the month; gpucost store info says what is there"
LEDGER_BY = ("team", "cluster", "namespace", "workload", "day", "gpu_model", "capacity_type")


@dataclass(frozen=True, slots=True)
class Ask:
    """A month (`2026-10`), as a local period and by name; `now` is the moment up to which data can be expected.

    A month that is over is told as of its end, whenever that is asked: the same input gives the same bytes.
    """

    month: str
    period: Period
    period_name: str
    now: datetime
    share_unallocated: Literal["proportional", "even"] | None = None
    focus_version: str = focus.DEFAULT_VERSION

    @property
    def is_over(self) -> bool:
        return self.now >= self.period.end


@dataclass(frozen=True, slots=True)
class Bundle:
    """What a month's files say. `overview` is by team, `teams` are by namespace, `ledger` by LEDGER_BY.

    `waste` is the whole fleet's, also by team; `units` what units of work cost, where progress was collected.
    """

    ask: Ask
    timezone: str
    overview: ReportView
    teams: dict[str, ReportView]
    ledger: ReportView
    waste: Waste
    units: tuple[UnitView, ...]
    account: Reconciliation | None
    focus: FocusTotals
    state: State


def build(
    con: DuckDBPyConnection, config: Config, ask: Ask, folder: Path, tell: Callable[[str], None] = lambda _: None
) -> Bundle:
    """The bundle of a month, from an attribution that is up to date; its FOCUS files are written to `folder`.

    Works on a read-only connection. Where the month holds no data, raises IncompleteError if it is over, else GpucostError.
    """

    def view(*teams: str, by: tuple[str, ...] = (), people: bool = True) -> ReportView:
        query = Query(
            period=ask.period,
            period_name=ask.period_name,
            by=by,
            teams=teams,
            now=min(ask.now, ask.period.end),
            with_sections=people,
            with_series=people,
            share_unallocated=ask.share_unallocated,
        )
        return build_report(con, config, query)

    try:
        overview = view()
    except StoreError:
        raise
    except GpucostError as error:
        raise (IncompleteError if ask.is_over else GpucostError)(error.message, _COLLECT) from None
    names = sorted({team for row in overview.rows if (team := row.keys["team"]) is not None})
    teams = {}
    for place, team in enumerate(names, 1):
        tell(f"{team[:40]} ({place} of {len(names)})")
        teams[team] = view(team)
    ledger = view(by=LEDGER_BY, people=False)
    tell("waste and unit costs")
    waste = dissect(con, config, ask.period, slots(ask.period, config.tz, ()), ("team",), top=0)
    units = known(con, UnitAsk(ask.period, ask.period_name, config.tz, config.currency))
    tell("the FOCUS file")
    totals = focus.prepare(con, ask.month, config.currency)
    for kind in ("csv", "parquet"):
        focus.save(con, ask.focus_version, kind, folder / f"focus.{kind}")
    account = _account(con, ask.month, config.currency)
    expected = missing_bills(con, config, ask.month)
    return Bundle(
        ask=ask,
        timezone=config.timezone,
        overview=overview,
        teams=teams,
        ledger=ledger,
        waste=waste,
        units=units,
        account=account,
        focus=totals,
        state=state_of(ask.is_over, overview.coverage, account, expected),
    )


def charge(row: Row) -> Decimal:
    """What a row is charged: its cost, and its share of unallocated and shared costs where those are shared."""
    if row.shared is None:
        return row.measures.cost
    return row.measures.cost + (row.shared.unallocated_cost or Decimal(0)) + row.shared.shared_cost


def _account(con: DuckDBPyConnection, month: str, currency: str) -> Reconciliation | None:
    try:
        return reconcile(con, month, currency)
    except IncompleteError:
        return None
