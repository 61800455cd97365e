"""`gpucost explain workload`: a workload's cost, down to its pods' intervals and the rows of bills."""

from __future__ import annotations

from typing import Annotated

import typer

from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors
from gpucost.cli._explained import ClusterOption, DayOption, ExplainFormat, FormatOption, RowsOption, TopOption, explain
from gpucost.cli._periods import MonthOption


@handle_errors
def explain_workload(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The workload, as Kind/name or by its name.")],
    month: MonthOption = None,
    day: DayOption = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", metavar="NAME", help="Only in this namespace.", show_default=False)
    ] = None,
    cluster: ClusterOption = None,
    top: TopOption = 10,
    rows: RowsOption = 5,
    format: FormatOption = ExplainFormat.table,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Say where a workload's cost comes from, down to its pods and the rows of the bill.

    When which pod held how many GPUs of which node, on which devices, at what cost; who else paid for those nodes, their prices
    and where they are from, and the charges behind those that are billed. Every sum is shown. Without a period: that
    of gpucost report.

    \b
    Examples:
      gpucost explain workload Deployment/chat --day 2026-10-05
      gpucost explain workload chat --namespace serving --month 2026-10
      gpucost explain workload Job/train-7 --month 2026-10 --format json
    """
    explain(
        "workload",
        name,
        month=month,
        day=day,
        namespace=namespace,
        cluster=cluster,
        top=top,
        rows=rows,
        format=format,
        config=config,
        store=store,
        quiet=quiet,
    )
