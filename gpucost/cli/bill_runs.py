"""Runs of bill collectors: their progress, and what became of each bill. The commands share them."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gpucost.cli.command import Call
from gpucost.cli.output import print_error, waiting
from gpucost.cli.runs import SHOWN_OF_A_KIND, note_findings
from gpucost.errors import UsageError
from gpucost.texts import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpucost.collect.bill.gcp import BigQueryTree
    from gpucost.collect.bill.load import BillProgress, BillRun
    from gpucost.collect.bill.opening import Tree
    from gpucost.config.model import Config
    from gpucost.store.charges import BillResult


def run_bills(
    call: Call,
    provider: str | None,
    paths: Sequence[str] = (),
    *,
    force: bool = False,
    others: Callable[[], list[Tree]] = list,
) -> None:
    """Load the exports at `paths`, of `provider` or FOCUS files of any, and tell what became of them.

    `others` answers sources that are no paths; where paths are given, those alone are loaded.

    Raises UsageError where no export is named, GpucostError where one cannot be used.
    """
    from gpucost.collect.bill.load import collect_bills

    settings = call.settings
    section = provider or "focus"
    named = paths or list(getattr(settings, section).exports)
    asked = [] if paths else others()
    if not named and not asked:
        also = {"gcp": " or billing_table", "azure": " or cost_scope"}.get(section, "")
        raise UsageError(
            f"no export is named: gpucost collect {section} PATH",
            f'or set exports = ["…"]{also} under [{section}] in gpucost.toml',
        )
    with _bar(quiet=call.quiet) as progress:
        trees = [*(tree_of(name, settings) for name in named), *asked]
        run = collect_bills(
            call.store, trees, provider, currency=settings.bills.currency, force=force, progress=progress
        )
    tell_run(call, run)
    if run.errors:
        raise typer.Exit(1)


def tree_of(name: str, settings: Config) -> Tree:
    """Where `name` lies: an address of an object store, or a path. Raises UsageError where there is nothing of that name."""
    from gpucost.collect.bill.opening import BucketTree, LocalTree

    if "://" in name:
        return BucketTree(name, settings)
    return LocalTree(Path(name).expanduser())


def months_asked(months: Sequence[str], now: datetime) -> list[str]:
    """Billing periods to ask a service for: those named, else the last and the current one. Raises UsageError."""
    for month in months or ():
        if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", month):
            raise UsageError(f"{month} is no month", "--month 2026-10")
    if months:
        return sorted(set(months))
    current = now.replace(day=1)
    return [f"{current - timedelta(days=1):%Y-%m}", f"{current:%Y-%m}"]


def tell_run(call: Call, run: BillRun) -> None:
    """A line for each bill on stdout; findings and failures on stderr."""
    for result in run.results:
        call.say(_line(result))
    note_findings(
        call, run.findings, sys.maxsize if call.verbose else SHOWN_OF_A_KIND, hint=": -v shows them"
    )
    for error in run.errors:
        print_error(error.message, error.fix)


def _line(result: BillResult) -> str:
    from gpucost.store.charges import KEPT

    final = {True: "final", False: "not final", None: "finality unknown"}[result.is_final]
    sums = "; ".join(
        f"billed {billed:,.2f}, effective {effective:,.2f} {currency}"
        for currency, billed, effective in result.amounts
    )
    line = f"{result.source} {result.billing_period}: {result.rows:,} rows, {sums}, {final}"
    if result.verdict == "unchanged":
        return f"{line}; already loaded, unchanged"
    if not result.loaded:
        return f"{line}; NOT loaded: {KEPT[result.verdict]} (--replace loads it)"
    if result.replaced:
        return f"{line}; replaces the same bill from {', '.join(sorted(set(result.replaced)))}"
    return f"{line}; replaces what was there" if result.verdict == "replace" else line


@contextmanager
def _bar(*, quiet: bool) -> Iterator[Callable[[BillProgress], None] | None]:
    """What to call with each state of a run; None where stderr is no terminal."""
    waiting.stop()
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(bar_width=30),
        DownloadColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("looking for files", total=None)

        def show(state: BillProgress) -> None:
            bars.update(
                task, total=state.total or None, completed=state.done, description=one_line(state.note)[-60:]
            )

        yield show


def bigquery(call: Call, month: str, max_gib: float | None) -> BigQueryTree:
    from gpucost.collect.bill.gcp import BigQueryTree

    gcp = call.settings.gcp
    return BigQueryTree(
        gcp.billing_table or "",
        month,
        max_gib=max_gib or gcp.max_gib,
        tell=call.note,
        project=gcp.billing_project,
        endpoint=gcp.bigquery_endpoint,
    )


def gcp_queries(call: Call, months: Sequence[str], max_gib: float | None = None) -> list[Tree]:
    """A query of BigQuery for each month, by itself: one that is refused keeps none of the others."""
    if not call.settings.gcp.billing_table:
        return []
    return [bigquery(call, month, max_gib) for month in months_asked(months, call.now)]


def azure_queries(call: Call, months: Sequence[str], cost_type: str = "amortized") -> list[Tree]:
    """A query of the Cost Management API for each month."""
    azure = call.settings.azure
    if not azure.cost_scope:
        return []
    from gpucost.collect.bill.azure import QueryTree

    return [
        QueryTree(
            azure.cost_scope,
            month,
            "ActualCost" if cost_type == "actual" else "AmortizedCost",
            management_url=azure.management_url,
            tell=call.note,
        )
        for month in months_asked(months, call.now)
    ]
