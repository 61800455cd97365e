"""`gpucost unit experiment`: what jobs, runs and sweeps cost."""

from __future__ import annotations

from enum import StrEnum
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


class Goal(StrEnum):
    """Which value of a metric is best."""

    min = "min"
    max = "max"


@handle_errors
def unit_experiment(
    team: TeamOption = None,
    namespace: NamespaceOption = None,
    workload: WorkloadOption = None,
    cluster: ClusterOption = None,
    month: MonthOption = None,
    start: FromOption = None,
    end: ToOption = None,
    last: LastOption = None,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="Metric that names a sweep's best trial. Default: val_loss, eval_loss, loss or the like.",
            show_default=False,
        ),
    ] = None,
    goal: Annotated[Goal, typer.Option("--goal", help="Which value of --metric is best.")] = Goal.min,
    format: FormatOption = RowFormat.table,
    output: OutputOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show what experiments cost: runs of the experiment tracker, sweeps with their trials, and jobs that no tracker knows.

    A run costs what its workload cost while it ran; runs at the same time share it evenly, and a sweep's own run is charged only
    while no trial runs. Without a period: the current month so far, or the newest with data.

    \b
    Examples:
      gpucost unit experiment
      gpucost unit experiment --team research --month 2026-10
      gpucost unit experiment --metric val_accuracy --goal max
      gpucost unit experiment --namespace nlp-experiments --format csv -o experiments.csv
    """
    from gpucost import units

    asked = Asked(team, namespace, workload, cluster, month, start, end, last, format, output, config, store, quiet)
    answer(asked, lambda con, ask: units.experiments(con, ask, metric, goal.value), most=30)
