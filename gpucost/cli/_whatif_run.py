"""What every what-if command takes besides its own options: whose usage of the store and when, and where the answer goes."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors, note, output_file
from gpucost.cli._periods import FromOption, LastOption, MonthOption, ToOption
from gpucost.cli._rows import FormatOption, OutputOption, RowFormat
from gpucost.cli._strict import note_gaps
from gpucost.cli._whatif import write_answer
from gpucost.errors import GpucostError, UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config import Config
    from gpucost.model import Period
    from gpucost.store import Store
    from gpucost.whatif.answer import Answer
    from gpucost.whatif.fleet import Costs, Fleet

T = TypeVar("T")

TeamOption = Annotated[list[str] | None, typer.Option("--team", metavar="NAME", help="Only this team's usage; repeatable.")]
NamespaceOption = Annotated[
    list[str] | None, typer.Option("--namespace", metavar="NAME", help="Only this namespace's usage; repeatable.")
]
WorkloadOption = Annotated[
    list[str] | None,
    typer.Option("--workload", metavar="KIND/NAME", help="Only this workload's usage; `*` is anything; repeatable."),
]
ClusterOption = Annotated[
    list[str] | None, typer.Option("--cluster", metavar="NAME", help="Only this cluster's usage; repeatable.")
]
SaveOption = Annotated[
    str | None,
    typer.Option(
        "--save", metavar="NAME", help="Keep the answer beside the store, for gpucost whatif compare.", show_default=False
    ),
]

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
        from gpucost.store import Store

        return Store(self.settings.store)

    def cost_of(self, fleet: Fleet) -> Costs:
        """What a fleet costs under this configuration, by the attribution stages."""
        from gpucost import costing

        return costing.cost_of(self.settings, fleet)

    def read(self, read: Callable[[DuckDBPyConnection], T]) -> T:
        """What `read` makes of the store once it is attributed."""
        from gpucost import pipeline

        return pipeline.read_attributed(self.settings, self.store, read)

    def usage(self, asked: StoreOptions | None = None) -> Usage:
        """The store's usage of the period named, or of the last complete local month; of `asked` instead of what was given.

        Raises UsageError for a period that cannot be read, GpucostError where nothing was used by whom the options name.
        """
        from gpucost.whatif.usage import Scope, read_fleet

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

        from gpucost.cli._periods import parse_period
        from gpucost.timeline import month_period, name_of

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
    """A what-if command: its parameter `run: Run` stands for the options of `opened`, less those named in `without`."""
    shared = [one for one in inspect.signature(opened, eval_str=True).parameters.values() if one.name not in without]

    def made(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters.values()
        parameters = [option for one in own for option in (shared if one.name == "run" else [one])]

        @handle_errors
        @functools.wraps(command)
        def called(**given: Any) -> None:
            run = opened(**{one.name: given.pop(one.name) for one in shared})
            command(**given, run=run)

        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {one.name: one.annotation for one in parameters}
        return called

    return made


def opened(
    team: TeamOption = None,
    namespace: NamespaceOption = None,
    workload: WorkloadOption = None,
    cluster: ClusterOption = None,
    month: MonthOption = None,
    start: FromOption = None,
    end: ToOption = None,
    last: LastOption = None,
    format: FormatOption = RowFormat.table,
    output: OutputOption = None,
    save: SaveOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> Run:
    """What the shared options say. Raises UsageError."""
    from gpucost.config import load_config

    if save is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", save):
        raise UsageError(f"--save cannot call an answer {save!r}", "letters, digits, dots, dashes and underscores make a name")
    asked = StoreOptions(team, namespace, workload, cluster, month, start, end, last)
    return Run(lambda: load_config(config, store=store), asked, format, output_file(output), save, quiet)


def saved_answers(settings: Config) -> Path:
    """The directory that answers are saved in, beside the store."""
    return settings.store.parent / "whatif"
