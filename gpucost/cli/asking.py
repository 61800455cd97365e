"""Questions of the registry as commands: their options, and how their answers are written."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from gpucost.cli.command import Call, command, option
from gpucost.cli.completion import dimensions, stored
from gpucost.cli.output import is_drawn
from gpucost.disk import write_text
from gpucost.errors import GpucostError, UsageError
from gpucost.options import WRITTEN, Parameter, number, parameters
from gpucost.questions import BRIEF_FORMATS, FORMATS, QUESTIONS, REPORT_FORMATS, Question

_METAVARS = {float: "NUMBER", Decimal: "MONEY", int: "COUNT"}
_SUFFIXES = {
    ".md": "markdown",
    ".html": "html",
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".txt": "table",
}
_SHORT = "How to write it."
_HELP = {
    FORMATS: f"{_SHORT} Default: by the suffix of -o (.md, .csv, .json, .parquet), else table.",
    REPORT_FORMATS: f"{_SHORT} Default: by the suffix of -o (.md, .html, .json, .csv, .parquet, .txt), else table. "
    "focus: the bill of a month, split (docs/focus.md).",
}


class Ask:
    """A question with the options that were given; calling it answers."""

    def __init__(self, question: Question, values: Mapping[str, Any], request: Mapping[str, Any]) -> None:
        self.question = question
        self.arguments = question.arguments(values, **request)

    def __call__(self) -> Any:
        """The answer."""
        return self.question.function(**self.arguments)


Save = Annotated[
    str | None,
    option("--save", "NAME", "Keep the answer beside the store, for gpucost whatif compare.", WRITTEN),
]


def question_command(words: str) -> Callable[..., None]:
    """The command that asks a question and writes its answer."""

    def write(call: Call, ask: Ask) -> None:
        call.answer(ask())

    def keep(call: Call, ask: Ask, save: Save = None) -> None:
        write_and_keep(call, ask, save)

    return asking(words)(keep if QUESTIONS[words].is_scenario else write)


def write_and_keep(call: Call, ask: Ask, name: str | None) -> None:
    """Write an answer, and keep it under a name if there is one. Raises UsageError for a name that is no file's."""
    if name is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise UsageError(
            f"--save cannot call an answer {name!r}",
            "letters, digits, dots, dashes and underscores make a name",
        )
    answer = ask()
    if name is not None:
        from gpucost.questions.whatif.request import saved_answers

        folder = saved_answers(call.configured)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise GpucostError(
                f"cannot make {folder}: {error.strerror or error}", "--store names a store elsewhere"
            ) from None
        write_text(answer.json(), folder / f"{name}.json")
    call.answer(answer)


def asking(words: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command about the question `words`: called with the call, what asks the question, and options of its own."""
    question = QUESTIONS[words]
    takes = parameters(question.function)

    def decorate(run: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(run, eval_str=True).parameters.values())[2:]

        def answered(call: Call, **given: Any) -> None:
            call = replace(call, format=given.pop("format") or _format_of(question, call.target))
            mine = {one.name: given.pop(one.name) for one in own}
            values = {one.key: given[one.name] for one in takes}
            request = {
                "config_file": call.config_file,
                "store_file": call.store_file,
                "lake": call.lake,
                "client": call.client,
                "format": call.format,
                "is_drawn": is_drawn(call.target),
            }
            run(call, Ask(question, values, request), **mine)

        functools.update_wrapper(answered, question.function)
        signature = [
            inspect.Parameter("call", inspect.Parameter.POSITIONAL_ONLY),
            *map(typer_parameter, takes),
            *(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own),
            _format_option(question),
        ]
        answered.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
        shared = [
            *(["output"] if question.formats != BRIEF_FORMATS else []),
            *(["lake"] if question.takes_lake else []),
        ]
        return command(" ".join(("*", *shared)), without="" if question.takes_store else "store")(answered)

    return decorate


def _format_option(question: Question) -> inspect.Parameter:
    choice: Any = Literal.__getitem__(question.formats)
    annotated: Any = Annotated
    is_brief = question.formats == BRIEF_FORMATS
    how = typer.Option(
        "--format", help=_HELP.get(question.formats, _SHORT), show_default=is_brief, rich_help_panel=WRITTEN
    )
    return inspect.Parameter(
        "format",
        inspect.Parameter.KEYWORD_ONLY,
        default="table" if is_brief else None,
        annotation=annotated[choice if is_brief else choice | None, how],
    )


def _format_of(question: Question, target: Path | None) -> str:
    """The format that a file's suffix means; a table without one. Raises UsageError for a suffix that means none."""
    suffix = target.suffix.lower() if target else ""
    if suffix and suffix not in _SUFFIXES and question.formats == REPORT_FORMATS:
        raise UsageError(
            f"no format belongs to the suffix of {target}",
            f"-o knows {', '.join(_SUFFIXES)}; with any other, --format says how to write it",
        )
    meant = _SUFFIXES.get(suffix, "table")
    return meant if meant in question.formats else "table"


def typer_parameter(one: Parameter) -> inspect.Parameter:
    """An option as typer takes it. None stands for a default that help does not show."""
    how, annotated, several = one.option, Annotated, list
    value: Any = one.kind
    more: dict[str, Any] = {}
    if value is int:
        more = {"min": how.least, "max": how.most}
    elif value in (float, Decimal):
        more = {"parser": number_parser(value, how)}
    if how.completes:
        more |= {"autocompletion": dimensions if how.completes == "dimensions" else stored(how.completes)}
    kind: Any = several[value] if one.is_repeated else value
    metavar = how.metavar or _METAVARS.get(value)
    declared: Any
    if how.is_argument:
        declared = typer.Argument(metavar=metavar, help=how.help, show_default=False, **more)
    else:
        more |= {"show_default": how.is_shown or value is bool, "rich_help_panel": how.panel}
        declared = typer.Option(
            one.flag, metavar=how.metavar if one.choices else metavar, help=how.help, **more
        )
    parameter = inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default)
    if how.is_shown or value is bool or one.is_required:
        return parameter.replace(annotation=annotated[kind, declared])
    return parameter.replace(default=None, annotation=annotated[kind | None, declared])


def number_parser(kind: type[Any], how: Any) -> Callable[[Any], Any]:
    """A parser of a number that lies where its Option says; money stays exact."""

    def parse(text: Any) -> Any:
        try:
            return number(kind, how, text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parse
