"""`gpucost collect gcp`: Google Cloud billing exports into the table of charges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.cli._bills import ForceOption, MonthsOption, PathsArgument, months_asked, run_bills
from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors, load, note

if TYPE_CHECKING:
    from gpucost.collect.bill.gcp_bigquery import BigQueryTree
    from gpucost.collect.bill.trees import Tree
    from gpucost.config import Config


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
