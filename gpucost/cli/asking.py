"""Questions of the registry as commands: their options, and how their answers are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from gpucost.cli.command import SUFFIXES, Call, registered
from gpucost.cli.output import is_drawn
from gpucost.disk import write_text
from gpucost.errors import GpucostError, UsageError
from gpucost.options import WRITTEN, LakeOption, Option, Parameter, TargetOption, parameters, parsed
from gpucost.questions import BRIEF_FORMATS, FORMATS, QUESTIONS, REPORT_FORMATS, Question

_METAVARS = {float: "NUMBER", Decimal: "MONEY", int: "COUNT"}
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
    Option(
        "Keep the answer beside the store, for gpucost whatif compare.", "NAME", flag="--save", panel=WRITTEN
    ),
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
    asked = parameters(question.function)

    def decorate(run: Callable[..., None]) -> Callable[..., None]:
        own = parameters(run)
        shared = (*(parameters(LakeOption) if question.takes_lake else ()), *_written(question))

        def answered(values: Mapping[str, Any], **place: Any) -> None:
            target = values.get("output")
            chosen = values["format"] or _format_of(question, target)
            call = Call(**place, target=target, format=chosen, lake=values.get("lake"))
            request = {name: place[name] for name in ("config_file", "store_file", "client")}
            request |= {"lake": call.lake, "format": chosen, "is_drawn": is_drawn(target)}
            mine = {one.name: parsed(one, values[one.key]) for one in own if values[one.key] is not None}
            run(call, Ask(question, values, request), **mine)

        without = "" if question.takes_store else "store"
        return registered(answered, (*asked, *own, *shared), question.function, without=without)

    return decorate


def _written(question: Question) -> tuple[Parameter, ...]:
    is_brief = question.formats == BRIEF_FORMATS
    kind: Any = Literal.__getitem__(question.formats)
    how = Option(_HELP.get(question.formats, _SHORT), is_shown=is_brief, panel=WRITTEN)
    formats = Parameter("format", "", kind, False, "table" if is_brief else None, how)
    return (formats,) if is_brief else (formats, *parameters(TargetOption))


def _format_of(question: Question, target: Path | None) -> str:
    """The format that a file's suffix means; a table without one. Raises UsageError for a suffix that means none."""
    suffix = target.suffix.lower() if target else ""
    if suffix and suffix not in SUFFIXES and question.formats == REPORT_FORMATS:
        raise UsageError(
            f"no format belongs to the suffix of {target}",
            f"-o knows {', '.join(SUFFIXES)}; with any other, --format says how to write it",
        )
    meant = SUFFIXES.get(suffix, "table")
    return meant if meant in question.formats else "table"
