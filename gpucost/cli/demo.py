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
        typer.Option(
            "--keep", metavar="DIR", help="Leave the store, the config, the bill and the price book in DIR.", show_default=False
        ),
    ] = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show two months of a sample fleet: metrics and a bill loaded, priced, attributed and reported like your own.

    The first month is billed, the second an estimate. No network, no credentials. Without --keep nothing stays behind.

    \b
    Examples:
      gpucost demo
      gpucost demo --keep ./gpucost-demo
    """
    from datetime import UTC, datetime

    from gpucost.demo.build import build, last_months
    from gpucost.demo.model import months

    period = last_months(datetime.now(UTC))
    billed, estimated = months(period)
    with _folder(keep) as folder:
        config = build(folder, period, lambda words: note(words, quiet=quiet))
        note("attributing every GPU-hour", quiet=quiet)
        _report(config, estimated)
        put()
        _report(config, estimated, _TEAM)
    note(_next(keep, f"{billed.start:%Y-%m}"), quiet=quiet)


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


def _next(keep: Path | None, billed: str) -> str:
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
            f"gpucost reconcile --month {billed}      where each dollar of the bill went",
            f"gpucost chargeback --month {billed} --out chargeback",
            "gpucost whatif reserve",
            "gpucost budget check",
            "gpucost unit epoch",
            "gpucost unit tokens",
            "gpucost waste",
            "gpucost findings",
            "gpucost queue",
            'gpucost sql "from charges"',
            "change prices.csv or gpucost.toml, and report again",
        ]
    return "\n".join(["", "next:", *(f"  {step}" for step in steps)])
