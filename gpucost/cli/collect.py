"""`gpucost collect …`: pull metrics, work, prices, bills and jobs into the store."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from gpucost.cli.command import Call, SpanCall, command
from gpucost.cli.output import print_error
from gpucost.cli.runs import (
    bigquery,
    check_sources,
    collect_list_prices,
    collect_metrics,
    collect_spot_prices,
    collector_bars,
    months_asked,
    print_mlflow,
    print_progress,
    print_spot,
    run_bills,
)
from gpucost.errors import ConfigError, GpucostError, SourceError, UsageError
from gpucost.options import Names, Option, argument

if TYPE_CHECKING:
    from gpucost.collect.prices import PriceResult
    from gpucost.collect.slurm.collector import SlurmResult
    from gpucost.collect.spot import SpotResult

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
    collect_metrics(call, source, call.given_period)


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

    settings, store, period = call.settings, call.store, call.given_period
    servers = {server.source: server for server in settings.prometheus}
    all_names = [*servers, *([settings.mlflow.source] if settings.mlflow.url else [])]
    if not all_names:
        raise ConfigError(
            "no server is configured", "add [prometheus] or [mlflow] to gpucost.toml, or name files"
        )
    check_sources(names, all_names)
    is_complete = True
    for name in names or all_names:
        try:
            if name in servers:
                with collector_bars(call) as bar:
                    result = collect(settings, servers[name], store, period, bar)
                print_progress(call, result)
                is_complete &= result.ok
            else:
                print_mlflow(call, collect_mlflow(settings.mlflow, store, period, settings.tz))
        except SourceError as error:
            print_error(error.message, error.fix)
            is_complete = False
    return is_complete


# The clouds whose list prices can be collected.
Provider = StrEnum("Provider", "aws gcp azure oci runpod vast")


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
    them, and the newest price wins. Without --region: the regions of the configuration; for AWS else those where nodes were
    seen, else us-east-1; for the others else all. AWS and Google Cloud need a login and are skipped without one. Asking again
    on the same day replaces that day's prices. A cloud whose answer is not whole leaves what was there. Ends with 1 if a cloud
    failed or all were skipped.

    \b
    Examples:
      gpucost collect prices
      gpucost collect prices --provider aws --region us-east-1 --region eu-west-1
      gpucost collect prices --provider azure --region eastus
    """
    results = collect_list_prices(call, _providers(provider, region), region)
    _end(results, "prices", "add --provider azure, which needs no login")


def _end(results: Sequence[PriceResult | SpotResult], what: str, otherwise: str) -> None:
    """End with 1 if a cloud failed. Raises GpucostError if all were skipped."""
    if all(result.skipped for result in results):
        raise GpucostError(
            f"no {what} were collected: there are credentials for none of the clouds asked",
            f"log in to one of them, or {otherwise}",
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
            print_spot(call, result)
        return
    _end(collect_spot_prices(call, spot.PROVIDERS), "spot prices", "name files of spot prices")


MonthsOption = Annotated[
    Names,
    Option(
        "Billing period to ask for; repeatable; else the last and the current one.", "YYYY-MM", flag="--month"
    ),
]
PathsArgument = Annotated[
    Names,
    argument("[PATH]...", "Files, directories, or addresses of a bucket; else `exports` of the config."),
]
ForceOption = Annotated[
    bool,
    Option(
        "Put what is loaded in the place of the bill there, also if it is older, less, or another view.",
        flag="--replace",
        also="--force",
    ),
]


@command()
def collect_aws(call: Call, paths: PathsArgument = (), force: ForceOption = False) -> None:
    """Load AWS billing exports: Cost and Usage Reports (legacy and CUR 2.0), Data Exports, FOCUS.

    CSV and Parquet, packed or not, from files, directories or s3://bucket/prefix. Where a manifest is there, it decides
    which files count, and a billing period is replaced as a whole; half a period is refused. A loose file replaces the bill
    whose charges it holds: loading twice, a restated month, or a final month over one that was not, changes what is there
    and doubles nothing. A file that is older or less than what is there is named and left out. What is in the store is
    asked by `gpucost sql "from charges"`.

    \b
    Examples:
      gpucost collect aws s3://my-bucket/exports/cur
      gpucost collect aws march.csv.gz april.csv.gz
      gpucost collect aws --replace 2026-10-not-final.csv
    """
    run_bills(call, "aws", paths, force=force)


# What the query API can be asked for.
CostType = Literal["amortized", "actual"]


@command()
def collect_azure(
    call: Call,
    paths: PathsArgument = (),
    month: MonthsOption = (),
    cost_type: Annotated[
        CostType, Option("Costs to ask the query API for; of exports, their content tells.", is_shown=True)
    ] = "amortized",
    force: ForceOption = False,
) -> None:
    """Load Azure cost exports, or ask the Cost Management query API where there is none.

    Exports of any agreement (Enterprise, Microsoft Customer, pay-as-you-go) and language, CSV or Parquet, packed or not, from
    files, directories or https://<account>.blob.core.windows.net/<container>/<directory>. Amortized and actual exports of one
    month go together and are never added: amortized costs are the effective ones, actual costs add what was paid for
    commitments. Without paths and exports, azure.cost_scope is asked for, a month at a time.

    \b
    Examples:
      gpucost collect azure exports/amortized exports/actual
      gpucost collect azure https://billing.blob.core.windows.net/exports/amortized
      gpucost collect azure --month 2026-10
    """
    run_bills(call, "azure", paths, force=force, months=month, cost_type=cost_type)


@command()
def collect_gcp(
    call: Call,
    paths: PathsArgument = (),
    month: MonthsOption = (),
    max_gib: Annotated[
        float | None, Option("GiB that a month's query may read; else gcp.max_gib.", "NUMBER", above=True)
    ] = None,
    estimate: Annotated[bool, Option("Only tell what the queries would read.")] = False,
    force: ForceOption = False,
) -> None:
    """Load Google Cloud's detailed usage cost export, from BigQuery or from files.

    From BigQuery (gcp.billing_table), an invoice month is read whole, corrections included: what the query reads is estimated
    and told before it runs, and a query over the cap is refused. From files or gs://bucket/prefix: CSV, JSON lines, Parquet,
    packed or not, flattened or nested; all files of a month go together. Loading again replaces and doubles nothing.

    \b
    Examples:
      gpucost collect gcp
      gpucost collect gcp --month 2026-10 --estimate
      gpucost collect gcp exports/2026-10/*.json.gz
      gpucost collect gcp gs://my-bucket/billing
    """
    if estimate:
        if not call.settings.gcp.billing_table:
            raise UsageError("no table to estimate for", "set gcp.billing_table in gpucost.toml")
        for name in months_asked(month, call.now):
            bigquery(call, name, max_gib).estimate()
        return
    run_bills(call, "gcp", paths, force=force, months=month, max_gib=max_gib)


@command()
def collect_focus(call: Call, paths: PathsArgument = (), force: ForceOption = False) -> None:
    """Load FOCUS cost and usage files, 1.0 to 1.4, of any provider; OCI's cost reports; and OpenAI's and Anthropic's costs.

    CSV and Parquet, packed or not, columns spelled as in the specification or in snake case, and saved answers of the cost APIs
    of OpenAI and Anthropic, from files, directories or s3://bucket/prefix. Costs are the file's own. A file replaces the bill
    whose charges it holds; one that is older or less than what is there is named and left out, and the command ends with 1
    where the file itself was named.

    \b
    Examples:
      gpucost collect focus focus-2026-10.csv
      gpucost collect focus exports/focus/
      gpucost collect focus s3://my-bucket/focus
      gpucost collect focus openai-costs.json anthropic-cost-report.json
    """
    run_bills(call, "focus", paths, force=force)


_SHOWN = {
    "slurm_nodes": "nodes", "slurm_events": "events of nodes", "slurm_reservations": "reservations", "slurm_accounts": "accounts",
    "slurm_shares": "shares", "slurm_devices": "nodes of jobs with the GPUs that they have there",
}  # fmt: skip


@command()
def collect_slurm(
    call: SpanCall,
    paths: Annotated[
        tuple[Path, ...],
        argument("[FILE]...", "What sacct, scontrol, sacctmgr and sshare wrote; text may be gzipped."),
    ] = (),
    cluster: Annotated[str | None, Option("The cluster, where a file names none.", "NAME")] = None,
    fields: Annotated[str | None, Option("The fields of files without a header.", "A,B,C")] = None,
    delimiter: Annotated[
        str | None, Option("What stands between fields; else as in the header.", "TEXT")
    ] = None,
    sacct: Annotated[str | None, Option('Ask this command: "ssh login sacct".', "COMMAND")] = None,
    slurmrestd: Annotated[str | None, Option("Ask slurmrestd there; SLURM_JWT is its token.", "URL")] = None,
    timezone: Annotated[str | None, Option("Of times without an offset; UTC by default.", "ZONE")] = None,
) -> None:
    """Load what Slurm's accounting says of jobs, and what else it says of nodes and accounts.

    Of jobs: sacct's text with any list of fields that has JobID, State, Start, End (or Elapsed) and AllocTRES, and its JSON.
    Of the rest: scontrol show node, reservation and job -d (--oneliner or --json), sinfo --json, sacctmgr show event, sacctmgr
    show assoc tree and sshare (--parsable2 or --json). Loading a file twice changes nothing; a later answer replaces what an
    earlier one said of a job that still ran, in whichever order they come. One file that cannot be read, and none is loaded.

    Without a file Slurm is asked, by --sacct, --slurmrestd or [slurm] of the config: a day at a time, from the beginning of
    the month at first, later from late_days before the last collected moment.

    Without --from and --to jobs of files count as collected from the first one's start to the last moment of any.

    \b
    Jobs, and on which nodes they were:
      TZ=UTC SLURM_TIME_FORMAT=%s sacct -a -D -S 2026-11-01 -E 2026-12-01 --parsable2 --delimiter=$'\\x1f' \\
        -o JobID,JobIDRaw,JobName,Cluster,Partition,Account,User,QOS,State,Reason,Submit,Eligible,Start,End,ElapsedRaw,\\
    Suspended,NNodes,NodeList,ReqTRES,AllocTRES,TRESUsageInAve,TRESUsageInTot,Reservation > jobs.psv

    \b
    Examples:
      gpucost collect slurm --sacct "ssh login sacct" --from 2026-11-01
      gpucost collect slurm jobs.psv nodes.txt
      gpucost collect slurm jobs.json --from 2026-11-01 --to 2026-12-01
      gpucost collect slurm dump.log --fields jobid,jobidraw,cluster,state,start,end,alloctres,nodelist
    """
    from gpucost.collect.slurm.collector import import_files
    from gpucost.collect.slurm.sacct import SacctFormat

    if not paths:
        _ask_slurm(call, sacct, slurmrestd, cluster)
        return
    if sacct or slurmrestd:
        raise UsageError(
            "files are loaded, or Slurm is asked: not both",
            "leave out --sacct and --slurmrestd, or the files",
        )
    form = SacctFormat(
        tuple(name.strip() for name in fields.split(",")) if fields else None,
        _unescaped(delimiter),
        cluster,
        _zone(timezone),
    )
    results, changed = import_files(call.store, paths, form, call.given_period, call.now)
    for result in results:
        _print_slurm(call, result)
    if not changed:
        call.say("nothing is new")


def _ask_slurm(call: Call, sacct: str | None, slurmrestd: str | None, cluster: str | None) -> None:
    from gpucost.collect.slurm.collector import collect

    settings = call.settings.slurm
    if sacct and slurmrestd:
        raise UsageError("--sacct and --slurmrestd are two ways to ask one Slurm", "leave out one")
    if sacct or slurmrestd:
        settings = settings.model_copy(update={"sacct": sacct, "slurmrestd": slurmrestd})
    if cluster:
        settings = settings.model_copy(update={"cluster": cluster})
    with collector_bars(call) as progress:
        result = collect(call.store, settings, call.given_period, call.tz, call.now, progress)
    _print_slurm(call, result)
    if result.purged:
        call.note(
            f"  warning: slurmdbd no longer keeps jobs of {result.purged} (PurgeJobAfter): they count as not collected"
        )
    for error in result.failed:
        print_error(error.message, error.fix)


def _unescaped(text: str | None) -> str | None:
    r"""A delimiter as people write it: \t and \x1f are one character."""
    if text is None:
        return None
    try:
        return text.encode("latin-1", "backslashreplace").decode("unicode_escape") if "\\" in text else text
    except UnicodeDecodeError:
        raise UsageError(f"--delimiter {text!r} is no text", r"--delimiter '\x1f'") from None


def _zone(name: str | None) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError):
        raise UsageError(f"--timezone {name!r} is no time zone", "an IANA name: Europe/Berlin") from None


def _print_slurm(call: Call, result: SlurmResult) -> None:
    for cluster, span in result.clusters.items():
        call.say(f"{result.source}: {result.runs:,} runs of jobs of {cluster}, {span}")
    if not result.clusters and not result.facts:
        call.say(f"{result.source}: no jobs")
    for table, rows in result.facts.items():
        call.say(f"{result.source}: {rows:,} {_SHOWN[table]}")
    if result.notes.is_open:
        call.note(f"  warning: {result.source} does not end its last line: it may be cut off")
    if result.notes.has_local_times:
        call.note(
            "  warning: times without an offset were read as --timezone says, else as UTC\n"
            "    fix: run sacct with TZ=UTC SLURM_TIME_FORMAT=%s"
        )
