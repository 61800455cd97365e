"""`gpucost unit epoch`: what each epoch of a training run cost."""

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
def unit_epoch(
    team: TeamOption = None,
    namespace: NamespaceOption = None,
    workload: WorkloadOption = None,
    cluster: ClusterOption = None,
    month: MonthOption = None,
    start: FromOption = None,
    end: ToOption = None,
    last: LastOption = None,
    planned_epochs: Annotated[
        int | None,
        typer.Option(
            "--planned-epochs", min=1, metavar="NUMBER", help="Forecast the cost up to this many epochs.", show_default=False
        ),
    ] = None,
    each: Annotated[bool, typer.Option("--each", help="List every epoch, also where there are several runs.")] = False,
    format: FormatOption = RowFormat.table,
    output: OutputOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show what each epoch of a training run cost, its mean, trend and best, what was lost, and what is still to come.

    An epoch costs what its workload (all its pods) cost from one epoch to the next: idle time and restarts included. Epochs
    that were done again after a failure are lost work. Without a period: the current month so far, or the newest with data.

    \b
    Examples:
      gpucost unit epoch
      gpucost unit epoch --workload Job/llama-sft-03 --planned-epochs 20
      gpucost unit epoch --team research --month 2026-10 --each
      gpucost unit epoch --last 7d --format json -o epochs.json
    """
    from gpucost import units

    asked = Asked(team, namespace, workload, cluster, month, start, end, last, format, output, config, store, quiet)
    answer(asked, lambda con, ask: units.epochs(con, ask, planned_epochs), with_rows=True if each else None)
