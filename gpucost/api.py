"""gpucost from Python: every question as a method, with an answer that is a data frame, JSON or a page; see
docs/api.md.

gpucost = Gpucost("gpucost.toml") gpucost.waste(month="2026-10", by="team").df()
gpucost.whatif.spot(team="research").json()
"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpucost.errors import GpucostError, UsageError
from gpucost.options import arguments, by_key
from gpucost.questions import QUESTIONS
from gpucost.questions.request import Client, Request
from gpucost.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pandas as pd

    from gpucost.render.view import Answer

__all__ = ["Gpucost", "GpucostError", "answer", "query", "report", "tables"]

Instant = str | date | datetime
PathLike = str | os.PathLike[str]


class Gpucost:
    """The questions about one store: `gpucost.report(…)`, `gpucost.unit.epoch(…)`.

    `gpucost.questions.QUESTIONS` lists them. `config` and `store` are files, with the command's defaults.
    `lake` is the address of a lake. Every method takes the arguments and options of the command with its
    name: `_` for `-`, `start` and `end` for --from and --to, a list for a repeatable option, and True for a
    flag. It returns an Answer: `.df()`, `.tables()`, `.json()`, `.page()`. Methods raise GpucostError, with a
    message and a fix.
    """

    def __init__(
        self, config: PathLike | None = None, store: PathLike | None = None, *, lake: str | None = None
    ) -> None:
        self._request: dict[str, Any] = {
            "config_file": Path(config) if config else None,
            "store_file": Path(store) if store else None,
            "lake": lake,
        }

    def ask(self, name: str, /, *words: Any, **options: Any) -> Answer:
        """The answer to the question `name`, as in `ask("whatif spot", team="research")`.

        With format="html" a report's page can be HTML; with format="json" the answer has no page.
        """
        if name not in QUESTIONS:
            raise UsageError(
                f"{name!r} is not a question", did_you_mean(name, QUESTIONS, "gpucost --help lists them")
            )
        client, function = Client(), QUESTIONS[name].function
        request = {**self._request, "client": client, "format": options.pop("format", "markdown")}
        values = by_key(function, name, words, options)
        answer = function(**arguments(function, values, request=request))
        for text in (*answer.notes, *(error.message for error in answer.errors)):
            client.note(text)
        return replace(answer, notes=tuple(filter(None, client.notes)))

    def query(self, sql: str) -> pd.DataFrame:
        """The rows of one read-only SQL statement, as `gpucost sql` would print.

        docs/store.md describes tables and views. Attributed tables are brought up to date first; if that
        fails, `df.attrs["messages"]` has the reason. Raises GpucostError if the statement is refused or
        fails.
        """
        import pandas as pd

        client = Client()
        columns, rows = Request(**self._request, client=client).attributed().query(sql)
        frame = pd.DataFrame(rows, columns=columns)
        frame.attrs["messages"] = client.notes
        return frame

    def __getattr__(self, name: str) -> Any:
        return _method(self, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(words.split()[0] for words in QUESTIONS)})


class _Group:
    """The questions whose names begin with the same word.

    Calling the group asks the question whose name is that word alone.
    """

    def __init__(self, client: Gpucost, first: str) -> None:
        self._client, self._first = client, first

    def __call__(self, *arguments: Any, **options: Any) -> Answer:
        return self._client.ask(self._first, *arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return _method(self._client, f"{self._first}_{name}")

    def __dir__(self) -> list[str]:
        return [words.partition(" ")[2] for words in QUESTIONS if words.startswith(f"{self._first} ")]


def _method(client: Gpucost, name: str) -> Any:
    words = _words(name)
    if any(command.startswith(f"{words} ") for command in QUESTIONS):
        return _Group(client, words)
    if words not in QUESTIONS:
        raise AttributeError(f"Gpucost has no {name}: {', '.join(_names())}")
    return partial(client.ask, words)


def _words(name: str) -> str:
    return next((words for words in QUESTIONS if words.replace(" ", "_") == name), name)


def _names() -> list[str]:
    return sorted(words.replace(" ", "_") for words in QUESTIONS)


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
    """The rows of `gpucost report` as a data frame: one per kind and combination of `by`.

    The period is a `month` (`2026-10`), or [`start`, `end`). Dates mean local midnight of the configured time
    zone; times without an offset are local. The default for `end` is now. Without a period, it is the current
    month so far, or the newest month with data. Columns are as in `--format csv`: GPU-hours and ratios as
    floats, money as floats in `df.attrs["currency"]`.

    `df.attrs` holds `totals` and `coverage` as in `--format json`, `from` and `to` (ISO 8601, UTC), and
    `currency`. Attribution is brought up to date first, as by the command. `config` and `store` are files,
    with the command's defaults. Raises GpucostError, with a message and a fix.
    """
    import json

    import pandas as pd

    from gpucost.render.data import flat_table

    view: Any = Gpucost(config, store).ask(
        "report",
        month=month,
        start=start,
        end=end,
        by=by,
        team=teams,
        namespace=namespaces,
        cluster=clusters,
        share_unallocated=share_unallocated,
    )
    columns, rows = flat_table(view)
    frame = pd.DataFrame(rows, columns=list(columns))
    frame = frame.astype({name: "float64" for name, sql_type in columns.items() if sql_type != "VARCHAR"})
    # read the printed JSON back: its numbers are plain
    printed = json.loads(view.json())
    frame.attrs |= {key: printed[key] for key in ("totals", "coverage", "from", "to", "currency")}
    return frame


def answer(
    command: str,
    *arguments: Any,
    config: PathLike | None = None,
    store: PathLike | None = None,
    **options: Any,
) -> pd.DataFrame:
    """The main rows of an answer.

    `answer("waste", month="2026-10", by="team")` is `Gpucost().waste(…).df()`.
    """
    return Gpucost(config, store).ask(command, *arguments, **options).df()


def tables(
    command: str,
    *arguments: Any,
    config: PathLike | None = None,
    store: PathLike | None = None,
    **options: Any,
) -> dict[str, pd.DataFrame]:
    """All tables of an answer by name, the main one first; called like `answer`."""
    return Gpucost(config, store).ask(command, *arguments, **options).tables()


def query(sql: str, *, config: PathLike | None = None, store: PathLike | None = None) -> pd.DataFrame:
    """The rows of one read-only SQL statement: `Gpucost().query(sql)`."""
    return Gpucost(config, store).query(sql)


def __getattr__(name: str) -> Callable[..., pd.DataFrame]:
    words = _words(name)
    if words not in QUESTIONS:
        raise AttributeError(f"gpucost.api has no {name}: {', '.join(sorted({*_names(), *__all__}))}")
    return partial(answer, words)
