"""How what-if answers are written: as text, Markdown, JSON (gpucost.whatif/1) or CSV, the same figures in each."""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer

from gpucost.cli.command import Call, command, option, parameters
from gpucost.cli.output import write_page
from gpucost.disk import write_text
from gpucost.errors import GpucostError, UsageError
from gpucost.options import WHOSE, WRITTEN, Option, options_in, typed_option
from gpucost.questions.request import store_or_empty
from gpucost.render.rows import FLAT, RowFormat
from gpucost.render.view import Column, Figure, Figures, Line, Page, Table, Texts, Unit, figure, text
from gpucost.texts import readable_json

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.periods import Period
    from gpucost.price.listing import ListedPrice
    from gpucost.whatif.answer import Answer, Rows, Value
    from gpucost.whatif.fleet import Scenario, Scope, Usage

# below this, four decimals would hide a number's digits; above that, two say more than anybody reads
_SMALL, _LARGE = 0.01, 10_000
# A word that may begin with a capital: no name of a cloud, and nothing with signs or digits in it.
_WORD = re.compile(r"(?!(?:aws|gcp|azure|oci)\b)[a-z]+(?:-[a-z]+)*[:,;]?")
# what a table of an answer never leaves out
_ALWAYS_SHOWN = ("cost", "saving", "saving_percent", "today", "scenario")


def as_dict(answer: Answer) -> dict[str, Any]:
    """The answer as JSON holds it; money still Decimal."""
    from gpucost.whatif.compare import SCHEMA

    document: dict[str, Any] = {"schema": SCHEMA}
    for name, value in asdict(answer).items():
        if name in ("today", "scenario"):
            document[name] = value | value.pop("more")
        elif name == "figures":
            document |= {"saving": answer.saving, "saving_percent": answer.saving_percent} | value
        else:
            document[name] = value
    rows = {
        table.title: [dict(zip(table.columns, line, strict=True)) for line in table.lines]
        for table in answer.tables
    }
    return document | {"tables": rows}


def _page(answer: Answer) -> Page:
    """The answer for people: today, the scenario and what is saved; then ranges, sentences, tables and assumptions."""
    from gpucost.render.formatting import figure_text

    currency, percent = answer.today.currency, answer.saving_percent
    share = (None, None) if percent is None else (percent / 100, "of today's cost")
    figures = (
        *(
            Figure(name, position.cost, "money", note=f"{position.gpu_hours:,.1f} GPU-hours")
            for name, position in (("Today", answer.today), ("Scenario", answer.scenario))
        ),
        Figure("Saving", answer.saving, "money", *share),
    )

    def shown(value: Value, unit: str) -> str:
        is_money = unit == currency and isinstance(value, int | float | Decimal)
        return figure_text(Decimal(str(value)), "money", currency, 2) if is_money else _shown(value)

    told = (("What would break it", answer.break_even), ("Time", answer.time), ("Findings", answer.findings))
    ranges = Table.of(
        "Range",
        answer.ranges,
        (
            text(lambda one: capitalized(one.figure), "Figure"),
            figure(lambda one: f"{shown(one.low, one.unit)} to {shown(one.high, one.unit)}", "Range"),
            text(lambda one: "" if one.unit == currency else one.unit, "Unit"),
            text("meaning"),
        ),
    )
    assumptions = Table.of(
        "Assumptions",
        answer.assumptions,
        (
            text(lambda one: capitalized(one.name), "What"),
            figure(lambda one: _shown(one.value), "Value"),
            text("unit"),
            text(lambda one: f"{one.source}{f', {one.as_of}' if one.as_of else ''}", "From"),
        ),
    )
    return Page(
        title=f"{answer.title}, {answer.period}",
        currency=currency,
        sections=(
            Figures("", figures),
            *([ranges] if answer.ranges else []),
            *(Texts(title, tuple(map(_sentence, texts))) for title, texts in told if texts),
            *(_table(rows, currency) for rows in answer.tables),
            *([assumptions] if answer.assumptions else []),
        ),
        whole_in="json",
    )


def _table(rows: Rows, currency: str) -> Table:
    """A table of the answer: money with its sign, numbers as long as they need be; where room lacks the last figures go first."""
    columns = []
    for at, (name, values) in enumerate(zip(rows.columns, zip(*rows.lines, strict=True), strict=True)):
        unit, decimals = _unit(name, values)
        weight = 0 if at == 0 or name in _ALWAYS_SHOWN else 1 if unit == "text" else 2 + at
        columns.append(Column(capitalized(name), unit, decimals, weight))
    lines = (
        Line(tuple(_cell(*one, currency) for one in zip(line, columns, strict=True))) for line in rows.lines
    )
    return Table(capitalized(rows.title), tuple(columns), tuple(lines), rows.note)


def _unit(name: str, values: Sequence[Value]) -> tuple[Unit, int]:
    """How the values of a column are written, and with how many decimals; money is known by being decimal, and no measure.

    In a column of money and other numbers each is written by itself: it has no decimals in common.
    """
    figures = [value for value in values if _is_figure(value)]
    if not figures:
        return "text", 0
    kinds = {isinstance(value, Decimal) for value in figures}
    if True in kinds and "GB" not in _words(name):
        if len(kinds) > 1:
            return "price", 0
        return ("price", 4) if "per" in _words(name) or name.endswith("price") else ("money", 2)
    if "%" in name or "percent" in name:
        return "hours", 1
    sizes = [abs(float(value)) for value in figures if value is not None]
    return "hours", 0 if all(size.is_integer() for size in sizes) else 4 if max(sizes) < 1 else 2 if max(
        sizes
    ) < _LARGE else 1


def _cell(value: Value, column: Column, currency: str) -> str | float | Decimal | None:
    from gpucost.render.formatting import figure_text

    if column.unit == "price" and not column.decimals and value is not None:
        return figure_text(value, "money", currency, 2) if isinstance(value, Decimal) else _shown(value)
    return _shown(value) if column.unit == "text" and value is not None else value


def _sentence(text: str) -> str:
    """A sentence begins with a capital, unless with a name: those are there to be copied."""
    first = text.partition(" ")[0]
    begins = capitalized(first) if _WORD.fullmatch(first) else first
    return begins + text[len(first) :] + ("" if text.endswith((".", "!", "?")) else ".")


def _words(name: str) -> list[str]:
    return re.split(r"[ _]", name.replace("gpu_hours", "GPU-hours"))


def capitalized(name: str) -> str:
    """A name as a title: `held_gpu_hours` is `Held GPU-hours`; the name of an instance type stays as it is."""
    first, *rest = ({"gpu": "GPU", "gpus": "GPUs", "mib": "MiB"}.get(word, word) for word in _words(name))
    return " ".join((first[:1].upper() + first[1:] if _WORD.fullmatch(first) else first, *rest))


def _is_figure(value: Value) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _shown(value: Value) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, float | Decimal):
        return f"{value:.3g}" if 0 < abs(float(value)) < _SMALL else f"{value:,.4f}".rstrip("0").rstrip(".")
    return f"{value:,}" if _is_figure(value) else str(value)


def _flat(prefix: str, value: Any) -> list[tuple[str, Any]]:
    """Rows of (dotted name, value)."""
    if not isinstance(value, dict | list | tuple):
        return [(prefix, value)]
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return [row for key, item in items for row in _flat(f"{prefix}.{key}" if prefix else str(key), item)]


T = TypeVar("T")
N = TypeVar("N", float, Decimal)

# Beside the options that all commands share: all what-ifs' own, and a workload that may be a pattern.
_SHARED = parameters(
    {
        "workload": (
            list[str] | None,
            option(
                "--workload", "KIND/NAME", "Only this workload's usage; `*` is anything; repeatable.", WHOSE
            ),
        ),
        "save": (
            str | None,
            option(
                "--save", "NAME", "Keep the answer beside the store, for gpucost whatif compare.", WRITTEN
            ),
        ),
    }
)

# The options that say whose usage it is.
SCOPE = ("team", "namespace", "workload", "cluster")


@dataclass(frozen=True)
class WhatIfContext(Call):
    """A what-if under way. `workloads` may be globs, `save` is the name that its answer is kept under.

    The period is the one named, else the last complete local month.
    """

    save: str | None = None
    _noted: set[tuple[str, ...]] = field(default_factory=set)

    @functools.cached_property
    def chosen(self) -> tuple[Period, str, str | None]:
        from gpucost.periods import month_period, name_of

        last_month = month_period(self.today.replace(day=1) - timedelta(days=1), self.tz)
        return *(self.named_period or (last_month, name_of(last_month, self.tz))), None

    @property
    def today(self) -> date:
        return self.now.astimezone(self.tz).date()

    @property
    def scope(self) -> Scope:
        """Whose usage is asked for."""
        from gpucost.whatif.fleet import Scope

        return Scope(self.teams, self.namespaces, self.workloads, self.clusters)

    @property
    def period_flags(self) -> list[str]:
        """The options given that say when, as they are typed."""
        values = {"--month": self.month, "--from": self.start, "--to": self.end, "--last": self.last}
        return [name for name, value in values.items() if value is not None]

    def evaluate(self, scenario: Scenario[T]) -> T:
        """What the scenario returns; the attribution stages tell what its fleets cost under this configuration."""
        from gpucost.whatif import cost

        return cost.evaluate(functools.partial(cost.costs_of, self.settings), [scenario])[0]

    def read(self, read: Callable[[DuckDBPyConnection], T]) -> T:
        """What `read` makes of the store once it is attributed."""
        from gpucost import pipeline

        return pipeline.read_attributed(self.settings, self.store, read)

    def usage(self, scope: Scope | None = None) -> Usage:
        """The store's usage of the period; of `scope` instead of what was given.

        Raises UsageError for a period that cannot be read, GpucostError where nothing was used by whom the options name.
        """
        from gpucost.whatif.fleet import Usage, read_fleet

        scope, period = scope or self.scope, self.period
        fleet = self.read(lambda con: read_fleet(con, period, scope))
        if scope.clusters not in self._noted:
            self._noted.add(scope.clusters)
            self.note_gaps(scope.clusters, period)
        unpriced = [node for node in fleet.nodes if not node.is_priced]
        if unpriced:
            types = sorted({node.instance_type or "no known instance type" for node in unpriced})
            self.note(
                f"{len(unpriced):,} of {len(fleet.nodes):,} nodes ({', '.join(types)}) have no known price"
                f" for a part of the"
                " period, which counts as costing nothing: a price book or gpucost collect prices mends that"
            )
        return Usage(fleet, self.settings.currency, self.period_name, str(scope), scope.is_narrowed)

    def is_described(
        self, group: Any, *of_store: str, but: Collection[str] = (), of_period: bool = True
    ) -> bool:
        """Whether options of the group, others than those of `but`, describe the fleet, so that no store is needed.

        `of_store` are those given besides that ask for the store's usage, as those of a scope do, and of a period if
        `of_period`. Raises UsageError where both are.
        """
        described = flags_of(group, but)
        of_scope = [f"--{name}" for name in SCOPE if getattr(self, f"{name}s")]
        stored = [*of_scope, *(self.period_flags if of_period else ()), *of_store]
        if described and stored:
            raise UsageError(
                f"{stored[0]} asks for usage in the store, {described[0]} describes a fleet by options",
                f"leave out {' and '.join(stored if len(stored) <= len(described) else described)}",
            )
        return bool(described)

    def finish(self, scenario: Scenario[Answer]) -> None:
        """Write the scenario's answer where the options say, and keep it under the name given to --save. Raises GpucostError."""
        from gpucost.render.schema import plain as number

        answer = self.evaluate(scenario)
        document = as_dict(answer)
        text = readable_json(document, indent=2, allow_nan=False, default=number) + "\n"
        if self.save:
            folder = saved_answers(self.configured)
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise GpucostError(
                    f"cannot make {folder}: {error.strerror or error}", "--store names a store elsewhere"
                ) from None
            write_text(text, folder / f"{self.save}.json")
        self.write_as(("figure", "value"), _flat("", document), text, _page(answer))

    def write_as(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], text: str, page: Page) -> None:
        """Write the rows, the JSON text or the page, as --format and -o say. Raises GpucostError where they cannot be written."""
        if self.format in FLAT:
            self.write_rows(columns, rows)
        elif self.format is RowFormat.json:
            self.write(text)
        else:
            write_page(page, self.target, markdown=self.format is RowFormat.markdown)


def whatif_command(
    *, without: Collection[str] = (), more: Mapping[str, inspect.Parameter] = {}
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A what-if command: its parameter `run: WhatIfContext` stands for the options that all share, less those named in `without`.

    A parameter of a dataclass stands for the options that its fields are; its `given` are the names of those that were given.
    `more` are options that the command takes as keywords.
    """
    layout = " ".join(
        (*more, *(name for name in (*SCOPE, "period", "written", "save") if name not in without))
    )

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        declared = inspect.signature(function, eval_str=True).parameters.values()
        own = [one for one in declared if one.name != "run" and one.kind is not one.VAR_KEYWORD]
        groups: dict[str, tuple[Any, list[inspect.Parameter]]]
        groups = {
            one.name: (one.annotation, _options(one.annotation))
            for one in own
            if is_dataclass(one.annotation)
        }
        expanded = [
            part for one in own for part in (groups[one.name][1] if one.name in groups else [_option(one)])
        ]

        def called(call: Call, **given: Any) -> None:
            save = call.more.get("save")
            if save is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", save):
                raise UsageError(
                    f"--save cannot call an answer {save!r}",
                    "letters, digits, dots, dashes and underscores make a name",
                )
            run = WhatIfContext(
                **{**vars(call), "workloads": tuple(call.more.get("workload") or ()), "save": save}
            )
            for name, (kind, parts) in groups.items():
                values = {
                    part.name: value
                    for part in parts
                    if (value := given.pop(part.name)) not in (part.default, [])
                }
                fixed = {
                    one: tuple(value) if isinstance(value, list) else value for one, value in values.items()
                }
                given[name] = kind(**fixed, given=tuple(values))
            function(**given, **{name: call.more.get(name) for name in more}, run=run)

        functools.update_wrapper(called, function)
        context = inspect.Parameter("call", inspect.Parameter.POSITIONAL_ONLY)
        called.__signature__ = inspect.Signature([context, *expanded])  # type: ignore[attr-defined]
        return command(f"* {layout}", more={**_SHARED, **more})(called)

    return decorate


def _options(kind: Any) -> list[inspect.Parameter]:
    """The fields of a dataclass that are options, as a command's parameters."""
    fields, hints = inspect.signature(kind).parameters, get_type_hints(kind, include_extras=True)
    return [_option(fields[name].replace(annotation=hints[name])) for name in options_in(kind)]


def _option(one: inspect.Parameter) -> inspect.Parameter:
    """A parameter typed as its Option says; of one that has none, as it is itself."""
    annotated: Any = Annotated
    several: Any = list
    one = one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    kind, how = typed_option(one.annotation)
    if how is None:
        return one
    flag = _flag(one.name, how)
    value = get_args(kind)[0] if get_args(kind) else kind  # of several, or None
    kind = several[value] if get_origin(kind) is tuple else value
    metavar = how.metavar or {float: "NUMBER", Decimal: "MONEY", int: "COUNT"}.get(value)
    more: dict[str, Any] = {"min": how.least, "max": how.most} if value is int else {}
    if value in (float, Decimal):
        more = {"parser": number_parser(value, how)}
    panel = how.panel
    given = typer.Option(flag, metavar=metavar, help=how.help, rich_help_panel=panel, **more)
    if how.is_shown or kind is bool:
        return one.replace(annotation=annotated[kind, given])
    return one.replace(default=None, annotation=annotated[kind | None, given])


def _flag(name: str, how: Option) -> str:
    return how.flag or f"--{name.replace('_', '-')}"


def flags_of(group: Any, but: Collection[str] = ()) -> list[str]:
    """The options of a group that were given, as they are typed, but for fields in `but` and those whose default help shows."""
    known = options_in(type(group)).items()
    return [
        _flag(name, how)
        for name, how in known
        if name in group.given and name not in but and not how.is_shown
    ]


def saved_answers(settings: Config) -> Path:
    """The directory that answers are saved in, beside the store."""
    return settings.store.parent / "whatif"


def number_parser(kind: Callable[[Decimal], N], how: Option) -> Callable[[Any], N]:
    """A parser of a number that lies where its Option says; money stays exact."""

    def parse(text: Any) -> N:
        try:
            value = Decimal(str(text))
        except InvalidOperation:
            value = Decimal("NaN")
        is_under = value.is_finite() and (value <= how.least if how.above else value < how.least)
        if not value.is_finite() or is_under or (how.most is not None and value > how.most):
            end = f" and at most {how.most:,}" if how.most is not None else ""
            raise typer.BadParameter(
                f"{text!r} is no number {'above' if how.above else 'from'} {how.least}{end}"
            )
        if math.isinf(kind(value)):
            raise typer.BadParameter(f"{text!r} is too large")
        return kind(value)

    return parse


def price(flag: str, text: str, price: str, most: int | None = None) -> Decimal:
    """The money above zero, or up to `most`, that stands at the end of an option's `text`. Raises UsageError."""
    try:
        return number_parser(Decimal, Option("", above=True, most=most))(price)
    except typer.BadParameter as error:
        raise UsageError(f"{flag} {text}: {error.message}") from None


# Prices of an instance type or GPU model in every region, cheapest GPU-hour first; in the config's currency alone. Raises
# GpucostError where the name means nothing (it offers near ones) or nothing is known of it.
ListPrices = Callable[..., "list[ListedPrice]"]


@contextmanager
def list_prices(settings: Config) -> Iterator[ListPrices]:
    """List prices, with those of the store where there is one: the catalog answers without."""
    from gpucost.price.fx import rates
    from gpucost.price.listing import PriceQuery, listing

    def listed(name: str, **which: tuple[str, ...]) -> list[ListedPrice]:
        """Those of `purchase_options`, and of `providers` and `regions` where given."""
        query = PriceQuery(
            today=datetime.now(settings.tz).date(),
            currency=settings.currency,
            stale_after_days=settings.prices.stale_after_days,
            all_regions=True,
            **which,
        )
        return [
            row
            for row in listing(con, name, query, rates(settings)).rows
            if row.currency == settings.currency
        ]

    with store_or_empty(settings) as con:
        yield listed


def price_of_region(rows: Sequence[ListedPrice]) -> ListedPrice:
    """Of a region's prices, cheapest first, the one of no certain zone: the region's own, else the lower median of its zones."""
    return next((row for row in rows if row.zone is None), rows[(len(rows) - 1) // 2])


def source_of(price: ListedPrice) -> tuple[str, str]:
    """Where a list price comes from, and its day."""
    return (f"{price.origin.replace('_', ' ')}: {price.source}", price.price_as_of.isoformat())
