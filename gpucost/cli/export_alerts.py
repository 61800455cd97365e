"""`gpucost export alerts`: alerting rules with the user's own thresholds."""

from __future__ import annotations

from gpucost.cli._common import ConfigOption, QuietOption, VerboseOption, handle_errors
from gpucost.cli._exports import OutputOption, deliver


@handle_errors
def export_alerts(
    output: OutputOption = None,
    config: ConfigOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Print alerting rules for Prometheus, with the thresholds of [alerts], [idle] and [targets] and the amounts of [[budgets]].

    On-demand GPUs that idle or that nobody holds, Kueue queues that make people wait, a low spot ratio, a budget that will not
    last, and metrics that are missing. They need the rules of `gpucost export recording-rules`, which hold the prices; those
    that know month to date need `gpucost export openmetrics`.

    \b
    Examples:
      gpucost export alerts -o gpucost-alerts.yml
      gpucost export alerts --config prod.toml -o gpucost-alerts.yml
    """
    from datetime import UTC, datetime

    from gpucost.config import load_config
    from gpucost.export.rules import alerting_rules

    settings = load_config(config)
    today = datetime.now(UTC).astimezone(settings.tz).date()
    deliver(alerting_rules(settings, today), output, "alerting rules", quiet=quiet)
