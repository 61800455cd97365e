"""What commands answer, as data, for notebooks and agents: the same runs as on a command line, and so the same figures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import date
from functools import cache
from typing import Any

import typer

from gpucost.cli.app import app, leaves
from gpucost.cli.output import gathered
from gpucost.errors import UsageError
from gpucost.records import record
from gpucost.render.data import IN_COST
from gpucost.suggest import did_you_mean

#: Commands that have --format and answer about this machine and its files, or what one asks in SQL (gpucost.api.query).
NOT_ASKED = ("chargeback verify", "doctor", "config show", "store info", "store check", "lake info", "sql")
# `from` is a word of Python's own
_ALIASES = {"start": "from", "end": "to", "from_": "from"}
# What a command line is refused with: click's UsageError, which typer has under no name of its own.
_REFUSED: type[Any] = typer.BadParameter.__bases__[0]
# Lists of texts, everywhere and in what-ifs: what an empty one is a list of, only its name tells.
_TEXTS = ("by", "notes", "reasons")
_TEXTS_OF_SCENARIOS = (*_TEXTS, "break_even", "time", "findings")


@record
class Answered:
    """An answer as --format json has it, what was said beside it, and the exit code: 3 where a budget or rule is missed."""

    answer: Any
    notes: tuple[str, ...]
    exit_code: int


@cache
def answering() -> dict[str, Any]:
    """Every command that answers in JSON, by its words: `whatif spot`."""
    commands = ((" ".join(words), command) for words, command in leaves())
    return {
        name: one
        for name, one in commands
        if name not in NOT_ASKED and any(part.name == "format" for part in one.params)
    }


def ask(name: str, arguments: Iterable[Any] = (), options: Mapping[str, Any] | None = None) -> Answered:
    """What the command called `name` answers; `options` are its own, with `_` for `-`: several values repeat one, True is a flag.

    Raises GpucostError with the command's message, UsageError for a command or option that there is not.
    """
    if name not in answering():
        raise UsageError(
            f"{name!r} is no command that answers",
            did_you_mean(name, answering(), "gpucost --help lists them"),
        )
    call = [*name.split(), *flags(name, options or {}), "--format", "json", "--", *map(str, arguments)]
    with gathered() as said:
        try:
            code = typer.main.get_command(app).main(call, prog_name="gpucost", standalone_mode=False)
        except typer.Abort:  # what Ctrl-C becomes on a command line
            raise KeyboardInterrupt from None
        except _REFUSED as error:
            raise UsageError(error.format_message(), f"gpucost {name} --help") from None
    return Answered(
        json.loads("".join(said.texts)), tuple(filter(None, said.notes)), code if isinstance(code, int) else 0
    )


def option_name(part: Any) -> str:
    """How an option is called here: as it is typed, with `_` for `-`."""
    return str(part.opts[0]).lstrip("-").replace("-", "_")


def flags(name: str, options: Mapping[str, Any]) -> list[str]:
    """Options of a command as they are typed; None and False leave one out. Raises UsageError for True in a value's place."""
    are_flags = {option_name(part) for part in answering()[name].params if getattr(part, "is_flag", False)}
    typed: list[str] = []
    for given, value in options.items():
        option = _ALIASES.get(given, given)
        flag = f"--{option.replace('_', '-')}"
        if value is None or value is False:
            continue
        if value is True:
            if option not in are_flags:
                raise UsageError(f"{given} takes a value, not True", f"gpucost {name} --help")
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
    every = {**answer, **(inner if isinstance(inner, dict) else {})}
    texts = _TEXTS_OF_SCENARIOS if "scenario" in answer else _TEXTS
    found = {name: rows for name, rows in every.items() if _are_rows(rows) and (rows or name not in texts)}
    if str(answer.get("schema")).startswith("gpucost.report/"):  # as in its CSV: one column of cost adds up
        found["rows"] = [_with_one_cost(row) for row in found["rows"]]
    if "scenario" in answer and "today" in answer:
        return {"positions": [{"position": name, **answer[name]} for name in ("today", "scenario")], **found}
    if isinstance(figures := answer.get("figures"), dict):
        return {"figures": [{"figure": name, **values} for name, values in figures.items()], **found}
    return found or {"rows": [answer]}


def _with_one_cost(row: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in row.items() if name not in IN_COST}
    return kept | {"cost": row["cost"] + sum(row.get(name, 0) for name in IN_COST)}


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)
