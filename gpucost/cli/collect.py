"""`gpucost collect prometheus`: pull metrics of kube-state-metrics and dcgm-exporter into the store."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucost.cli.command import Call, argument, command, option
from gpucost.cli.output import note, print_error
from gpucost.errors import ConfigError, GpucostError, IncompleteError, SourceError, StoreError, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection

    from gpucost.collect.base import CollectResult
    from gpucost.collect.prices import PriceResult, ReplacedPrices
    from gpucost.collect.progress.mlflow import MlflowResult
    from gpucost.collect.spot import SpotResult

SHOWN_OF_A_KIND = 5
# What even -q says, in one line each: time is missing.
_LOUD = ("gap", "newest_sample")
SourcesOption = Annotated[
    list[str] | None, option("--source", "NAME", "Only this server, by name or URL; repeatable.")
]
_SIGN = "collect it from where it is, or declare it: [[clusters]] says when a cluster is off, [coverage] accept signs a gap"


@command("start end *")
def collect_prometheus(call: Call, source: SourcesOption = None) -> None:
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
    from gpucost import pipeline

    settings = call.settings
    if not settings.prometheus:
        raise ConfigError(
            "no Prometheus is configured",
            "add [prometheus] to gpucost.toml, or run gpucost init where there is none",
        )
    servers = {server.source: server for server in settings.prometheus}
    _check_sources(source, servers)
    if source:
        settings = settings.model_copy(update={"prometheus": [servers[name] for name in source]})
    period = call.named_period[0] if call.named_period else None
    with call.progress_bar() as progress:
        results, errors = pipeline.collect(settings, call.store, period, progress)
    for result in results:
        _print_run(call, result)
    for error in errors:
        print_error(error.message, error.fix)
    try:
        if results and (sizes := pipeline.compact_closed_month(settings, call.store, call.now)):
            from gpucost.cli.setup import size

            call.note(
                f"a month has closed: the store was compacted from {size(sizes[0])} to {size(sizes[1])}"
            )
    except StoreError as error:  # what was collected is in the store all the same
        note(f"warning: the store was not compacted: {error.message}")
    if errors or not all(result.ok for result in results):
        raise typer.Exit(1)
    if any(result.incomplete for result in results):
        raise typer.Exit(IncompleteError.exit_code)


def _check_sources(names: list[str] | None, known: Collection[str]) -> None:
    """Raises UsageError for a name that is none of the `known` servers'."""
    from gpucost.config.model import shown_url

    for name in names or ():
        if name not in known:
            raise UsageError(
                f"no server is called {shown_url(name)}", f"--source takes one of: {', '.join(known)}"
            )


def _print_run(call: Call, result: CollectResult) -> None:
    """What a run came to: the summary on stdout, what is wrong or missing on stderr; of that only missing time under -q."""
    failed = f", but {_count(len(result.failed_windows), 'window')} failed" if result.failed_windows else ""
    call.say(
        f"{result.source}: {result.samples:,} samples of {result.asked}{failed}"
        f" ({_count(result.windows, 'window')}, {result.new_series:,} new series)"
    )
    if result.resumed:
        call.say(f"  went on after {_count(result.resumed, 'window')} of a run that was ended")
    if result.asked_again:
        call.say(f"  asked again for {_count(result.asked_again, 'incomplete hour')}")
    _print_metrics(call, result, "samples")
    if call.quiet and not result.samples and result.ok:
        note(f"warning: {result.source}: no sample of {result.asked}")
    for reason in sorted({item.reason for item in result.dropped}):
        metrics = {item.metric: item.samples for item in result.dropped if item.reason == reason}
        call.note(f"  dropped {sum(metrics.values()):,} samples as {reason}: {', '.join(sorted(metrics))}")
    note_findings(call, result.findings, SHOWN_OF_A_KIND, loud=_LOUD)
    for missing in result.incomplete[:SHOWN_OF_A_KIND]:
        print_error(f"{result.source}: lost for good: {missing}", None)
    if result.incomplete:
        more = len(result.incomplete) - SHOWN_OF_A_KIND
        if more > 0:
            note(f"and {more} more such times")
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
    """Say what a run found, on stderr: so many of a kind, then how many more there are; under -q those of `loud` kinds alone."""
    shown = Counter[str]()
    for finding in findings:
        shown[finding.code] += 1
        if shown[finding.code] <= most:
            is_loud = call.quiet and finding.code in loud
            note(
                f"{'' if is_loud else '  '}{finding.level}: {finding.message}",
                quiet=call.quiet and not is_loud,
            )
            if finding.fix:
                call.note(f"    fix: {finding.fix}")
    for code, count in shown.items():
        if count > most:
            note(f"  and {count - most} more of {code}{hint}", quiet=call.quiet and code not in loud)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@command("* start end source")
def collect_progress(
    call: Call,
    paths: Annotated[
        list[Path] | None,
        argument("PATH", "CSV or JSONL files, or directories. Default: collect from the servers."),
    ] = None,
    source: SourcesOption = None,
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
    if paths:
        if call.start or call.end or source:
            raise UsageError("files are loaded whole", "leave out --from, --to and --source")
        _import(call, paths)
    elif not _ask(call, source):
        raise typer.Exit(1)


def _import(call: Call, paths: list[Path]) -> None:
    from gpucost.collect.progress.files import import_files

    for result in import_files(call.store, paths, call.tz):
        call.say(f"{result.path}: {result.load.values:,} values of {result.period}")
        for unit in result.own_units:
            call.note(
                f"  note: {unit!r} is a unit of your own, beside epoch, request, prompt_token and generation_token\n"
                f"    fix: gpucost unit requests --count {quote(unit)} shows it, or write one of these"
            )


def _ask(call: Call, names: list[str] | None) -> bool:
    """Collects from all servers, or those called `names`; whether every one of them gave all of it."""
    from gpucost.collect.progress.mappings import mappings
    from gpucost.collect.progress.mlflow import collect_mlflow
    from gpucost.collect.progress.prometheus import collect_progress as collect

    settings, store = call.settings, call.store
    period = call.named_period[0] if call.named_period else None
    servers = {server.source: server for server in settings.prometheus}
    known = [*servers, *([settings.mlflow.source] if settings.mlflow.url else [])]
    if not known:
        raise ConfigError(
            "no server is configured", "add [prometheus] or [mlflow] to gpucost.toml, or name files"
        )
    _check_sources(names, known)
    units = mappings(settings)
    complete = True
    for name in names or known:
        try:
            if name in servers:
                with call.progress_bar() as bar:
                    result = collect(servers[name], store, units, period, bar, timezone=settings.tz)
                _print_progress(call, result)
                complete = complete and result.ok
            else:
                _tell_mlflow(call, collect_mlflow(settings.mlflow, store, period, timezone=settings.tz))
        except SourceError as error:
            print_error(error.message, error.fix)
            complete = False
    return complete


def _print_progress(call: Call, result: CollectResult) -> None:
    call.say(
        f"{result.source}: {result.samples:,} values of {result.asked}, of {len(result.metrics)} metrics of work"
    )
    _print_metrics(call, result, "values")
    for item in result.dropped:
        call.note(f"  dropped {item.samples:,} values that are no number")
    note_findings(call, result.findings)
    _print_failed(result)


def _tell_mlflow(call: Call, result: MlflowResult) -> None:
    call.say(f"{result.source}: {result.runs:,} runs of {result.period}, {result.epochs:,} logged epochs")
    if result.placed < result.runs:
        call.note(
            f"  note: {result.runs - result.placed:,} runs do not say where they ran\n"
            "    fix: tag them with gpucost.namespace and gpucost.pod or gpucost.workload; see docs/units.md"
        )


SHOWN_REGIONS = 4
SHOWN_REPLACED = 10


class Provider(StrEnum):
    """The clouds whose list prices can be asked for."""

    aws = "aws"
    gcp = "gcp"
    azure = "azure"
    oci = "oci"
    runpod = "runpod"
    vast = "vast"


@command("*")
def collect_prices(
    call: Call,
    provider: Annotated[
        list[Provider] | None,
        option("--provider", "NAME", "Only this one: aws, gcp, azure, oci, runpod or vast; repeatable."),
    ] = None,
    region: Annotated[
        list[str] | None,
        option("--region", "NAME", "Only this region, of the cloud that spells its regions so; repeatable."),
    ] = None,
) -> None:
    """Refresh list prices from AWS, Google Cloud, Azure, OCI, RunPod and Vast.ai into the store.

    On-demand, spot, reserved and commitment prices of every instance type with GPUs. The catalog inside gpucost stays beside
    them, and the newest price wins; what a new one replaces is shown. Without --region: the regions of the configuration; for
    AWS else those where nodes were seen, else us-east-1; for the others else all. Google Cloud needs a login and is skipped
    without one; AWS' public lists, which are read without one, have hundreds of megabytes a region. Asking again on the same
    day replaces that day's prices. A cloud whose answer is not whole leaves what was there. Ends with 1 if a cloud failed or all
    were skipped.

    \b
    Examples:
      gpucost collect prices
      gpucost collect prices --provider aws --region us-east-1 --region eu-west-1
      gpucost collect prices --provider azure --region eastus
    """
    results = collect_list_prices(call, _providers(provider or [], region or []), region or [])
    if all(result.skipped for result in results):
        raise GpucostError(
            "no prices were collected: there are credentials for none of the clouds asked",
            "log in to one of them, or add --provider azure, which needs no login",
        )
    if any(result.error for result in results):
        raise typer.Exit(1)


def collect_list_prices(call: Call, providers: Sequence[str], regions: Sequence[str]) -> list[PriceResult]:
    """Collect and print the list prices of `providers`; return what each came to."""
    from gpucost.collect.prices import collect_prices as collect

    with call.status() as tell:
        results = collect(call.settings, call.store, providers, regions, call.now, tell)
    for result in results:
        _print_prices(call, result)
    return results


def _providers(named: Sequence[Provider], regions: Sequence[str]) -> list[str]:
    """Who is asked: those named, and with regions only those that have one of them. Raises UsageError for a region of none."""
    from gpucost.collect.prices import PROVIDERS
    from gpucost.collect.prices.base import is_region_of

    asked = [name for name in PROVIDERS if not named or name in named]
    for region in regions:
        if not any(is_region_of(name, region) for name in asked):
            raise UsageError(
                f"--region {region} is spelled like no region of {', '.join(asked)}",
                "regions are spelled us-east-1 (aws), us-central1 (gcp), eastus (azure)",
            )
    return [name for name in asked if not regions or any(is_region_of(name, region) for region in regions)]


def _print_prices(call: Call, result: PriceResult) -> None:
    """For each cloud: what was written, and what it replaced, on stdout; what was skipped or failed on stderr."""
    if _print_trouble(call, result):
        return
    parts = f", {result.components:,} prices of their parts" if result.components else ""
    types = f"{result.priced_types:,} instance types{parts}{_regions(result.regions)}"
    call.say(f"{result.provider}: {result.prices:,} prices of {types}, as of {result.as_of}")
    replaced = result.replaced
    new = result.prices - len(replaced) - result.unchanged
    call.say(
        f"{result.provider}: {len(replaced):,} replace another price, {result.unchanged:,} confirm it, {new:,} are new"
    )
    shown = replaced if call.verbose else replaced[:SHOWN_REPLACED]
    for price in shown:
        call.say(f"  {_replaced(price)}")
    if more := len(replaced) - len(shown):
        call.say(f"  and {more:,} more, which -v shows")


def _print_trouble(call: Call, result: PriceResult | SpotResult) -> bool:
    """Whether a cloud was skipped or failed, which is said."""
    if result.skipped:
        call.note(f"{result.skipped.message}; skipped ({result.skipped.fix})")
    elif result.error:
        print_error(result.error.message, result.error.fix)
    return bool(result.skipped or result.error)


def _replaced(price: ReplacedPrices) -> str:
    """`p5.48xlarge, on demand, us-east-1: 98.32 (2025-06-04) → 55.04 USD, -44.0 %`."""
    years = f"{price.term_years} year{'s' if price.term_years > 1 else ''}" if price.term_years else ""
    words = (
        price.instance_type,
        price.purchase_option,
        years,
        price.payment_option,
        price.offering,
        price.region,
    )
    what = ", ".join(
        word.replace("_", " ") if word != price.instance_type else word for word in words if word
    )
    old, new = (f"{amount.normalize():f}" for amount in (price.old_price_per_hour, price.new_price_per_hour))
    return f"{what}: {old} ({price.old_price_as_of}) → {new} {price.currency}, {price.change:+.1%}"


def _regions(names: Sequence[str]) -> str:
    if not any(names):
        return ""  # one price everywhere
    return f" in {', '.join(names) if len(names) <= SHOWN_REGIONS else f'{len(names)} regions'}"


@command("*")
def collect_spot(
    call: Call,
    paths: Annotated[
        list[Path] | None, argument("PATH", "Files or directories; without any, the clouds are asked.")
    ] = None,
) -> None:
    """Pull the spot price history of GPU instances into the store, or load it from files.

    Without a path: AWS tells 90 days of changes in every region of aws.regions (else where GPU nodes were seen, else
    us-east-1), and later runs go on from the last collected moment; Azure's history comes from Resource Graph. A cloud
    without credentials is skipped, and if all were, the command ends with 1. GCP has no such history: its spot prices come,
    dated, with gpucost collect prices.

    With paths: answers of aws ec2 describe-spot-price-history in JSON, and files of the EC2 spot data feed, .gz or not.
    Facts that are known already are not loaded again, so snapshots may overlap. A file that cannot be used is named
    with its row, and then nothing of this run is loaded.

    \b
    Examples:
      gpucost collect spot
      gpucost collect spot history.json
      gpucost collect spot snapshots/ datafeed/
    """
    from gpucost.collect import spot

    if paths:
        for result in spot.import_spot(call.store, paths):
            _print_spot(call, result)
        return
    results = collect_spot_prices(call, spot.PROVIDERS)
    if all(result.skipped for result in results):
        raise GpucostError(
            "no spot prices were collected: there are credentials for none of the clouds asked",
            "log in to one of them, or name files of spot prices",
        )
    if any(result.error for result in results):
        raise typer.Exit(1)


def collect_spot_prices(call: Call, providers: Collection[str]) -> list[SpotResult]:
    """Collect and tell the spot prices of `providers`; what each came to. A cloud nobody is logged in to is skipped."""
    from gpucost.collect import spot

    with call.status() as tell:
        results = list(spot.collect_spot(call.settings, call.store, call.now, tell, providers))
    for result in results:
        _print_spot(call, result)
    return results


def _print_spot(call: Call, result: SpotResult) -> None:
    """The summary on stdout, what is missing on stderr."""
    if _print_trouble(call, result):
        return
    loaded = result.load
    if loaded is not None:
        when = f" of {result.period}" if result.period else ""
        corrected = f", {loaded.corrected:,} corrected" if loaded.corrected else ""
        call.say(
            f"{result.source}: {loaded.rows:,} spot prices{when}: {loaded.new:,} new, {loaded.known:,} already known{corrected}"
        )
    for text in result.notes:
        call.note(f"  note: {text}")
