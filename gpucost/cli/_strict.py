"""Periods that were not collected in full: a note on stderr, and under --strict exit code 4."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gpucost.cli._common import note
from gpucost.errors import IncompleteError, NoDataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpucost.config import Config
    from gpucost.model import Period
    from gpucost.report import Query
    from gpucost.store import Store

_NOTED = 5


def note_gaps(config: Config, store: Store, period: Period, clusters: Sequence[str] = (), *, quiet: bool = False) -> None:
    """Say what of an answer's period was not collected and nobody signed, a line each, of an attributed store."""
    from gpucost.report.coverage import missed

    if quiet:
        return
    with store.read() as con:
        _, notices, _ = missed(con, period, datetime.now(UTC), config.tz, clusters)
    for notice in notices[:_NOTED]:
        note(f"note: {notice.message}")
    if len(notices) > _NOTED:
        note(f"note: and {len(notices) - _NOTED:,} more such times")


@contextlib.contextmanager
def completeness(config: Config, store: Store, query: Query, *, strict: bool) -> Iterator[None]:
    """Ends what is answered within the block, under --strict, as the query's period demands.

    Raises IncompleteError where a part of it was not collected and not signed, even if that leaves nothing to answer with, or is
    still to come.
    """
    try:
        yield
    except NoDataError:
        if strict and query.period.end <= (query.now or datetime.now(UTC)):
            _check(config, store, query)
        raise
    if strict:
        _check(config, store, query)


def _check(config: Config, store: Store, query: Query) -> None:
    from gpucost.report.coverage import missed
    from gpucost.report.words import missing_text

    with store.read() as con:
        gaps, notices, is_running = missed(con, query.period, query.now or datetime.now(UTC), config.tz, query.clusters)
    missing = missing_text(gaps)
    if missing is not None:
        fix = next((notice.fix for notice in notices), "gpucost collect prometheus")
        raise IncompleteError(f"{query.period_name} is incomplete: {missing}", fix)
    if is_running:
        raise IncompleteError(
            f"{query.period_name} is not over yet, so its figures are not final", "leave out --strict for a report so far"
        )
