"""`gpucost collect aws`: AWS billing exports into the table of charges."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.cli.command import (
    ConfigOption,
    QuietOption,
    StoreOption,
    VerboseOption,
    handle_errors,
    load,
    note,
    put,
    tell_error,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpucost.collect.bill.gcp_bigquery import BigQueryTree
    from gpucost.collect.bill.load import BillProgress, BillRun
    from gpucost.collect.bill.opening import Tree
    from gpucost.config.model import Config
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
    from gpucost.collect.bill.opening import LocalTree

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


@handle_errors
def collect_aws(
    paths: PathsArgument = None,
    force: ForceOption = False,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Load AWS billing exports: Cost and Usage Reports (legacy and CUR 2.0), Data Exports, FOCUS.

    CSV and Parquet, packed or not, from files, directories or s3://bucket/prefix. Where a manifest is there, it decides
    which files count, and a billing period is replaced as a whole; half a period is refused. A loose file replaces the bill
    whose charges it holds: loading twice, a restated month, or a final month over one that was not, changes what is there
    and doubles nothing. A file that is older or less than what is there is named and left out. What is in the store is
    asked by `gpucost sql "from charges"`.

    \b
    Examples:
      gpucost collect aws s3://my-bucket/exports/cur
      gpucost collect aws march.csv.gz april.csv.gz
      gpucost collect aws --force 2026-10-not-final.csv
    """
    run_bills("aws", paths or [], force=force, config=config, store=store, quiet=quiet, verbose=verbose)


class CostType(StrEnum):
    """What the query API is asked for."""

    amortized = "amortized"
    actual = "actual"


@handle_errors
def collect_azure(
    paths: PathsArgument = None,
    month: MonthsOption = None,
    cost_type: Annotated[
        CostType, typer.Option("--cost-type", help="Costs to ask the query API for; of exports, their content tells.")
    ] = CostType.amortized,
    force: ForceOption = False,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Load Azure cost exports, or ask the Cost Management query API where there is none.

    Exports of any agreement (Enterprise, Microsoft Customer, pay-as-you-go) and language, CSV or Parquet, packed or not, from
    files, directories or https://<account>.blob.core.windows.net/<container>/<directory>. Amortized and actual exports of one
    month go together and are never added: amortized costs are the effective ones, actual costs add what was paid for
    commitments. Without paths and exports, azure.cost_scope is asked for, a month at a time.

    \b
    Examples:
      gpucost collect azure exports/amortized exports/actual
      gpucost collect azure https://billing.blob.core.windows.net/exports/amortized
      gpucost collect azure --month 2026-10
    """

    def asked(settings: Config) -> list[Tree]:
        if not settings.azure.cost_scope:
            return []
        from gpucost.collect.bill.azure_query import QueryTree

        return [
            QueryTree(
                settings.azure.cost_scope,
                [name],
                "ActualCost" if cost_type is CostType.actual else "AmortizedCost",
                management_url=settings.azure.management_url,
                tell=lambda text: note(text, quiet=quiet),
            )
            for name in months_asked(month or [])
        ]

    run_bills("azure", paths or [], force=force, config=config, store=store, quiet=quiet, verbose=verbose, more=asked)


@handle_errors
def collect_gcp(
    paths: PathsArgument = None,
    month: MonthsOption = None,
    max_gib: Annotated[
        float | None,
        typer.Option("--max-gib", min=0.001, help="GiB that a month's query may read; else gcp.max_gib.", show_default=False),
    ] = None,
    estimate: Annotated[bool, typer.Option("--estimate", help="Only tell what the queries would read.")] = False,
    force: ForceOption = False,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Load Google Cloud's detailed usage cost export, from BigQuery or from files.

    From BigQuery (gcp.billing_table), an invoice month is read whole, corrections included: what the query reads is estimated
    and told before it runs, and a query over the cap is refused. From files or gs://bucket/prefix: CSV, JSON lines, Parquet,
    packed or not, flattened or nested; all files of a month go together. Loading again replaces and doubles nothing.

    \b
    Examples:
      gpucost collect gcp
      gpucost collect gcp --month 2026-10 --estimate
      gpucost collect gcp exports/2026-10/*.json.gz
      gpucost collect gcp gs://my-bucket/billing
    """
    if estimate:
        settings, _ = load(config, store)
        from gpucost.errors import UsageError

        if not settings.gcp.billing_table:
            raise UsageError("no table to estimate for", "set gcp.billing_table in gpucost.toml")
        for name in months_asked(month or []):
            _bigquery(settings, [name], max_gib, quiet=quiet).estimate(name)
        return

    def asked(settings: Config) -> list[Tree]:
        # Each month by itself: one that is refused keeps none of the others.
        if not settings.gcp.billing_table:
            return []
        return [_bigquery(settings, [name], max_gib, quiet=quiet) for name in months_asked(month or [])]

    run_bills("gcp", paths or [], force=force, config=config, store=store, quiet=quiet, verbose=verbose, more=asked)


def _bigquery(settings: Config, months: list[str], max_gib: float | None, *, quiet: bool) -> BigQueryTree:
    from gpucost.collect.bill.gcp_bigquery import BigQueryTree

    return BigQueryTree(
        settings.gcp.billing_table or "",
        months,
        max_gib=max_gib or settings.gcp.max_gib,
        tell=lambda text: note(text, quiet=quiet),
        project=settings.gcp.billing_project,
        endpoint=settings.gcp.bigquery_endpoint,
    )


@handle_errors
def collect_focus(
    paths: PathsArgument = None,
    force: ForceOption = False,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Load FOCUS cost and usage files, 1.0 to 1.4, of any provider: clouds, GPU clouds; and OCI's cost reports, in either form.

    CSV and Parquet, packed or not, columns spelled as in the specification or in snake case, from files, directories or
    s3://bucket/prefix. Costs are the file's own. A file replaces the bill whose charges it holds; one that is older or less
    than what is there is named and left out, and the command ends with 1 where the file itself was named.

    \b
    Examples:
      gpucost collect focus focus-2026-10.csv
      gpucost collect focus exports/focus/
      gpucost collect focus s3://my-bucket/focus
    """
    run_bills(None, paths or [], force=force, config=config, store=store, quiet=quiet, verbose=verbose)
