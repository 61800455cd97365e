"""Declarations of options: dataclass fields and function parameters annotated with an Option.

The command line, the Python API and the MCP tools read the same declarations.
"""

import inspect
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import is_dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from gpucost.errors import UsageError
from gpucost.records import frozen_dataclass, keyed_dataclass, mixin_dataclass

Function = Callable[..., Any]
# Values of options by key, or of fields.
Values = Mapping[str, Any]
N = TypeVar("N", int, float, Decimal)

_SCALES = {"k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9, "t": 10**12}
# Headings in a command's help, in order.
PANELS = ("Arguments", "Options", "Selection and period", "Output", "Rarely used", "Global")
ARGUMENTS, OPTIONS, WHOSE, WRITTEN, RARE, EVERYWHERE = PANELS
# `from` is a keyword in Python
_ALIASES = {"start": "from", "end": "to", "from_": "from"}


@frozen_dataclass
class Option:
    """An option of a command.

    Answers describe it with the text `label` and the unit `unit`. A number is between `least` (exclusive if
    `above`) and `most`. `flag` defaults to the field's name. `is_shown`: help shows the default. `panel` is
    the heading in help. `source` is the origin of the default. `completes` names the values that a shell
    offers: a name in the store, or `dimensions`. `is_split`: one text holds several values between commas.
    `is_argument`: it has no flag. `also` is a second flag. `is_scaled`: k, M, B (or G) and T after a number
    are thousands to trillions.
    """

    help: str
    metavar: str | None = None
    least: int = 0
    most: int | None = None
    above: bool = False
    flag: str = ""
    is_shown: bool = False
    panel: str = OPTIONS
    label: str = ""
    unit: str = ""
    source: str = "default"
    completes: str = ""
    is_split: bool = False
    is_argument: bool = False
    is_scaled: bool = False
    also: str = ""


def count(help: str, least: int = 0, most: int | None = None) -> Option:
    """An option for a count; help shows its default."""
    return Option(help, "COUNT", least, most, is_shown=True)


def only(name: str, help: str) -> Option:
    """An option that selects a part of the fleet by names of one kind."""
    return Option(help, "NAME", flag=f"--{name}", panel=WHOSE, completes=name)


def argument(metavar: str, help: str) -> Option:
    """A positional argument."""
    return Option(help, metavar, panel=ARGUMENTS, is_argument=True)


@keyed_dataclass
class OptionGroup:
    """Options of a command; `explicit_options` names the fields that were set."""

    explicit_options: Collection[str] = ()


Names = tuple[str, ...]


@mixin_dataclass
class ClusterOption:
    """Clusters to select; empty means all."""

    clusters: Annotated[Names, only("cluster", "Cluster to include (repeatable; default: all).")] = ()


@mixin_dataclass
class TeamOption:
    """Teams to select; empty means all."""

    teams: Annotated[Names, only("team", "Team to include (repeatable; default: all).")] = ()


@mixin_dataclass
class Selection(ClusterOption, TeamOption):
    """A part of the fleet; empty fields select everything.

    Values of one field are alternatives; fields are combined with AND.
    """

    namespaces: Annotated[Names, only("namespace", "Namespace to include (repeatable; default: all).")] = ()


@mixin_dataclass
class WorkloadSelection(Selection):
    """A part of the fleet, down to workloads and users."""

    workloads: Annotated[
        Names, only("workload", "Workload to include, as Kind/name or name (repeatable; default: all).")
    ] = ()
    users: Annotated[
        Names,
        only("user", "User of Slurm or of the label [labels] user to include (repeatable; default: all)."),
    ] = ()


@mixin_dataclass
class LabelOption:
    """Labels to select; empty means all."""

    labels: Annotated[
        Names,
        Option(
            "Label of pods, namespaces or nodes to include, as NAME=VALUE (repeatable; default: all).",
            "NAME=VALUE",
            flag="--label",
            panel=WHOSE,
        ),
    ] = ()


@mixin_dataclass
class LabelSelection(LabelOption, WorkloadSelection):
    """A part of the fleet, down to workloads, users and labels."""


@mixin_dataclass
class MonthOption:
    """A calendar month."""

    month: Annotated[
        str | None,
        Option("A whole month in the configured time zone.", "YYYY-MM", panel=WHOSE, completes="month"),
    ] = None


@mixin_dataclass
class SpanOptions:
    """The time between two instants."""

    start: Annotated[
        str | None,
        Option(
            "Start: 2026-10-01 (local midnight), 2026-10-01T06:00 (local) or 2026-10-01T06:00Z.",
            "TIME",
            flag="--from",
            panel=WHOSE,
        ),
    ] = None
    end: Annotated[str | None, Option("End, exclusive (default: now).", "TIME", flag="--to", panel=WHOSE)] = (
        None
    )


@mixin_dataclass
class PeriodOptions(SpanOptions, MonthOption):
    """A period: a month, the time between two instants, or the last complete days."""

    last: Annotated[
        str | None,
        Option(
            "The last complete days or weeks (7d, 2w) up to midnight, or hours (24h) up to the last full hour.",
            "SPAN",
            panel=WHOSE,
        ),
    ] = None


@mixin_dataclass
class TargetOption:
    """The file to write an answer to."""

    target: Annotated[
        Path | None,
        Option("Write to this file instead of stdout.", "FILE", flag="--output", also="-o", panel=WRITTEN),
    ] = None


@mixin_dataclass
class LakeOption:
    """A lake of Parquet files to read from."""

    lake: Annotated[
        str | None,
        Option(
            "Lake to read instead of the store: a folder, s3://…, gs://… or abfss://… (docs/lake.md).",
            "URL",
            panel=EVERYWHERE,
        ),
    ] = None


@mixin_dataclass
class Everywhere:
    """Options of every command."""

    config: Annotated[
        Path | None,
        Option("Config file (default: ./gpucost.toml, then the user's).", "FILE", panel=EVERYWHERE),
    ] = None
    store: Annotated[
        Path | None, Option("Store file (default: the store in the config).", "FILE", panel=EVERYWHERE)
    ] = None
    quiet: Annotated[
        bool, Option("Print only data and errors, without progress and notes.", also="-q", panel=EVERYWHERE)
    ] = False
    verbose: Annotated[
        bool, Option("Print more details, and tracebacks of unexpected errors.", also="-v", panel=EVERYWHERE)
    ] = False
    profile: Annotated[bool, Option("Print the time of each SQL stage on stderr.", panel=EVERYWHERE)] = False


@frozen_dataclass
class Parameter:
    """An option or argument: parameter `name`, or that field of parameter `group`.

    `kind` is the type of one value.
    """

    name: str
    group: str
    kind: Any
    is_repeated: bool
    default: Any
    option: Option

    @property
    def flag(self) -> str:
        """The flag as typed: `--min-cost`."""
        return flag_of(self.name, self.option)

    @property
    def key(self) -> str:
        """The name in Python: `min_cost`."""
        return self.name if self.option.is_argument else key_of(self.flag)

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed values, if they are limited."""
        if get_origin(self.kind) is Literal:
            return get_args(self.kind)
        is_enum = isinstance(self.kind, type) and issubclass(self.kind, StrEnum)
        return tuple(choice.value for choice in self.kind) if is_enum else ()

    @property
    def is_required(self) -> bool:
        return self.default is inspect.Parameter.empty


def key_of(flag: str) -> str:
    """The Python name of a flag: `min_cost`."""
    return flag.lstrip("-").replace("-", "_")


def flag_of(name: str, option: Option) -> str:
    """The flag of a field or parameter."""
    return option.flag or f"--{name.replace('_', '-')}"


@cache
def parameters(function: Function, group: str = "") -> tuple[Parameter, ...]:
    """The options of a function or dataclass, in order, including fields of dataclass parameters."""
    found: list[Parameter] = []
    for each in _declared(function):
        hint: Any = each.annotation
        if not hasattr(hint, "__metadata__"):  # unwrap `… | None`
            hint = next(iter(get_args(hint)), hint)
        metadata = getattr(hint, "__metadata__", ())
        option = next((part for part in metadata if isinstance(part, Option)), None)
        if is_dataclass(hint):
            found += parameters(hint, each.name)  # type: ignore[arg-type]
        elif option:
            kind = get_args(hint)[0]
            is_repeated = get_origin(kind) is tuple
            if get_origin(kind) is not Literal and get_args(kind):  # unwrap tuples and `… | None`
                kind = get_args(kind)[0]
            found.append(Parameter(each.name, group, kind, is_repeated, each.default, option))
    return tuple(found)


def options_in(kind: type) -> dict[str, Option]:
    """The fields of a dataclass that are options, by name, in order."""
    return {field.name: field.option for field in parameters(kind)}


def _declared(function: Function) -> list[inspect.Parameter]:
    """The parameters with their types; return types may exist only for type checkers."""
    if isinstance(function, type):
        hints = get_type_hints(function, include_extras=True)
    else:
        texts = {name: text for name, text in function.__annotations__.items() if name != "return"}
        space = vars(inspect.getmodule(function))
        hints = get_type_hints(SimpleNamespace(__annotations__=texts), space, include_extras=True)
    return [
        each.replace(annotation=hints[each.name]) for each in inspect.signature(function).parameters.values()
    ]


def arguments(function: Function, values: Values, **groups: Values) -> dict[str, Any]:
    """The keyword arguments for a call of `function`.

    `values` are options by key; `groups` are fields of its dataclasses that are not options. None and False
    mean the default. Raises UsageError for a value that an option does not accept.
    """
    explicit: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for option in parameters(function):
        value = values.get(option.key)
        if value is None or value is False or value == ():
            continue
        value = parsed(option, value)
        # the command line passes a default that help shows even if the user did not set it
        if not (option.option.is_shown and value == option.default):
            explicit[option.group][option.name] = value
    found = explicit[""]
    for each in _declared(function):
        if is_dataclass(each.annotation):
            kind: Any = each.annotation
            fields = explicit[each.name]
            names = {"explicit_options": tuple(fields)} if issubclass(kind, OptionGroup) else {}
            found[each.name] = kind(**fields, **names, **groups.get(each.name, {}))
    return found


def by_key(function: Function, command: str, words: Collection[Any], options: Values) -> dict[str, Any]:
    """Arguments and options of a command by their Python names, as keys of its parameters.

    Raises UsageError for an unknown option, and for too many or too few arguments.
    """
    fix = f"gpucost {command} --help"
    takes = parameters(function)
    existing = {key_of(each.option.also): each for each in takes} | {each.key: each for each in takes}
    positional = [each for each in takes if each.option.is_argument]
    if len(words) > len(positional):
        raise UsageError(f"{command} takes {len(positional)} arguments, not {len(words)}", fix)
    values = {each.key: word for each, word in zip(positional, words, strict=False)}
    for name, value in options.items():
        key = _ALIASES.get(name, name)
        if key not in existing:
            raise UsageError(f"No such option: --{key.replace('_', '-')}", fix)
        if value is True and existing[key].kind is not bool:
            raise UsageError(f"{name} takes a value, not True", fix)
        values[existing[key].key] = value
    for each in positional:
        if each.is_required and values.get(each.key) is None:
            raise UsageError(f"Missing argument {each.option.metavar}", fix)
    return values


def parsed(parameter: Parameter, value: Any) -> Any:
    """The value of an option, from texts or values. Raises UsageError if it is invalid."""
    if not parameter.is_repeated:
        return _parsed(parameter, value)
    several = [value] if isinstance(value, str) or not isinstance(value, Iterable) else value
    if parameter.option.is_split:
        several = [part for text in several for part in str(text).split(",")]
        several = [part.strip() for part in several if part.strip()]
    return tuple(_parsed(parameter, part) for part in several)


def _parsed(parameter: Parameter, value: Any) -> Any:
    kind: Any = parameter.kind
    if kind is bool:
        return bool(value)
    text = value.isoformat() if isinstance(value, date) else str(value)
    try:
        if parameter.choices and text not in parameter.choices:
            raise ValueError(f"{text!r} is not one of {', '.join(parameter.choices)}")
        if kind in (int, float, Decimal):
            return number(kind, parameter.option, text)
    except ValueError as error:
        name = parameter.option.metavar if parameter.option.is_argument else parameter.flag
        raise UsageError(f"Invalid value for {name}: {error}") from None
    return text if get_origin(kind) is Literal else kind(text)


def number(kind: type[N], how: Option, text: Any) -> N:
    """A number within the range of its Option; money stays exact. Raises ValueError."""
    scale = _SCALES.get(str(text)[-1:].lower()) if how.is_scaled else None
    try:
        value = Decimal(str(text)[:-1]) * scale if scale else Decimal(str(text))
    except InvalidOperation:
        value = Decimal("NaN")
    is_under = value.is_finite() and (value <= how.least if how.above else value < how.least)
    is_broken = kind is int and value.is_finite() and value != value.to_integral_value()
    if not value.is_finite() or is_under or is_broken or (how.most is not None and value > how.most):
        end = f" and at most {how.most:,}" if how.most is not None else ""
        what = "whole number" if kind is int else "number"
        raise ValueError(
            f"{text!r} is not a {what} {'above' if how.above else 'of at least'} {how.least}{end}"
        )
    if math.isinf(float(value)):
        raise ValueError(f"{text!r} is too large")
    return kind(value)
