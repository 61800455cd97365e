"""`gpucost collect prometheus`: pull metrics of kube-state-metrics and dcgm-exporter into the store."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.cli.command import Call, SpanCall, command
from gpucost.cli.output import print_error
from gpucost.cli.runs import (
    _print_progress,
    _print_spot,
    _tell_mlflow,
    check_sources,
    collect_list_prices,
    collect_metrics,
    collect_spot_prices,
)
from gpucost.errors import ConfigError, GpucostError, SourceError, UsageError
from gpucost.options import Names, Option, argument

if TYPE_CHECKING:
    pass

SourcesOption = Annotated[
    Names, Option("Only this server, by name or URL; repeatable.", "NAME", flag="--source")
]


@command()
def collect_prometheus(call: SpanCall, source: SourcesOption = ()) -> None:
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
    period = call.named_period[0] if call.named_period else None
    collect_metrics(call, source, period)


@command()
def collect_progress(
    call: SpanCall,
    paths: Annotated[
        tuple[Path, ...],
        argument("PATH", "CSV or JSONL files, or directories. Default: collect from the servers."),
    ] = (),
    source: SourcesOption = (),
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


def _import(call: Call, paths: Sequence[Path]) -> None:
    from gpucost.collect.progress.files import import_files

    for result in import_files(call.store, paths, call.tz):
        call.say(f"{result.path}: {result.load.values:,} values of {result.period}")
        for unit in result.own_units:
            call.note(
                f"  note: {unit!r} is a unit of your own, beside epoch, request, prompt_token and generation_token\n"
                f"    fix: gpucost unit requests --count {quote(unit)} shows it, or write one of these"
            )


def _ask(call: Call, names: Sequence[str]) -> bool:
    """Collects from all servers, or those called `names`; whether every one of them gave all of it."""
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
    check_sources(names, known)
    complete = True
    for name in names or known:
        try:
            if name in servers:
                with call.progress_bar() as bar:
                    result = collect(settings, servers[name], store, period, bar)
                _print_progress(call, result)
                complete = complete and result.ok
            else:
                _tell_mlflow(call, collect_mlflow(settings.mlflow, store, period, settings.tz))
        except SourceError as error:
            print_error(error.message, error.fix)
            complete = False
    return complete


class Provider(StrEnum):
    """The clouds whose list prices can be asked for."""

    aws = "aws"
    gcp = "gcp"
    azure = "azure"
    oci = "oci"
    runpod = "runpod"
    vast = "vast"


@command()
def collect_prices(
    call: Call,
    provider: Annotated[
        tuple[Provider, ...],
        Option("Only this one: aws, gcp, azure, oci, runpod or vast; repeatable.", "NAME"),
    ] = (),
    region: Annotated[
        Names, Option("Only this region, of the cloud that spells its regions so; repeatable.", "NAME")
    ] = (),
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


@command()
def collect_spot(
    call: Call,
    paths: Annotated[
        tuple[Path, ...], argument("PATH", "Files or directories; without any, the clouds are asked.")
    ] = (),
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
