"""`gpucost explain team`: a team's cost, down to the rows of bills."""

from __future__ import annotations

from typing import Annotated

import typer

from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors
from gpucost.cli._explained import ClusterOption, DayOption, ExplainFormat, FormatOption, RowsOption, TopOption, explain
from gpucost.cli._periods import MonthOption


@handle_errors
def explain_team(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The team, as reports call it.")],
    month: MonthOption = None,
    day: DayOption = None,
    cluster: ClusterOption = None,
    top: TopOption = 10,
    rows: RowsOption = 5,
    format: FormatOption = ExplainFormat.table,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Say where a team's cost comes from, down to the rows of the bill.

    What each of its workloads held on which node, who else paid for that node, the node's prices and where they are from, and the
    charges behind those that are billed. Every sum is shown. Without a period: the month that gpucost report takes.

    \b
    Examples:
      gpucost explain team research --month 2026-10
      gpucost explain team research --day 2026-10-05 --rows 24
      gpucost explain team research --month 2026-10 --format json
    """
    explain(
        "team",
        name,
        month=month,
        day=day,
        cluster=cluster,
        top=top,
        rows=rows,
        format=format,
        config=config,
        store=store,
        quiet=quiet,
    )
