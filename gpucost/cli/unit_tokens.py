"""`gpucost unit tokens`: what a million tokens cost."""

from __future__ import annotations

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
def unit_tokens(
    team: TeamOption = None,
    namespace: NamespaceOption = None,
    workload: WorkloadOption = None,
    cluster: ClusterOption = None,
    month: MonthOption = None,
    start: FromOption = None,
    end: ToOption = None,
    last: LastOption = None,
    format: FormatOption = RowFormat.table,
    output: OutputOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show what a million tokens cost, by model and day: of all tokens, of prompt tokens, and of generated ones.

    The whole cost of the workload that serves counts, also at night. Without a period: the current month so far, or the newest
    with data.

    \b
    Examples:
      gpucost unit tokens
      gpucost unit tokens --team platform --month 2026-10
      gpucost unit tokens --last 7d --format json -o tokens.json
    """
    from gpucost import units

    asked = Asked(team, namespace, workload, cluster, month, start, end, last, format, output, config, store, quiet)
    answer(asked, units.tokens)
