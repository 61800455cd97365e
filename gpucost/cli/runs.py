"""Runs of collectors with their progress, results and findings; shared by the commands."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import typer

from gpucost.cli.command import Call
from gpucost.cli.output import note, print_error
from gpucost.errors import ConfigError, IncompleteError, StoreError, UsageError
from gpucost.periods import MS_PER_HOUR, Period, parse_period
from gpucost.texts import bytes_text

if TYPE_CHECKING:
    from gpucost.collect.base import CollectResult, ProgressState
    from gpucost.collect.bill.gcp import BigQueryTree
    from gpucost.collect.bill.load import BillProgress
    from gpucost.collect.bill.opening import Tree
    from gpucost.collect.prices import PriceResult
    from gpucost.collect.progress.mlflow import MlflowResult
    from gpucost.collect.spot import SpotResult
    from gpucost.store.charges import BillResult


SHOWN_OF_A_KIND = 5


# Findings about missing time, which even -q prints, one line each.
_LOUD = ("gap", "newest_sample")


_SIGN = "collect it from another source, or declare it: [[clusters]] for times when a cluster is off, [coverage] accept for a gap"


def _print_run(call: Call, result: CollectResult) -> None:
    """Print a run's summary on stdout and its problems on stderr; under -q only missing time."""
    failed = f", but {_count(len(result.failed_windows), 'window')} failed" if result.failed_windows else ""
    call.say(
        f"{result.source}: {result.samples:,} samples of {result.requested}{failed}"
        f" ({_count(result.windows, 'window')}, {result.new_series:,} new series)"
    )
    if result.resumed:
        call.say(f"  resumed an interrupted run after {_count(result.resumed, 'window')}")
    if result.queried_again:
        call.say(f"  queried {_count(result.queried_again, 'incomplete hour')} again")
    _print_metrics(call, result, "samples")
    if call.quiet and not result.samples and result.ok:
        note(f"warning: {result.source}: no samples in {result.requested}")
    for reason in sorted({why for _, why in result.dropped}):
        metrics = {metric: samples for (metric, why), samples in result.dropped.items() if why == reason}
        call.note(f"  dropped {sum(metrics.values()):,} samples as {reason}: {', '.join(sorted(metrics))}")
    note_findings(call, result.findings, SHOWN_OF_A_KIND, loud=_LOUD)
    for missing in result.incomplete[:SHOWN_OF_A_KIND]:
        print_error(f"{result.source}: lost for good: {missing}", None)
    if result.incomplete:
        more = len(result.incomplete) - SHOWN_OF_A_KIND
        if more > 0:
            note(f"and {more} more times")
        note(f"fix: {_SIGN}")
    _print_failed(result)


def _print_metrics(call: Call, result: CollectResult, what: str) -> None:
    for metric, seen in sorted(result.metrics.items()) if call.verbose else ():
        call.say(f"  {metric}: {seen.samples:,} {what}")


def _print_failed(result: CollectResult) -> None:
    for window in result.failed_windows:
        print_error(f"{result.source}: {window.period} failed: {window.error}", window.command)


def note_findings(
    call: Call, findings: Iterable[Any], most: int = sys.maxsize, *, hint: str = "", loud: Sequence[str] = ()
) -> None:
    """Print findings on stderr: at most `most` of a kind, then the number of others; under -q only `loud` kinds."""
    printed = Counter[str]()
    for finding in findings:
        printed[finding.code] += 1
        if printed[finding.code] <= most:
            is_loud = call.quiet and finding.code in loud
            note(
                f"{'' if is_loud else '  '}{finding.level}: {finding.message}",
                quiet=call.quiet and not is_loud,
            )
            if finding.fix:
                call.note(f"    fix: {finding.fix}")
    for code, count in printed.items():
        if count > most:
            note(f"  and {count - most} more: {code}{hint}", quiet=call.quiet and code not in loud)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def print_progress(call: Call, result: CollectResult) -> None:
    call.say(
        f"{result.source}: {result.samples:,} values of {result.requested}, from {len(result.metrics)} progress metrics"
    )
    _print_metrics(call, result, "values")
    for samples in result.dropped.values():
        call.note(f"  dropped {samples:,} values that are not numbers")
    note_findings(call, result.findings)
    _print_failed(result)


def print_mlflow(call: Call, result: MlflowResult) -> None:
    call.say(f"{result.source}: {result.runs:,} runs of {result.period}, {result.epochs:,} logged epochs")
    if result.placed < result.runs:
        call.note(
            f"  note: {result.runs - result.placed:,} runs have no workload\n"
            "    fix: tag them with gpucost.namespace and gpucost.pod or gpucost.workload"
        )


SHOWN_REGIONS = 4


def collect_list_prices(call: Call, providers: Sequence[str], regions: Sequence[str]) -> list[PriceResult]:
    """Collect and print the list prices of `providers`; return one result for each."""
    from gpucost.collect.prices import collect_prices as collect

    with call.status() as show_progress:
        results = collect(call.settings, call.store, providers, regions, call.now, show_progress)
    for result in results:
        if not _print_trouble(call, result):
            types = f"{result.priced_types:,} instance types{_regions(result.regions)}"
            call.say(f"{result.provider}: {result.prices:,} prices of {types}")
    return results


def _print_trouble(call: Call, result: PriceResult | SpotResult) -> bool:
    """Print why a cloud was skipped or failed; return whether it was."""
    if result.skipped:
        call.note(f"{result.skipped.message}; skipped ({result.skipped.fix})")
    elif result.error:
        print_error(result.error.message, result.error.fix)
    return bool(result.skipped or result.error)


def _regions(names: Sequence[str]) -> str:
    if not any(names):
        return ""  # the price is the same in all regions
    return f" in {', '.join(names) if len(names) <= SHOWN_REGIONS else f'{len(names)} regions'}"


def collect_spot_prices(call: Call, providers: Collection[str]) -> list[SpotResult]:
    """Collect and print the spot prices of `providers`; return one result for each. Clouds without a login are skipped."""
    from gpucost.collect import spot

    with call.status() as show_progress:
        results = list(spot.collect_spot(call.settings, call.store, call.now, show_progress, providers))
    for result in results:
        print_spot(call, result)
    return results


def print_spot(call: Call, result: SpotResult) -> None:
    """Print the summary on stdout and notes on stderr."""
    if _print_trouble(call, result):
        return
    if loaded := result.load:
        when = f" of {result.period}" if result.period else ""
        corrected = f", {loaded.corrected:,} corrected" if loaded.corrected else ""
        call.say(
            f"{result.source}: {loaded.rows:,} spot prices{when}: {loaded.new:,} new, {loaded.old:,} already known{corrected}"
        )
    for text in result.notes:
        call.note(f"  note: {text}")


def collect_metrics(call: Call, source: Sequence[str], period: Period | None) -> None:
    """Collect from the named Prometheus servers, or all. Exits with 1 or 4 if data is missing."""
    from gpucost import pipeline

    settings = call.settings
    if not settings.prometheus:
        raise ConfigError(
            "no Prometheus configured", "add [prometheus] to gpucost.toml, or run gpucost init to write one"
        )
    servers = {server.source: server for server in settings.prometheus}
    check_sources(source, servers)
    if source:
        settings = settings.model_copy(update={"prometheus": [servers[name] for name in source]})
    with collector_bars(call) as progress:
        results, errors = pipeline.collect(settings, call.store, period, progress)
    for result in results:
        _print_run(call, result)
    for error in errors:
        print_error(error.message, error.fix)
    try:
        if results and (sizes := pipeline.compact_closed_month(settings, call.store, call.now)):
            call.note(
                f"compacted the store after the end of a month: {bytes_text(sizes[0])} before, {bytes_text(sizes[1])} now"
            )
    except StoreError as error:  # the collected data is stored already
        note(f"warning: the store was not compacted: {error.message}")
    if errors or not all(result.ok for result in results):
        raise typer.Exit(1)
    if any(result.incomplete for result in results):
        raise typer.Exit(IncompleteError.exit_code)


@contextmanager
def collector_bars(call: Call) -> Iterator[Callable[[ProgressState], None] | None]:
    """Yield a function that shows a run's state as a bar for each source; None if stderr is not a terminal."""
    with call.progress_bars() as show:

        def progress(state: ProgressState) -> None:
            note = f"{state.done_ms / MS_PER_HOUR:.0f} h, {state.samples:,} samples {state.note}"
            show(state.source, state.done_ms, state.total_ms, note)

        yield progress if call.has_bars else None


def check_sources(names: Sequence[str], existing: Collection[str]) -> None:
    """Raise UsageError for the name of an unknown server."""
    from gpucost.config.model import shown_url

    for name in names:
        if name not in existing:
            raise UsageError(
                f"server not found: {shown_url(name)}", f"--source takes one of: {', '.join(existing)}"
            )


def run_bills(
    call: Call,
    section: str,
    paths: Sequence[str] = (),
    *,
    force: bool = False,
    months: Sequence[str] = (),
    max_gib: float | None = None,
    cost_type: str = "amortized",
) -> None:
    """Load the exports at `paths`; by default the configured exports and the answers of the cloud's billing service.

    Raises UsageError without an export, GpucostError if one is invalid.
    """
    from gpucost.collect.bill.load import collect_bills
    from gpucost.collect.bill.opening import BucketTree, LocalTree

    settings = call.settings
    if not paths and section not in settings.bill_sections:
        also = {"gcp": " or billing_table", "azure": " or cost_scope"}.get(section, "")
        raise UsageError(
            "a billing export is missing",
            f'run gpucost collect {section} PATH, or set exports = ["…"]{also} under [{section}] in gpucost.toml',
        )
    answers = [] if paths else queries(call, section, months, max_gib, cost_type)
    provider = None if section == "focus" else section
    with call.progress_bars() as show:

        def progress(state: BillProgress) -> None:
            note = f"{bytes_text(state.done)} of {bytes_text(state.total)}: {state.note}"
            show("bills", state.done, state.total, note)

        names = paths or getattr(settings, section).exports
        trees = [
            BucketTree(name, settings) if "://" in name else LocalTree(Path(name).expanduser())
            for name in names
        ]
        run = collect_bills(
            call.store,
            [*trees, *answers],
            provider,
            currency=settings.bills.currency,
            force=force,
            progress=progress,
        )
    for result in run.results:
        call.say(_line(result))
    note_findings(
        call, run.findings, sys.maxsize if call.verbose else SHOWN_OF_A_KIND, hint=" (-v shows them)"
    )
    for error in run.errors:
        print_error(error.message, error.fix)
    if run.errors:
        raise typer.Exit(1)


def queried_months(months: Sequence[str], now: datetime) -> list[str]:
    """Billing periods to query: the named ones, otherwise the last and the current one. Raises UsageError."""
    for month in months:
        parse_period(ZoneInfo("UTC"), now, month=month)
    if months:
        return sorted(set(months))
    current = now.replace(day=1)
    return [f"{current - timedelta(days=1):%Y-%m}", f"{current:%Y-%m}"]


def _line(result: BillResult) -> str:
    from gpucost.store.charges import KEPT

    final = {True: "final", False: "not final", None: "finality unknown"}[result.is_final]
    sums = "; ".join(
        f"billed {row['billed']:,.2f}, effective {row['effective']:,.2f} {row['currency']}"
        for row in result.amounts
    )
    line = f"{result.source} {result.billing_period}: {result.rows:,} rows, {sums}, {final}"
    if result.verdict == "unchanged":
        return f"{line}; already loaded, unchanged"
    if not result.loaded:
        return f"{line}; NOT loaded: {KEPT[result.verdict]} (--replace loads it)"
    if result.replaced:
        return f"{line}; replaces the same bill from {', '.join(sorted(set(result.replaced)))}"
    return f"{line}; replaces the stored bill" if result.verdict == "replace" else line


def bigquery(call: Call, month: str, max_gib: float | None) -> BigQueryTree:
    from gpucost.collect.bill.gcp import BigQueryTree

    gcp = call.settings.gcp
    return BigQueryTree(
        gcp.billing_table or "",
        month,
        max_gib=max_gib or gcp.max_gib,
        show_progress=call.note,
        project=gcp.billing_project,
        endpoint=gcp.bigquery_endpoint,
    )


def queries(
    call: Call, section: str, months: Sequence[str], max_gib: float | None, cost_type: str
) -> list[Tree]:
    """One query of a cloud's billing service for each month, so that a failed month leaves the others."""
    azure = call.settings.azure
    if section == "gcp" and call.settings.gcp.billing_table:
        return [bigquery(call, month, max_gib) for month in queried_months(months, call.now)]
    if section != "azure" or not azure.cost_scope:
        return []
    from gpucost.collect.bill.azure import QueryTree

    return [
        QueryTree(
            azure.cost_scope,
            month,
            "ActualCost" if cost_type == "actual" else "AmortizedCost",
            management_url=azure.management_url,
            show_progress=call.note,
        )
        for month in queried_months(months, call.now)
    ]
