"""gpucost from Python: reports as data frames, for notebooks; see docs/api.md."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gpucost.errors import GpucostError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from zoneinfo import ZoneInfo

    import pandas as pd

    from gpucost.config.model import Config
    from gpucost.periods import Period
    from gpucost.store.connection import Store

__all__ = ["GpucostError", "query", "report"]

Instant = str | date | datetime
PathLike = str | os.PathLike[str]


def report(
    *,
    month: str | None = None,
    start: Instant | None = None,
    end: Instant | None = None,
    by: str | Iterable[str] = (),
    teams: Iterable[str] = (),
    namespaces: Iterable[str] = (),
    clusters: Iterable[str] = (),
    share_unallocated: Literal["proportional", "even"] | None = None,
    config: PathLike | None = None,
    store: PathLike | None = None,
) -> pd.DataFrame:
    """The report that `gpucost report` prints, as a data frame: a row per kind and combination of the dimensions `by`.

    The period is a `month` (`2026-10`), or [`start`, `end`): dates mean local midnight of the configured time zone, times without
    an offset are local; without an end, now; without any, the current month so far, or the newest with data. Columns are those of
    `--format csv`: GPU-hours and ratios as floats, money as floats in `df.attrs["currency"]`.

    `df.attrs` holds `totals` and `coverage` as `--format json` prints them, `from` and `to` (ISO 8601, UTC), and `currency`.
    Attribution is brought up to date first, as by the command. `config` and `store` are files; by default those that the command
    would use. Raises GpucostError, with a message and what mends it.
    """
    import pandas as pd

    from gpucost import pipeline
    from gpucost.periods import name_of
    from gpucost.render.data import flat_table, to_json
    from gpucost.report import Query

    settings, opened = _load(config, store)
    now = datetime.now(UTC)
    period, name = _period(settings, opened, now, month, start, end)
    asked = Query(
        period=period,
        period_name=name or name_of(period, settings.tz),
        by=tuple(by.split(",")) if isinstance(by, str) and by else tuple(by),
        teams=tuple(_names(teams)),
        namespaces=tuple(_names(namespaces)),
        clusters=tuple(_names(clusters)),
        now=now,
        with_sections=False,
        share_unallocated=share_unallocated,
    )
    view = pipeline.report(settings, opened, asked)
    columns, rows = flat_table(view)
    frame = pd.DataFrame(rows, columns=list(columns))
    frame = frame.astype({name: "float64" for name, told in columns.items() if told != "VARCHAR"})
    # what the command prints, read back: plain numbers
    import json

    said = json.loads(to_json(view))
    frame.attrs |= {key: said[key] for key in ("totals", "coverage", "from", "to", "currency")}
    return frame


def query(sql: str, *, config: PathLike | None = None, store: PathLike | None = None) -> pd.DataFrame:
    """What one read-only SQL statement answers, as `gpucost sql` would: tables and views are described in docs/store.md.

    Attributed tables are as the last report left them. Raises GpucostError where the statement is refused or fails.
    """
    import pandas as pd

    _, opened = _load(config, store)
    columns, rows = opened.query(sql)
    return pd.DataFrame(rows, columns=columns)


def _load(config: PathLike | None, store: PathLike | None) -> tuple[Config, Store]:
    from gpucost.config.load import load_config
    from gpucost.store.connection import Store

    settings = load_config(Path(config) if config else None, store=Path(store) if store else None)
    return settings, Store(settings.store)


def _names(names: Iterable[str]) -> Iterable[str]:
    return (names,) if isinstance(names, str) else names


def _period(
    config: Config, store: Store, now: datetime, month: str | None, start: Instant | None, end: Instant | None
) -> tuple[Period, str | None]:
    from gpucost.periods import Period, month_period
    from gpucost.report import default_period

    if month is not None:
        if start is not None or end is not None:
            raise UsageError("month and start, end exclude each other", "give one of them")
        return month_period(_instant("month", f"{month}-01", config.tz).astimezone(config.tz).date(), config.tz), None
    if start is not None:
        until = (
            _instant("end", end, config.tz)
            if end is not None
            else now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        )
        return Period(_instant("start", start, config.tz), until), None
    if end is not None:
        raise UsageError("end needs start", "give start, for example start='2026-10-01'")
    with store.read() as con:
        period, name, _ = default_period(con, config.tz, now)
    return period, name


def _instant(what: str, value: Instant, tz: ZoneInfo) -> datetime:
    from gpucost.periods import local_midnight

    try:
        if isinstance(value, str):
            value = date.fromisoformat(value) if len(value) == len("2026-10-01") else datetime.fromisoformat(value)
    except ValueError:
        raise UsageError(f"{what} {value!r} is no date or time", "for example '2026-10-01', or '2026-10-01T06:00Z'") from None
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=tz)
    return local_midnight(value, tz)
