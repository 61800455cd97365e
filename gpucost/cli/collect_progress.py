"""`gpucost collect progress`: units of work done, from Prometheus, an MLflow server, or files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
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
    from gpucost.collect.progress.mlflow import MlflowResult
    from gpucost.collect.result import CollectResult
    from gpucost.config import Config
    from gpucost.model import Period
    from gpucost.store import Store


@handle_errors
def collect_progress(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH", help="CSV or JSONL files, or directories; without any, servers are asked.", show_default=False
        ),
    ] = None,
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
    """Pull what workloads did into the store: epochs, requests, tokens, or units of your own.

    Without a path: counters and gauges of every configured Prometheus, by the ready-made mappings (vLLM, SGLang, TGI, Triton,
    KServe, training_epochs_total) and those under [[units]]; and runs of the MLflow server under [mlflow]. Without a period
    from the beginning of the current month at first, later from two hours before the last collected moment.

    With paths: files with the columns workload, time, unit and value, and where they help cluster, namespace, pod, model, run,
    kind (event, counter, gauge) and failed. A file replaces what it brought before; one that cannot be used is named with its
    line, and then nothing of this run is loaded.

    \b
    Examples:
      gpucost collect progress
      gpucost collect progress --from 2026-10-01 --to 2026-11-01
      gpucost collect progress epochs.csv
      gpucost collect progress --source mlflow
    """
    from gpucost.errors import UsageError

    settings, opened = load(config, store)
    if paths:
        if start or end or source:
            raise UsageError("files are loaded whole", "leave out --from, --to and --source")
        _import(settings, opened, paths, quiet=quiet)
        return
    chosen = parse_period(settings.tz, datetime.now(UTC), start=start, end=end)
    if not _ask(settings, opened, chosen[0] if chosen else None, source or [], quiet=quiet, verbose=verbose):
        raise typer.Exit(1)


def _import(settings: Config, store: Store, paths: list[Path], *, quiet: bool) -> None:
    from shlex import quote

    from gpucost.collect.progress.files import import_files

    for result in import_files(store, paths, settings.tz):
        if not quiet:
            put(f"{result.path}: {result.load.values:,} values of {result.period}")
        for unit in result.own_units:
            note(
                f"  note: {unit!r} is a unit of your own, beside epoch, request, prompt_token and generation_token\n"
                f"    fix: gpucost unit requests --count {quote(unit)} shows it, or write one of these",
                quiet=quiet,
            )


def _ask(settings: Config, store: Store, period: Period | None, names: list[str], *, quiet: bool, verbose: bool) -> bool:
    """Collects from all servers, or those called `names`; whether every one of them gave all of it."""
    from gpucost.cli._progress import progress_bar
    from gpucost.collect.progress.mappings import mappings
    from gpucost.collect.progress.mlflow import collect_mlflow
    from gpucost.collect.progress.prometheus import collect_progress as collect
    from gpucost.config import shown_url
    from gpucost.errors import ConfigError, SourceError, UsageError

    servers = {server.source: server for server in settings.prometheus}
    known = [*servers, *([settings.mlflow.source] if settings.mlflow.url else [])]
    if not known:
        raise ConfigError("no server is configured", "add [prometheus] or [mlflow] to gpucost.toml, or name files")
    for name in names:
        if name not in known:
            raise UsageError(f"no server is called {shown_url(name)}", f"--source takes one of: {', '.join(known)}")
    units = mappings(settings)
    complete = True
    for name in names or known:
        try:
            if name in servers:
                with progress_bar(quiet=quiet) as bar:
                    result = collect(servers[name], store, units, period, bar, timezone=settings.tz)
                _tell(result, quiet=quiet, verbose=verbose)
                complete = complete and result.ok
            else:
                _tell_mlflow(collect_mlflow(settings.mlflow, store, period, timezone=settings.tz), quiet=quiet)
        except SourceError as error:
            tell_error(error.message, error.fix)
            complete = False
    return complete


def _tell(result: CollectResult, *, quiet: bool, verbose: bool) -> None:
    if not quiet:
        put(f"{result.source}: {result.samples:,} values of {result.asked}, of {len(result.metrics)} metrics of work")
        if verbose:
            for name, seen in sorted(result.metrics.items()):
                put(f"  {name}: {seen.samples:,} values")
    for item in result.dropped:
        note(f"  dropped {item.samples:,} values that are no number", quiet=quiet)
    for finding in result.findings:
        note(f"  {finding.level}: {finding.message}", quiet=quiet)
        if finding.fix:
            note(f"    fix: {finding.fix}", quiet=quiet)
    for window in result.failed_windows:
        tell_error(f"{result.source}: {window.period} failed: {window.error}", window.command)


def _tell_mlflow(result: MlflowResult, *, quiet: bool) -> None:
    if not quiet:
        put(f"{result.source}: {result.runs:,} runs of {result.period}, {result.epochs:,} logged epochs")
    if result.placed < result.runs:
        note(
            f"  note: {result.runs - result.placed:,} runs do not say where they ran\n"
            "    fix: tag them with gpucost.namespace and gpucost.pod or gpucost.workload; see docs/units.md",
            quiet=quiet,
        )
