"""What every `gpucost collect` of billing exports shares: where the exports lie, the bar, and what became of them."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.cli._common import load, note, put, tell_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpucost.collect.bill.load import BillRun
    from gpucost.collect.bill.meter import BillProgress
    from gpucost.collect.bill.trees import Tree
    from gpucost.config import Config
    from gpucost.store.charges import BillResult

SHOWN_OF_A_KIND = 5

MonthsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--month",
        metavar="YYYY-MM",
        help="Billing period to ask for; repeatable; else the last and the current one.",
        show_default=False,
    ),
]
PathsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PATH]...",
        help="Files, directories, or addresses of a bucket; else `exports` of the config.",
        show_default=False,
    ),
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Load also what is older, less, or less final than the bill that is there.")
]


def run_bills(
    provider: str | None,
    paths: list[str],
    *,
    force: bool,
    config: Path | None,
    store: Path | None,
    quiet: bool,
    verbose: bool,
    more: Callable[[Config], list[Tree]] | None = None,
) -> None:
    """Load the exports at `paths`, of `provider` or FOCUS files of any, and tell what became of them.

    `more` answers sources that are no paths; where paths are given, those alone are loaded.

    Raises UsageError where no export is named, GpucostError where one cannot be used.
    """
    from gpucost.collect.bill.load import collect_bills
    from gpucost.errors import UsageError

    settings, opened = load(config, store)
    section = provider or "focus"
    named = paths or list(getattr(settings, section).exports)
    asked = more(settings) if more and not paths else []
    if not named and not asked:
        also = {"gcp": " or billing_table", "azure": " or cost_scope"}.get(section, "")
        raise UsageError(
            f"no export is named: gpucost collect {section} PATH",
            f'or set exports = ["…"]{also} under [{section}] in gpucost.toml',
        )
    with _bar(quiet=quiet) as progress:
        trees = [*(tree_of(name, settings) for name in named), *asked]
        run = collect_bills(opened, trees, provider, currency=settings.bills.currency, force=force, progress=progress)
    tell_run(run, quiet=quiet, verbose=verbose)
    if run.errors:
        raise typer.Exit(1)


def tree_of(name: str, settings: Config) -> Tree:
    """Where `name` lies: an address of an object store, or a path. Raises UsageError where there is nothing of that name."""
    from gpucost.errors import UsageError

    scheme = name.partition("://")[0].lower() if "://" in name else ""
    if scheme == "s3":
        from gpucost.collect.bill.s3 import S3Tree

        return S3Tree(name, settings.aws)
    if scheme == "gs":
        from gpucost.collect.bill.gcp_storage import GcsTree

        return GcsTree(name, endpoint=settings.gcp.storage_endpoint, project=settings.gcp.billing_project)
    if scheme in ("http", "https"):
        from gpucost.collect.bill.azure_blobs import BlobTree

        return BlobTree(name)
    if scheme:
        raise UsageError(
            f"{name}: {scheme}:// is no place that gpucost reads exports from",
            "a path, s3://bucket/prefix, gs://bucket/prefix, or https://<account>.blob.core.windows.net/<container>/<directory>",
        )
    from gpucost.collect.bill.trees import LocalTree

    return LocalTree(Path(name).expanduser())


def months_asked(months: list[str]) -> list[str]:
    """Billing periods to ask a service for: those named, else the last and the current one. Raises UsageError."""
    import re
    from datetime import UTC, datetime, timedelta

    from gpucost.errors import UsageError

    for month in months:
        if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", month):
            raise UsageError(f"{month} is no month", "--month 2026-10")
    if months:
        return sorted(set(months))
    current = datetime.now(UTC).replace(day=1)
    return [f"{current - timedelta(days=1):%Y-%m}", f"{current:%Y-%m}"]


def tell_run(run: BillRun, *, quiet: bool, verbose: bool) -> None:
    """A line for each bill on stdout; findings and failures on stderr."""
    for result in run.results:
        if not quiet:
            _tell(result)
        if result.alike and result.loaded:
            note(
                f"  warning: {result.provider} account {result.billing_account_id} has another bill of {result.billing_period}, "
                f"with other charges: {', '.join(sorted(set(result.alike)))}",
                quiet=quiet,
            )
    shown = Counter[str]()
    for finding in run.findings:
        shown[finding.code] += 1
        if verbose or shown[finding.code] <= SHOWN_OF_A_KIND:
            note(f"  {finding.level}: {finding.message}", quiet=quiet)
            if finding.fix:
                note(f"    fix: {finding.fix}", quiet=quiet)
    for code, count in shown.items():
        if count > SHOWN_OF_A_KIND and not verbose:
            note(f"  and {count - SHOWN_OF_A_KIND} more of {code}: -v shows them", quiet=quiet)
    for error in run.errors:
        tell_error(error.message, error.fix)


def _tell(result: BillResult) -> None:
    from gpucost.store.charges import KEPT

    said = {True: "final", False: "not final", None: "finality unknown"}[result.is_final]
    sums = "; ".join(
        f"billed {billed:,.2f}, effective {effective:,.2f} {currency}" for currency, billed, effective in result.amounts
    )
    line = f"{result.source} {result.billing_period}: {result.rows:,} rows, {sums}, {said}"
    if result.verdict == "unchanged":
        put(f"{line}; already loaded, unchanged")
    elif not result.loaded:
        put(f"{line}; NOT loaded: {KEPT[result.verdict]} (--force loads it)")
    elif result.replaced:
        put(f"{line}; replaces the same bill from {', '.join(sorted(set(result.replaced)))}")
    elif result.verdict == "replace":
        put(f"{line}; replaces what was there")
    else:
        put(line)


@contextmanager
def _bar(*, quiet: bool) -> Iterator[Callable[[BillProgress], None] | None]:
    """What to call with each state of a run; None where stderr is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(bar_width=30), DownloadColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("looking for files", total=None)

        def show(state: BillProgress) -> None:
            bars.update(task, total=state.total or None, completed=state.done, description=state.note[-60:])

        yield show
