"""`gpucost demo`: a sample fleet, from metrics to report, with nothing to set up."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.cli._common import QuietOption, VerboseOption, handle_errors, note, put

if TYPE_CHECKING:
    from gpucost.config import Config
    from gpucost.model import Period

_TEAM = "research"


@handle_errors
def demo(
    keep: Annotated[
        Path | None,
        typer.Option("--keep", metavar="DIR", help="Leave the store, the config and the price book in DIR.", show_default=False),
    ] = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show a month of a sample fleet: its metrics loaded, priced, attributed and reported like your own.

    No network, no credentials. Without --keep nothing stays behind.

    \b
    Examples:
      gpucost demo
      gpucost demo --keep ./gpucost-demo
    """
    from datetime import UTC, datetime

    from gpucost.demo.build import build, last_month

    month = last_month(datetime.now(UTC))
    with _folder(keep) as folder:
        config = build(folder, month, lambda words: note(words, quiet=quiet))
        note("attributing every GPU-hour", quiet=quiet)
        _report(config, month)
        put()
        _report(config, month, _TEAM)
    note(_next(keep), quiet=quiet)


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        yield keep.expanduser()
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="gpucost-demo-") as folder:
        yield Path(folder)


def _report(config: Config, month: Period, *teams: str) -> None:
    from gpucost import pipeline
    from gpucost.cli.report import ReportFormat, write_report
    from gpucost.report import Query
    from gpucost.store import Store
    from gpucost.timeline import name_of

    query = Query(period=month, period_name=name_of(month, config.tz), teams=teams)
    write_report(pipeline.report(config, Store(config.store), query), ReportFormat.table, None)


def _next(keep: Path | None) -> str:
    if keep is None:
        steps = [
            "gpucost demo --keep ./gpucost-demo    to look around in it",
            "gpucost init                          for your own fleet",
        ]
    else:
        steps = [
            f"cd {shlex.quote(str(keep))}",
            "gpucost report --team product",
            "gpucost report --by namespace,gpu_model",
            "gpucost unit epoch",
            "gpucost unit tokens",
            "gpucost waste",
            "gpucost findings",
            "gpucost queue",
            'gpucost sql "from nodes"',
            "change prices.csv or gpucost.toml, and report again",
        ]
    return "\n".join(["", "next:", *(f"  {step}" for step in steps)])
