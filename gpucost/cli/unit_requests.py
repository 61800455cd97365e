"""`gpucost unit requests`: what 1,000 requests cost."""

from __future__ import annotations

from typing import Annotated

import typer

from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors
from gpucost.cli._periods import FromOption, LastOption, MonthOption, ToOption
from gpucost.cli._rows import FormatOption, OutputOption, RowFormat
from gpucost.cli._units import (
    Asked,
    ClusterOption,
    NamespaceOption,
    TeamOption,
    WorkloadOption,
    answer,
)


@handle_errors
def unit_requests(
    team: TeamOption = None,
    namespace: NamespaceOption = None,
    workload: WorkloadOption = None,
    cluster: ClusterOption = None,
    month: MonthOption = None,
    start: FromOption = None,
    end: ToOption = None,
    last: LastOption = None,
    count: Annotated[
        str, typer.Option("--count", metavar="UNIT", help="What is counted: request, batch_item, or a unit of [[units]].")
    ] = "request",
    format: FormatOption = RowFormat.table,
    output: OutputOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show what 1,000 requests cost, by model and day, with what models cost while they were idle.

    The whole cost of the workload that serves counts, also at night; failed requests are shown and not counted. Without a period:
    the current month so far, or the newest with data.

    \b
    Examples:
      gpucost unit requests
      gpucost unit requests --namespace inference --last 7d
      gpucost unit requests --count batch_item --month 2026-10 --format csv -o items.csv
    """
    from gpucost import units

    asked = Asked(team, namespace, workload, cluster, month, start, end, last, format, output, config, store, quiet)
    answer(asked, lambda con, ask: units.requests(con, ask, count))
