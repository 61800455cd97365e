"""`gpucost export recording-rules`: GPUs and their cost as series, for Prometheus to keep."""

from __future__ import annotations

from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors, load
from gpucost.cli._exports import OutputOption, deliver


@handle_errors
def export_recording_rules(
    output: OutputOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Print recording rules for Prometheus: GPUs by namespace and state, unallocated GPUs by node, and what they cost an hour.

    Prices are those that the nodes in the store had last; with an empty store, or none, the catalog's. Print them again when
    prices change. `gpucost export alerts` and the dashboard read what these rules record.

    \b
    Examples:
      gpucost export recording-rules -o gpucost-recording.yml
      gpucost export recording-rules --store gpucost.duckdb
    """
    from gpucost import pipeline
    from gpucost.export.rules import recording_rules

    settings, opened = load(config, store)
    text = recording_rules(settings, pipeline.rule_prices(settings, opened))
    deliver(text, output, "recording rules", quiet=quiet)
