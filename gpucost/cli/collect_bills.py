"""`gpucost collect aws`: AWS billing exports into the table of charges."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.cli.collect import SHOWN_OF_A_KIND, note_findings
from gpucost.cli.command import Call, argument, command, option
from gpucost.cli.output import print_error, waiting
from gpucost.errors import UsageError
from gpucost.texts import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpucost.collect.bill.gcp import BigQueryTree
    from gpucost.collect.bill.load import BillProgress, BillRun
    from gpucost.collect.bill.opening import Tree
    from gpucost.config.model import Config
    from gpucost.store.charges import BillResult

MonthsOption = Annotated[
    list[str] | None,
    option("--month", "YYYY-MM", "Billing period to ask for; repeatable; else the last and the current one."),
]
PathsArgument = Annotated[
    list[str] | None,
    argument("[PATH]...", "Files, directories, or addresses of a bucket; else `exports` of the config."),
]
ForceOption = Annotated[
    bool,
    typer.Option(
        "--replace",
        "--force",
        help="Put what is loaded in the place of the bill there, also if it is older, less, or another view.",
    ),
]


def run_bills(
    call: Call,
    provider: str | None,
    paths: list[str] | None,
    *,
    force: bool,
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


def months_asked(months: list[str] | None, now: datetime) -> list[str]:
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


@command("*")
def collect_aws(call: Call, paths: PathsArgument = None, force: ForceOption = False) -> None:
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
      gpucost collect aws --replace 2026-10-not-final.csv
    """
    run_bills(call, "aws", paths, force=force)


class CostType(StrEnum):
    """What the query API is asked for."""

    amortized = "amortized"
    actual = "actual"


@command("*")
def collect_azure(
    call: Call,
    paths: PathsArgument = None,
    month: MonthsOption = None,
    cost_type: Annotated[
        CostType,
        typer.Option("--cost-type", help="Costs to ask the query API for; of exports, their content tells."),
    ] = CostType.amortized,
    force: ForceOption = False,
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

    def asked() -> list[Tree]:
        azure = call.settings.azure
        if not azure.cost_scope:
            return []
        from gpucost.collect.bill.azure import QueryTree

        return [
            QueryTree(
                azure.cost_scope,
                [name],
                "ActualCost" if cost_type is CostType.actual else "AmortizedCost",
                management_url=azure.management_url,
                tell=call.note,
            )
            for name in months_asked(month, call.now)
        ]

    run_bills(call, "azure", paths, force=force, others=asked)


@command("*")
def collect_gcp(
    call: Call,
    paths: PathsArgument = None,
    month: MonthsOption = None,
    max_gib: Annotated[
        float | None,
        option("--max-gib", "NUMBER", "GiB that a month's query may read; else gcp.max_gib.", min=0.001),
    ] = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Only tell what the queries would read.")
    ] = False,
    force: ForceOption = False,
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
        if not call.settings.gcp.billing_table:
            raise UsageError("no table to estimate for", "set gcp.billing_table in gpucost.toml")
        for name in months_asked(month, call.now):
            _bigquery(call, name, max_gib).estimate(name)
        return

    def asked() -> list[Tree]:
        # Each month by itself: one that is refused keeps none of the others.
        months = months_asked(month, call.now) if call.settings.gcp.billing_table else []
        return [_bigquery(call, name, max_gib) for name in months]

    run_bills(call, "gcp", paths, force=force, others=asked)


def _bigquery(call: Call, month: str, max_gib: float | None) -> BigQueryTree:
    from gpucost.collect.bill.gcp import BigQueryTree

    gcp = call.settings.gcp
    return BigQueryTree(
        gcp.billing_table or "",
        [month],
        max_gib=max_gib or gcp.max_gib,
        tell=call.note,
        project=gcp.billing_project,
        endpoint=gcp.bigquery_endpoint,
    )


@command("*")
def collect_focus(call: Call, paths: PathsArgument = None, force: ForceOption = False) -> None:
    """Load FOCUS cost and usage files, 1.0 to 1.4, of any provider; OCI's cost reports; and OpenAI's and Anthropic's costs.

    CSV and Parquet, packed or not, columns spelled as in the specification or in snake case, and saved answers of the cost APIs
    of OpenAI and Anthropic, from files, directories or s3://bucket/prefix. Costs are the file's own. A file replaces the bill
    whose charges it holds; one that is older or less than what is there is named and left out, and the command ends with 1
    where the file itself was named.

    \b
    Examples:
      gpucost collect focus focus-2026-10.csv
      gpucost collect focus exports/focus/
      gpucost collect focus s3://my-bucket/focus
      gpucost collect focus openai-costs.json anthropic-cost-report.json
    """
    run_bills(call, None, paths, force=force)
