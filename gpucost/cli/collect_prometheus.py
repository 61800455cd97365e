"""`gpucost collect prometheus`: pull metrics of kube-state-metrics and dcgm-exporter into the store."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.cli._common import (
    ConfigOption,
    QuietOption,
    StoreOption,
    VerboseOption,
    handle_errors,
    load,
    note,
    put,
    tell_error,
)
from gpucost.cli._periods import FromOption, ToOption, parse_period

if TYPE_CHECKING:
    from gpucost.collect.result import CollectResult
    from gpucost.config import Config

SHOWN_OF_A_KIND = 5
# What even -q says, in one line each: time is missing.
_LOUD = ("gap", "newest_sample")
_SIGN = "collect it from where it is, or declare it: [[clusters]] says when a cluster is off, [coverage] accept signs a gap"


@handle_errors
def collect_prometheus(
    start: FromOption = None,
    end: ToOption = None,
    source: Annotated[
        list[str] | None,
        typer.Option("--source", metavar="NAME", help="Only this server, by name or URL; repeatable.", show_default=False),
    ] = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Pull metrics of kube-state-metrics and dcgm-exporter into the store.

    Without a period: from the beginning of the current month at first, later from two hours before the last collected
    moment, whatever is missing since the first run, and hours of the last `late_hours` that are incomplete. Nothing counts
    as collected past the server's newest sample. Collecting the same time again changes nothing, and late data replaces.
    What fails is named and can be collected later; a run that was ended goes on where it stopped. Ends with 1 if a part
    could not be collected, with 4 if a day that is over is incomplete though the server was asked for it again.

    \b
    Examples:
      gpucost collect prometheus
      gpucost collect prometheus --from 2026-10-01 --to 2026-11-01
      gpucost collect prometheus --source prod --from 2026-10-01T06:00Z
    """
    from datetime import UTC, datetime

    from gpucost import pipeline
    from gpucost.cli._progress import progress_bar
    from gpucost.errors import ConfigError, IncompleteError

    settings, opened = load(config, store)
    if not settings.prometheus:
        raise ConfigError(
            "no Prometheus is configured", "add [prometheus] to gpucost.toml, or run gpucost init where there is none"
        )
    settings = _only(settings, source or [])
    chosen = parse_period(settings.tz, datetime.now(UTC), start=start, end=end)
    with progress_bar(quiet=quiet) as progress:
        results, errors = pipeline.collect(settings, opened, chosen[0] if chosen else None, progress)
    for result in results:
        _tell(result, quiet=quiet, verbose=verbose)
    for error in errors:
        tell_error(error.message, error.fix)
    if errors or not all(result.ok for result in results):
        raise typer.Exit(1)
    if any(result.incomplete for result in results):
        raise typer.Exit(IncompleteError.exit_code)


def _only(config: Config, names: list[str]) -> Config:
    """`config` with the servers called `names` alone; all of them where there are no names."""
    from gpucost.config import shown_url
    from gpucost.errors import UsageError

    known = {server.source: server for server in config.prometheus}
    for name in names:
        if name not in known:
            raise UsageError(f"no server is called {shown_url(name)}", f"--source takes one of: {', '.join(known)}")
    return config.model_copy(update={"prometheus": [known[name] for name in names]}) if names else config


def _tell(result: CollectResult, *, quiet: bool, verbose: bool) -> None:
    """What a run came to: the summary on stdout, what is wrong or missing on stderr; of that only missing time under -q."""
    if not quiet:
        count = len(result.failed_windows)
        failed = f", but {_count(count, 'window')} failed" if count else ""
        put(
            f"{result.source}: {result.samples:,} samples of {result.asked}{failed}"
            f" ({_count(result.windows, 'window')}, {_count(result.new_series, 'new series', 'new series')})"
        )
        if result.resumed:
            put(f"  went on after {_count(result.resumed, 'window')} of a run that was ended")
        if result.asked_again:
            put(f"  asked again for {_count(result.asked_again, 'incomplete hour')}")
        if verbose:
            for metric, seen in sorted(result.metrics.items()):
                put(f"  {metric}: {seen.samples:,} samples")
    elif not result.samples and result.ok:
        note(f"warning: {result.source}: no sample of {result.asked}")
    for reason in sorted({item.reason for item in result.dropped}):
        metrics = {item.metric: item.samples for item in result.dropped if item.reason == reason}
        note(f"  dropped {sum(metrics.values()):,} samples as {reason}: {', '.join(sorted(metrics))}", quiet=quiet)
    shown = Counter[str]()
    for finding in result.findings:
        shown[finding.code] += 1
        if shown[finding.code] <= SHOWN_OF_A_KIND:
            is_loud = quiet and finding.code in _LOUD
            note(f"{'' if is_loud else '  '}{finding.level}: {finding.message}", quiet=quiet and not is_loud)
            if finding.fix:
                note(f"    fix: {finding.fix}", quiet=quiet)
    for code, count in shown.items():
        if count > SHOWN_OF_A_KIND:
            note(f"  and {count - SHOWN_OF_A_KIND} more of {code}", quiet=quiet and code not in _LOUD)
    for missing in result.incomplete[:SHOWN_OF_A_KIND]:
        tell_error(f"{result.source}: lost for good: {missing}", None)
    if result.incomplete:
        more = len(result.incomplete) - SHOWN_OF_A_KIND
        if more > 0:
            note(f"and {more} more such times")
        note(f"fix: {_SIGN}")
    for window in result.failed_windows:
        tell_error(f"{result.source}: {window.period} failed: {window.error}", window.command)


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
