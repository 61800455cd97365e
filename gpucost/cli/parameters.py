"""Options for typer."""

import inspect
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any

import typer

from gpucost.cli.completion import dimensions, stored
from gpucost.options import Option, Parameter, number

_METAVARS = {float: "NUMBER", Decimal: "MONEY", int: "COUNT"}


def typer_parameter(option: Parameter) -> inspect.Parameter:
    """An option for typer. None is a default that help does not show."""
    how, annotated, several = option.option, Annotated, list
    value: Any = option.kind
    more: dict[str, Any] = {"help": how.help, "rich_help_panel": how.panel}
    if value in _METAVARS:
        more |= {"parser": number_parser(value, how)}
    if how.completes:
        more |= {"autocompletion": dimensions if how.completes == "dimensions" else stored(how.completes)}
    kind: Any = several[value] if option.is_repeated else value
    is_shown = how.is_shown or value is bool
    metavar = how.metavar or _METAVARS.get(value)
    declared: Any
    if how.is_argument:
        declared = typer.Argument(metavar=metavar, show_default=False, **more)
    else:
        flags = filter(None, (option.flag, how.also))
        declared = typer.Option(*flags, metavar=metavar, show_default=is_shown, **more)
    parameter = inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default)
    if is_shown or option.is_required:
        return parameter.replace(annotation=annotated[kind, declared])
    return parameter.replace(default=None, annotation=annotated[kind | None, declared])


def number_parser(kind: type[Any], how: Option) -> Callable[[Any], Any]:
    """A parser of a number within the bounds of its Option; money stays exact."""

    def parse(text: Any) -> Any:
        try:
            return number(kind, how, text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parse
