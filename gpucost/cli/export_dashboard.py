"""`gpucost export dashboard`: a Grafana dashboard."""

from __future__ import annotations

from gpucost.cli._common import ConfigOption, QuietOption, VerboseOption, handle_errors
from gpucost.cli._exports import OutputOption, deliver


@handle_errors
def export_dashboard(
    output: OutputOption = None,
    config: ConfigOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Print a Grafana dashboard: cost by team, GPUs by state, idle cost an hour, queues, devices.

    JSON to import, or to provision from a file. It reads the rules of `gpucost export recording-rules`, the metrics of
    `gpucost export openmetrics`, Kueue's and dcgm-exporter's. Currency and targets are those of the configuration.

    \b
    Examples:
      gpucost export dashboard -o gpucost-dashboard.json
      gpucost export dashboard --config prod.toml
    """
    from gpucost.config import load_config
    from gpucost.export.dashboard import dashboard

    deliver(dashboard(load_config(config)), output, "dashboard", quiet=quiet)
