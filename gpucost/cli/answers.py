"""What commands answer, as data, for notebooks and agents: the same runs as on a command line, and so the same figures."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import date
from functools import cache
from threading import Lock
from typing import Any

import typer

from gpucost.cli.app import app, leaves
from gpucost.cli.command import errors_raised
from gpucost.errors import GpucostError, UsageError
from gpucost.suggest import did_you_mean

#: Commands that have --format and answer about this machine, or what one asks in SQL (gpucost.api.query).
NOT_ASKED = ("doctor", "config show", "store info", "store check", "lake info", "sql")
# `from` is a word of Python's own
_ALIASES = {"start": "from", "end": "to", "from_": "from"}
_ASKING = Lock()
# lists of texts: what an empty one is a list of, only its name tells
_TEXTS = ("by", "notes", "reasons", "break_even", "time", "findings")


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer as --format json has it, what was said beside it, and the exit code: 3 where a budget or rule is missed."""

    answer: Any
    notes: tuple[str, ...]
    exit_code: int


@cache
def answering() -> dict[str, Any]:
    """Every command that answers in JSON, by its words: `whatif spot`."""
    commands = ((" ".join(words), command) for words, command in leaves())
    return {name: one for name, one in commands if name not in NOT_ASKED and any(part.name == "format" for part in one.params)}


def ask(name: str, arguments: Iterable[Any] = (), options: Mapping[str, Any] | None = None) -> Answered:
    """What the command called `name` answers; `options` are its own, with `_` for `-`: several values repeat one, True is a flag.

    Raises GpucostError with the command's message, UsageError for a command or option that there is not.
    """
    if name not in answering():
        raise UsageError(f"{name!r} is no command that answers", did_you_mean(name, answering(), "gpucost --help lists them"))
    call = [*name.split(), *flags(options or {}), "--format", "json", "--", *map(str, arguments)]
    said, told = io.StringIO(), io.StringIO()
    # streams are the process's own: one at a time
    with _ASKING, redirect_stdout(said), redirect_stderr(told), errors_raised():
        try:
            code = typer.main.get_command(app).main(call, prog_name="gpucost", standalone_mode=False)
        except GpucostError:
            raise
        except Exception as error:
            # what the command line is refused for, in its own words
            message = getattr(error, "format_message", None)
            if message is None:
                raise
            raise UsageError(message(), f"gpucost {name} --help") from None
    notes = tuple(line for line in told.getvalue().splitlines() if line.strip())
    return Answered(json.loads(said.getvalue()), notes, code if isinstance(code, int) else 0)


def option_name(part: Any) -> str:
    """How an option is called here: as it is typed, with `_` for `-`."""
    return str(part.opts[0]).lstrip("-").replace("-", "_")


def flags(options: Mapping[str, Any]) -> list[str]:
    """Options as they are typed; None and False leave one out."""
    typed: list[str] = []
    for name, value in options.items():
        flag = f"--{_ALIASES.get(name, name).replace('_', '-')}"
        if value is None or value is False:
            continue
        if value is True:
            typed.append(flag)
            continue
        for one in value if isinstance(value, list | tuple | set) else [value]:
            typed.append(f"{flag}={one.isoformat() if isinstance(one, date) else one}")
    return typed


def tables(answer: Any) -> dict[str, list[dict[str, Any]]]:
    """The lists of rows in an answer, by their names, the main one first; those of what-ifs are called by their titles.

    The main one of a what-if is `positions`: what is paid today, and in the scenario. An answer without any list is one row.
    """
    if isinstance(answer, list):
        return {"rows": answer}
    inner = answer.get("tables")
    found = {
        name: rows for name, rows in {**answer, **(inner if isinstance(inner, dict) else {})}.items() if _are_rows(name, rows)
    }
    if "scenario" in answer and "today" in answer:
        return {"positions": [{"position": name, **answer[name]} for name in ("today", "scenario")], **found}
    if isinstance(figures := answer.get("figures"), dict):
        return {"figures": [{"figure": name, **values} for name, values in figures.items()], **found}
    return found or {"rows": [answer]}


def _are_rows(name: str, value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value) and bool(value or name not in _TEXTS)
