"""gpucost from Python: what every command answers as data frames, for notebooks; see docs/api.md.

Commands are functions here, with `_` between their words: `waste`, `whatif_spot`, `unit_epoch`.
"""

from __future__ import annotations

import os
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpucost.errors import GpucostError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pandas as pd

    from gpucost.cli.command import Call

__all__ = ["GpucostError", "answer", "query", "report", "tables"]

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
    import json

    import pandas as pd

    from gpucost.render.data import flat_table, to_json

    call = _call(
        config,
        store,
        teams=_names(teams),
        namespaces=_names(namespaces),
        clusters=_names(clusters),
        month=month,
        start=_text(start),
        end=_text(end),
    )
    dimensions = tuple(by.split(",")) if isinstance(by, str) and by else tuple(by)
    view = call.report(by=dimensions, with_sections=False, share_unallocated=share_unallocated)
    columns, rows = flat_table(view)
    frame = pd.DataFrame(rows, columns=list(columns))
    frame = frame.astype({name: "float64" for name, sql_type in columns.items() if sql_type != "VARCHAR"})
    # what the command prints, read back: plain numbers
    answer = json.loads(to_json(view))
    frame.attrs |= {key: answer[key] for key in ("totals", "coverage", "from", "to", "currency")}
    return frame


def answer(command: str, *arguments: Any, **options: Any) -> pd.DataFrame:
    """The main rows of what a command answers: `answer("waste", month="2026-10", by="team")`.

    `arguments` and `options` are the command's own, as --help lists them: `_` for `-`, `start` and `end` for --from and --to, a
    list for what may be repeated, True for a flag. Money is in floats, and nested values have dotted names. `df.attrs` holds what
    stands beside the rows and is no table (period, currency, totals …), `messages`, and `exit_code`: 3 where a budget, a target
    or a rule is missed. Raises GpucostError, with the command's message and what mends it.
    """
    import pandas as pd

    from gpucost.cli import answers

    asked = answers.ask(command, arguments, options)
    named = answers.tables(asked.answer)
    frame = pd.json_normalize(next(iter(named.values())))
    if isinstance(asked.answer, dict):
        frame.attrs |= {
            name: value for name, value in asked.answer.items() if name not in named and name != "tables"
        }
    frame.attrs |= {"messages": list(asked.notes), "exit_code": asked.exit_code}
    return frame


def tables(command: str, *arguments: Any, **options: Any) -> dict[str, pd.DataFrame]:
    """Every table of what a command answers, by its name, the one of `answer` first; called as `answer` is."""
    import pandas as pd

    from gpucost.cli import answers

    asked = answers.ask(command, arguments, options)
    return {name: pd.json_normalize(rows) for name, rows in answers.tables(asked.answer).items()}


def __getattr__(name: str) -> Callable[..., pd.DataFrame]:
    from gpucost.cli.answers import answering

    commands = {words.replace(" ", "_"): words for words in answering()}
    if name not in commands:
        raise AttributeError(f"gpucost.api has no {name}: {', '.join(sorted({*commands, *__all__}))}")
    return partial(answer, commands[name])


def query(sql: str, *, config: PathLike | None = None, store: PathLike | None = None) -> pd.DataFrame:
    """What one read-only SQL statement answers, as `gpucost sql` would: tables and views are described in docs/store.md.

    Attributed tables are brought up to date first, as for a report. Raises GpucostError where the statement is refused or fails.
    """
    import pandas as pd

    columns, rows = _call(config, store).attributed().query(sql)
    return pd.DataFrame(rows, columns=columns)


def _call(config: PathLike | None, store: PathLike | None, **options: Any) -> Call:
    from gpucost.cli.command import Call

    return Call(Path(config) if config else None, Path(store) if store else None, **options)


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _text(value: Instant | None) -> str | None:
    return value.isoformat() if isinstance(value, date) else value
