"""How what-if answers are written: as text, Markdown, JSON (gpucost.whatif/1) or CSV, the same figures in each."""

from __future__ import annotations

import functools
import inspect
import json
import math
import re
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from gpucost.cli.command import Call, command, note_gaps, option, parameters
from gpucost.cli.output import line_width, note, put_or_write, write_rows, write_text
from gpucost.errors import GpucostError, UsageError
from gpucost.render.rows import FLAT, RowFormat, fitted, left_out, render_rows
from gpucost.whatif.fleet import PricePer

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.periods import Period
    from gpucost.price.listing import ListedPrice
    from gpucost.store.connection import Store
    from gpucost.whatif.answer import Answer, Position, Rows, Value
    from gpucost.whatif.fleet import Fleet, Scenario

# below this, four decimals would hide a number's digits
_SMALL = 0.01
# what a table of an answer never leaves out
_ALWAYS_SHOWN = ("cost", "saving", "saving_percent", "today", "scenario")


def write_answer(answer: Answer, format: RowFormat, output: Path | None, saved: Path | None = None) -> None:
    """Write an answer to `output`, or to stdout where it is None, and as JSON to `saved`, for `whatif compare`.

    Raises GpucostError where a file cannot be written.
    """
    if saved is not None:
        write_text(_json(answer), saved)
    if format in FLAT:
        write_rows(("figure", "value"), _flat("", as_dict(answer)), format, output)
        return
    if format is RowFormat.json:
        text = _json(answer)
    else:
        text = _text(answer, line_width(output) if format is RowFormat.table else None, format is RowFormat.markdown)
    put_or_write(text, output)


def _json(answer: Answer) -> str:
    from gpucost.render.data import number

    return json.dumps(as_dict(answer), indent=2, ensure_ascii=False, allow_nan=False, default=number) + "\n"


def as_dict(answer: Answer) -> dict[str, Any]:
    """The answer as JSON holds it; money still Decimal."""
    from gpucost.whatif.compare import SCHEMA

    return {
        "schema": SCHEMA,
        "kind": answer.kind,
        "title": answer.title,
        "period": answer.period,
        "today": _position(answer.today),
        "scenario": _position(answer.scenario),
        "saving": answer.saving,
        "saving_percent": answer.saving_percent,
        **answer.figures,
        "assumptions": [asdict(assumption) for assumption in answer.assumptions],
        "ranges": [asdict(span) for span in answer.ranges],
        "break_even": list(answer.break_even),
        "time": list(answer.time),
        "findings": list(answer.findings),
        "tables": {table.title: [dict(zip(table.columns, line, strict=True)) for line in table.lines] for table in answer.tables},
    }


def _position(position: Position) -> dict[str, Any]:
    return {
        "cost": position.cost,
        "currency": position.currency,
        "gpu_hours": position.gpu_hours,
        "node_hours": position.node_hours,
        **position.more,
    }


def _text(answer: Answer, width: int | None, markdown: bool) -> str:
    """The answer for people, in lines of at most `width` characters as far as that can be."""
    style = _Style(width, markdown)
    currency = answer.today.currency
    rows = [
        ("today", _money(answer.today.cost, currency), f"{answer.today.gpu_hours:,.1f} GPU-hours"),
        ("scenario", _money(answer.scenario.cost, currency), f"{answer.scenario.gpu_hours:,.1f} GPU-hours"),
        ("saving", _money(answer.saving, currency), "" if answer.saving_percent is None else f"{answer.saving_percent:z.1f} %"),
    ]
    parts = [_heading(f"{answer.title}, {answer.period}", markdown), style.table(("", "cost", ""), rows)]
    if answer.ranges:
        spans = [(r.figure, f"{_shown(r.low)} to {_shown(r.high)} {r.unit}", r.meaning) for r in answer.ranges]
        parts += [_section("Range", markdown), style.table(("figure", "range", "meaning"), spans)]
    for title, sentences in (("What would break it", answer.break_even), ("Time", answer.time), ("Findings", answer.findings)):
        if sentences:
            parts += [_section(title, markdown), "".join(style.item(sentence) for sentence in sentences)]
    for table in answer.tables:
        parts += [_section(table.title, markdown), *style.rows(table)]
    if answer.assumptions:
        told = [(a.name, _shown(a.value), a.unit, f"{a.source}{f', {a.as_of}' if a.as_of else ''}") for a in answer.assumptions]
        parts += [_section("Assumptions", markdown), style.table(("what", "value", "unit", "from"), told)]
    return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class _Style:
    """Markdown, or text in lines of at most `width` characters."""

    width: int | None
    markdown: bool

    def table(self, columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
        """All of its columns, long texts broken over lines."""
        if self.markdown:
            return render_rows(columns, lines, RowFormat.markdown)
        return render_rows(*fitted(columns, lines, [0] * len(columns), self.width), RowFormat.table)

    def rows(self, table: Rows) -> list[str]:
        """As many of its columns as the line has room for, money first, and what is said below."""
        lines = [tuple(_shown(value) for value in line) for line in table.lines]
        if self.markdown:
            below, text = "", render_rows(table.columns, lines, RowFormat.markdown)
        else:
            figures = [index for index in range(len(table.columns)) if any(_is_figure(line[index]) for line in table.lines)]
            weights = [_weight(index, name, index in figures) for index, name in enumerate(table.columns)]
            shown, folded = fitted(table.columns, lines, weights, self.width, figures=figures)
            text = render_rows(shown, folded, RowFormat.table)
            below = left_out(table.columns, shown)
        notes = " ".join(note for note in (table.note, below) if note)
        return [text, *([self.wrapped(notes)] if notes else [])]

    def item(self, sentence: str) -> str:
        """One of several sentences."""
        return f"- {sentence}\n" if self.markdown else self.wrapped(sentence, "  ")

    def wrapped(self, text: str, indent: str = "") -> str:
        if self.markdown or self.width is None:
            return f"{indent}{text}\n"
        lines = textwrap.wrap(
            text, max(self.width, 20), initial_indent=indent, subsequent_indent=indent * 2,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        return "".join(f"{line}\n" for line in lines)


def _weight(index: int, name: str, is_figure: bool) -> int:
    """Which columns go first where a line is short: 0 stays, 1 is broken over lines, others go from the last one on."""
    if index == 0 or name in _ALWAYS_SHOWN:
        return 0
    return 2 + index if is_figure else 1


def _is_figure(value: Value) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _heading(text: str, markdown: bool) -> str:
    return f"# {text}\n" if markdown else f"{text}\n"


def _section(text: str, markdown: bool) -> str:
    return f"## {text}\n" if markdown else f"{text}\n"


def _money(amount: Decimal, currency: str) -> str:
    from gpucost.render.formatting import figure_text

    return figure_text(amount, "money", currency, 2)


def _shown(value: Value) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, float | Decimal):
        if 0 < abs(float(value)) < _SMALL:
            return f"{value:.3g}"
        return f"{value:,.4f}".rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _flat(prefix: str, value: Any) -> list[tuple[str, Any]]:
    """Rows of (dotted name, value)."""
    if isinstance(value, dict):
        return [row for key, item in value.items() for row in _flat(f"{prefix}.{key}" if prefix else str(key), item)]
    if isinstance(value, list | tuple):
        return [row for index, item in enumerate(value) for row in _flat(f"{prefix}.{index}", item)]
    return [(prefix, value)]


T = TypeVar("T")

# Beside the options that all commands share: all what-ifs' own, and a workload that may be a pattern.
_SHARED = parameters(
    {
        "workload": (
            list[str] | None,
            option("--workload", "KIND/NAME", "Only this workload's usage; `*` is anything; repeatable."),
        ),
        "save": (str | None, option("--save", "NAME", "Keep the answer beside the store, for gpucost whatif compare.")),
    }
)

# The options that say whose usage it is.
SCOPE = ("team", "namespace", "workload", "cluster")


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What was given of the options that ask for usage in the store."""

    team: list[str] | None = None
    namespace: list[str] | None = None
    workload: list[str] | None = None
    cluster: list[str] | None = None
    month: str | None = None
    start: str | None = None
    end: str | None = None
    last: str | None = None

    def given(self) -> dict[str, object]:
        """Option names and values, as is_calculator takes them; a repeatable one that was not given is None."""
        return self.scope() | self.period()

    def scope(self) -> dict[str, object]:
        """Those that say whose usage."""
        return {f"--{name}": getattr(self, name) or None for name in SCOPE}

    def period(self) -> dict[str, object]:
        """Those that say when."""
        return {"--month": self.month, "--from": self.start, "--to": self.end, "--last": self.last}


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage from the store: the fleet, its period and that period's name, and whose it is.

    `is_narrowed`: only some pods were asked for, so that the rest of their nodes is others' cost (Position.held).
    """

    fleet: Fleet
    period: Period
    period_name: str
    scope_name: str
    is_narrowed: bool


@dataclass(frozen=True)
class Run:
    """A what-if under way: how the configuration is read, whose usage is asked for, and where the answer goes."""

    configured: Callable[[], Config]
    asked: StoreOptions
    format: RowFormat = RowFormat.table
    target: Path | None = None
    save: str | None = None
    quiet: bool = False
    _noted: set[tuple[Period, tuple[str, ...]]] = field(default_factory=set)

    @functools.cached_property
    def settings(self) -> Config:
        """The configuration, read where it is first asked for. Raises ConfigError."""
        return self.configured()

    @property
    def store(self) -> Store:
        """The store that the configuration names; nothing is opened yet."""
        from gpucost.store.connection import Store

        return Store(self.settings.store)

    def evaluate(self, scenario: Scenario[T]) -> T:
        """What the scenario returns; the attribution stages tell what its fleets cost under this configuration."""
        from gpucost.whatif import cost

        return cost.evaluate(functools.partial(cost.costs_of, self.settings), [scenario])[0]

    def read(self, read: Callable[[DuckDBPyConnection], T]) -> T:
        """What `read` makes of the store once it is attributed."""
        from gpucost import pipeline

        return pipeline.read_attributed(self.settings, self.store, read)

    def usage(self, asked: StoreOptions | None = None) -> Usage:
        """The store's usage of the period named, or of the last complete local month; of `asked` instead of what was given.

        Raises UsageError for a period that cannot be read, GpucostError where nothing was used by whom the options name.
        """
        from gpucost.whatif.fleet import Scope, read_fleet

        options = asked or self.asked
        period, name = self.period(options)
        scope = Scope(*(tuple(getattr(options, one) or ()) for one in SCOPE))
        fleet = self.read(lambda con: read_fleet(con, period, scope))
        if (period, scope.clusters) not in self._noted:
            self._noted.add((period, scope.clusters))
            note_gaps(self.settings, self.store, period, scope.clusters, quiet=self.quiet)
        unpriced = [node for node in fleet.nodes if not node.is_priced]
        if unpriced:
            types = sorted({node.instance_type or "no known instance type" for node in unpriced})
            note(
                f"{len(unpriced):,} of {len(fleet.nodes):,} nodes ({', '.join(types)}) have no known price for a part of the"
                " period, which counts as costing nothing: a price book or gpucost collect prices mends that",
                quiet=self.quiet,
            )
        return Usage(fleet, period, name, str(scope), scope.is_narrowed)

    def period(self, asked: StoreOptions | None = None) -> tuple[Period, str]:
        """The period named, or the last complete local month, and its name for people. Raises UsageError."""
        from datetime import UTC, datetime, timedelta

        from gpucost.periods import month_period, name_of, parse_period

        options, tz, now = asked or self.asked, self.settings.tz, datetime.now(UTC)
        named = parse_period(tz, now, month=options.month, start=options.start, end=options.end, last=options.last)
        if named is not None:
            return named
        this_month = month_period(now.astimezone(tz).date(), tz)
        before = month_period((this_month.start.astimezone(tz) - timedelta(days=1)).date(), tz)
        return before, name_of(before, tz)

    def write(self, answer: Answer) -> None:
        """Write the answer where the options say, and keep it under the name given to --save. Raises GpucostError."""
        saved = saved_answers(self.settings) / f"{self.save}.json" if self.save else None
        if saved is not None:
            try:
                saved.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                message = f"cannot make {saved.parent}: {error.strerror or error}"
                raise GpucostError(message, "--store names a store elsewhere") from None
        write_answer(answer, self.format, self.target, saved)


def whatif_command(*, without: Collection[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A what-if command: its parameter `run: Run` stands for the options that all share, less those named in `without`."""
    layout = " ".join(name for name in (*SCOPE, "period", "written", "save") if name not in without)

    def made(function: Callable[..., None]) -> Callable[..., None]:
        def called(call: Call, **given: Any) -> None:
            function(**given, run=_run(call))

        own = inspect.signature(function, eval_str=True).parameters.values()
        call = inspect.Parameter("call", inspect.Parameter.POSITIONAL_ONLY)
        options = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own if one.name != "run"]
        functools.update_wrapper(called, function)
        called.__signature__ = inspect.Signature([call, *options])  # type: ignore[attr-defined]
        return command(f"* {layout}", more=_SHARED)(called)

    return made


def _run(call: Call) -> Run:
    """What the shared options say. Raises UsageError."""
    save, workload = call.more.get("save"), call.more.get("workload")
    if save is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", save):
        raise UsageError(f"--save cannot call an answer {save!r}", "letters, digits, dots, dashes and underscores make a name")
    team, namespace, cluster = (list(names) or None for names in (call.teams, call.namespaces, call.clusters))
    asked = StoreOptions(team, namespace, workload, cluster, call.month, call.start, call.end, call.last)
    return Run(lambda: call.settings, asked, call.format, call.target, save, call.quiet)


def saved_answers(settings: Config) -> Path:
    """The directory that answers are saved in, beside the store."""
    return settings.store.parent / "whatif"


# what is longer, more or dearer is a slip of the keyboard
_TEN_YEARS_DAYS = 3660
_MOST_NODES = 1_000_000
_DEAREST = 10_000_000
_MOST_GPUS = 100_000


def decimal_number(lowest: int = 0, *, above: bool = False, highest: int | None = None) -> Callable[[Any], Decimal]:
    """A parser of money: digits kept exactly. `above`: the lowest itself is refused, too."""

    def number(text: Any) -> Decimal:
        try:
            value = Decimal(str(text))
        except InvalidOperation:
            value = Decimal("NaN")
        if not value.is_finite() or value < lowest or (above and value == lowest) or (highest is not None and value > highest):
            end = f" and at most {highest:,}" if highest is not None else ""
            raise typer.BadParameter(f"{text!r} is no number {'above' if above else 'from'} {lowest}{end}")
        return value

    return number


def float_number(lowest: int = 0, *, above: bool = False, highest: int | None = None) -> Callable[[Any], float]:
    """A parser of times and rates: finite, from `lowest` (or `above` it) to `highest`."""
    exact = decimal_number(lowest, above=above, highest=highest)

    def number(text: Any) -> float:
        value = float(exact(text))
        if math.isinf(value):
            raise typer.BadParameter(f"{text!r} is too large")
        return value

    return number


def price_option(name: str, help: str) -> Any:
    """An option that takes a price: money above zero, exactly."""
    return typer.Option(name, metavar="MONEY", parser=decimal_number(above=True, highest=_DEAREST), help=help, show_default=False)


def amount_option(name: str, help: str, *, metavar: str = "MONEY", above: bool = False) -> Any:
    """An option that takes money, or another exact amount, from zero (or `above` it)."""
    return typer.Option(name, metavar=metavar, parser=decimal_number(above=above), help=help, show_default=False)


def number_option(
    name: str, help: str, *, lowest: int = 0, above: bool = False, highest: int | None = None, show_default: bool = False
) -> Any:
    """An option that takes a time, a rate or a percentage."""
    parser = float_number(lowest, above=above, highest=highest)
    return typer.Option(name, metavar="NUMBER", parser=parser, help=help, show_default=show_default)


OnDemandPriceOption = Annotated[Decimal | None, price_option("--on-demand-price", "On-demand price per hour, in --price-per.")]
SpotPriceOption = Annotated[Decimal | None, price_option("--spot-price", "Spot price per hour, in --price-per.")]
PricePerOption = Annotated[PricePer, typer.Option("--price-per", help="What the prices given here are per: a node or a GPU.")]
NodesOption = Annotated[
    int | None, typer.Option("--nodes", min=1, max=_MOST_NODES, metavar="COUNT", help="Nodes, each with --gpus. Default: 1.")
]
GpusOption = Annotated[
    int | None,
    typer.Option(
        "--gpus",
        min=1,
        max=_MOST_GPUS,
        metavar="COUNT",
        help="GPUs of a node; without --nodes all of them, as one node. Default: 8.",
    ),
]
HoursOption = Annotated[
    float | None,
    number_option("--hours", "Hours that each node is needed. Default: 730, a month.", above=True, highest=24 * _TEN_YEARS_DAYS),
]
ActiveHoursPerDayOption = Annotated[
    float | None, number_option("--active-hours-per-day", "Hours of a day that are needed.", above=True, highest=24)
]
DaysOption = Annotated[
    int | None,
    typer.Option("--days", min=1, max=_TEN_YEARS_DAYS, metavar="COUNT", help="Days that counts per day run. Default: 30."),
]
CurveOption = Annotated[
    Path | None,
    typer.Option("--curve", metavar="FILE", help="Nodes in use, one line per hour: a number, or CSV with a column `nodes`."),
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, metavar="NUMBER", help="The same seed simulates the same.")]


def options_of(**values: object) -> dict[str, object]:
    """Option names and values, as is_calculator takes them, of parameters; a flag or a list that was not given is None."""
    return {f"--{name.replace('_', '-')}": None if value is False or value == [] else value for name, value in values.items()}


def is_calculator(describing: Mapping[str, object], of_store: Mapping[str, object]) -> bool:
    """Whether options describe the fleet, so that no store is needed. Keys are option names; a value of None was not given.

    Raises UsageError where options that ask for the store's usage stand beside them.
    """
    described = [name for name, value in describing.items() if value is not None]
    asked = [name for name, value in of_store.items() if value is not None]
    if described and asked:
        raise UsageError(
            f"{asked[0]} asks for usage in the store, {described[0]} describes a fleet by options",
            f"leave out {' and '.join(asked if len(asked) <= len(described) else described)}",
        )
    return bool(described)


class ListPrices:
    """Asks list prices of one connection; in the config's currency alone."""

    def __init__(self, con: DuckDBPyConnection, settings: Config) -> None:
        self._con = con
        self._settings = settings

    def all(
        self, name: str, *, purchase_options: tuple[str, ...], providers: tuple[str, ...] = (), regions: tuple[str, ...] = ()
    ) -> list[ListedPrice]:
        """Prices of an instance type or GPU model in every region, cheapest GPU-hour first.

        Raises GpucostError where the name means nothing (it offers near ones) or nothing is known of it.
        """
        from datetime import datetime

        from gpucost.price.fx import rates
        from gpucost.price.listing import Asked, listing

        asked = Asked(
            today=datetime.now(self._settings.tz).date(),
            currency=self._settings.currency,
            stale_after_days=self._settings.prices.stale_after_days,
            providers=providers,
            regions=regions,
            purchase_options=purchase_options,
            all_regions=True,
        )
        rows = listing(self._con, name, asked, rates(self._settings)).rows
        return [row for row in rows if row.currency == self._settings.currency]

    def some(self, name: str, *, purchase_options: tuple[str, ...], provider: str, region: str) -> list[ListedPrice]:
        """The same in one place, empty where nothing is known."""
        from gpucost.errors import GpucostError

        places = {"providers": (provider,) if provider else (), "regions": (region,) if region else ()}
        try:
            return self.all(name, purchase_options=purchase_options, **places)
        except GpucostError:
            return []


@contextmanager
def store_or_empty(settings: Config) -> Iterator[DuckDBPyConnection]:
    """The store where there is one, else an empty one in memory: the catalog can be asked beside either."""
    from gpucost.store.connection import Store, scratch_store

    store = Store(settings.store)
    with store.read() if store.exists else scratch_store() as con:
        yield con


@contextmanager
def list_prices(settings: Config) -> Iterator[ListPrices]:
    """List prices, with those of the store where there is one: the catalog answers without."""
    with store_or_empty(settings) as con:
        yield ListPrices(con, settings)


def price_of_region(rows: Sequence[ListedPrice]) -> ListedPrice:
    """Of a region's prices, cheapest first, the one of no certain zone: the region's own, else the lower median of its zones."""
    return next((row for row in rows if row.zone is None), rows[(len(rows) - 1) // 2])


def source_of(price: ListedPrice) -> tuple[str, str]:
    """Where a list price comes from, and its day."""
    return (f"{price.origin.replace('_', ' ')}: {price.source}", price.price_as_of.isoformat())
