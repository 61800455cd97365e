"""`gpucost collect azure`: Azure cost exports into the table of charges."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.cli._bills import ForceOption, MonthsOption, PathsArgument, months_asked, run_bills
from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors, note

if TYPE_CHECKING:
    from gpucost.collect.bill.trees import Tree
    from gpucost.config import Config


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
