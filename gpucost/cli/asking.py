"""Questions of the registry as commands: options and output."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

from gpucost.cli.command import SUFFIXES, Call, Command, format_of, registered
from gpucost.errors import UsageError
from gpucost.options import (
    WRITTEN,
    LakeOption,
    Option,
    Parameter,
    TargetOption,
    Values,
    arguments,
    parameters,
)
from gpucost.questions import BRIEF_FORMATS, FORMATS, QUESTIONS, REPORT_FORMATS, Question

_SHORT = "Output format."
_HELP = {
    FORMATS: f"{_SHORT} Default: by the suffix of -o (.md, .csv, .json, .parquet), otherwise table.",
    REPORT_FORMATS: f"{_SHORT} Default: by the suffix of -o (.md, .html, .json, .csv, .parquet, .txt), otherwise table. "
    "focus: the bill of a month, split.",
}


# Answers a question for the given options.
Ask = partial[Any]


def question_command(words: str) -> Command:
    """The command that answers a question."""

    def write(call: Call, ask: Ask) -> None:
        call.answer(ask())

    return asking(words)(write)


def asking(words: str) -> Callable[[Command], Command]:
    """A command for the question `words`, called with the call, the function that answers, and its own options."""
    question = QUESTIONS[words]
    function = question.function

    def decorate(run: Command) -> Command:
        def answered(values: Values, **places: Any) -> None:
            target = values["output"]
            places["format"] = values["format"] or _format_of(question, target)
            places["lake"] = values.get("lake")
            ask = partial(function, **arguments(function, values, request=places))
            run(ask=ask, **arguments(run, values, call=places | {"target": target}))

        lake = parameters(LakeOption) if question.takes_lake else ()
        takes = (*parameters(function), *parameters(run), *lake, *_written(question))
        return registered(answered, takes, function, without="" if question.takes_store else "store")

    return decorate


def _written(question: Question) -> tuple[Parameter, ...]:
    is_brief = question.formats == BRIEF_FORMATS
    kind: Any = Literal.__getitem__(question.formats)
    how = Option(_HELP.get(question.formats, _SHORT), is_shown=is_brief, panel=WRITTEN)
    formats = Parameter("format", "", kind, False, "table" if is_brief else None, how)
    return (formats,) if is_brief else (formats, *parameters(TargetOption))


def _format_of(question: Question, target: Path | None) -> str:
    """The format of a file's suffix; a table without one. Raises UsageError for an unknown suffix."""
    suffix = target.suffix.lower() if target else ""
    if suffix and suffix not in SUFFIXES and question.formats == REPORT_FORMATS:
        raise UsageError(
            f"unknown suffix of {target}", f"-o knows {', '.join(SUFFIXES)}; otherwise use --format"
        )
    return format_of(target, question.formats)
