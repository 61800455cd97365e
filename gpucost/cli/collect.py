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
    print_mlflow,
    print_progress,
    print_spot,
    queried_months,
    run_bills,
)
from gpucost.errors import ConfigError, GpucostError, SourceError, UsageError
from gpucost.options import Names, Option, argument

if TYPE_CHECKING:
    from gpucost.collect.prices import PriceResult
    from gpucost.collect.slurm.collector import SlurmResult
    from gpucost.collect.spot import SpotResult

SourcesOption = Annotated[
    Names, Option("Name or URL of a server (default: all servers); repeatable.", "NAME", flag="--source")
]


@command()
def collect_prometheus(call: SpanCall, source: SourcesOption = ()) -> None:
    """Pull metrics of kube-state-metrics and dcgm-exporter into the store.

    The first run collects the last 92 days, as far as the server has data. Later runs collect new data from two hours before
    the last collected sample, fill gaps since the first run, and query incomplete hours of the last `late_hours` again. Data
    ends at the server's newest sample. Collecting the same time twice changes nothing; late data replaces earlier data. Failed
    windows are listed and can be collected later; an interrupted run resumes. Without samples, a warning names the time for
    which the server has data, and the command that collects it. Exit codes: 1 if a part failed, 4 if a past day is still
    incomplete after a second query.

    \b
    Examples:
      gpucost collect prometheus
      gpucost collect prometheus --from 2026-10-01 --to 2026-11-01
      gpucost collect prometheus --source prod --from 2026-10-01T06:00Z
    """
    collect_metrics(call, source, call.explicit_period)


@command()
def collect_progress(
    call: SpanCall,
    paths: Annotated[
        tuple[Path, ...],
        argument("PATH", "CSV or JSONL files, or directories. Default: collect from the servers."),
    ] = (),
    source: SourcesOption = (),
) -> None:
    """Pull the progress of workloads into the store: epochs, requests, tokens, or custom units.

    Without a path: counters and gauges from every configured Prometheus, by the built-in mappings (vLLM, SGLang, TGI, Triton,
    KServe, training_epochs_total) and the mappings under [[units]]; and runs from the MLflow server under [mlflow]. The first
    run collects the current month; later runs start two hours before the last collected value.

    With paths: files with the columns workload, time, unit and value; optional columns are cluster, namespace, pod, model,
    run, kind (event, counter, gauge) and failed. Loading a file again replaces its earlier rows. If a file is invalid, the
    error names the line and nothing is loaded.

    \b
    Examples:
      gpucost collect progress
      gpucost collect progress --from 2026-10-01 --to 2026-11-01
      gpucost collect progress work.csv
      gpucost collect progress --source mlflow
    """
    if paths:
        if call.start or call.end or source:
            raise UsageError("--from, --to and --source do not apply to files", "leave them out")
        _import(call, paths)
    elif not _query_progress(call, source):
        raise typer.Exit(1)


def _import(call: Call, paths: Sequence[Path]) -> None:
    from gpucost.collect.progress.files import import_files

    for result in import_files(call.store, paths, call.tz):
        call.say(f"{result.path}: {result.load.values:,} values of {result.period}")
        for unit in result.own_units:
            call.note(
                f"  note: {unit!r} is a custom unit; the built-in units are epoch, request, prompt_token and generation_token\n"
                f"    fix: run gpucost unit requests --count {quote(unit)}, or rename the unit"
            )


def _query_progress(call: Call, names: Sequence[str]) -> bool:
    """Collect from the named servers, or all; return whether every query succeeded."""
    from gpucost.collect.progress.mlflow import collect_mlflow
    from gpucost.collect.progress.prometheus import collect_progress as collect

    settings, store, period = call.settings, call.store, call.explicit_period
    servers = {server.source: server for server in settings.prometheus}
    all_names = [*servers, *([settings.mlflow.source] if settings.mlflow.url else [])]
    if not all_names:
        raise ConfigError(
            "no server configured", "add [prometheus] or [mlflow] to gpucost.toml, or pass files"
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
        Option("Provider: aws, gcp, azure, oci, runpod or vast (default: all); repeatable.", "NAME"),
    ] = (),
    region: Annotated[
        Names, Option("Region, for the clouds that have one of this name; repeatable.", "NAME")
    ] = (),
) -> None:
    """Refresh list prices from AWS, Google Cloud, Azure, OCI, RunPod and Vast.ai into the store.

    On-demand, spot, reserved and commitment prices of every instance type with GPUs. They add to the built-in catalog; the
    newest price applies. Without --region: the regions in gpucost.toml; otherwise, for AWS, the regions of your nodes or
    us-east-1, and for the other clouds all regions. AWS and Google Cloud need a login and are skipped without one. A second
    run on one day replaces that day's prices. After an incomplete answer the earlier prices stay. Exit code 1 if a cloud
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
            f"no {what} collected: credentials for these clouds are missing",
            f"log in to one of them, or {otherwise}",
        )
    if any(result.error for result in results):
        raise typer.Exit(1)


def _providers(named: Sequence[Provider], regions: Sequence[str]) -> list[str]:
    """Providers to query: the named ones, or all, that have one of the regions. Raises UsageError for an unknown region."""
    from gpucost.collect.prices import PROVIDERS
    from gpucost.collect.prices.base import is_region_of

    queried = [name for name in PROVIDERS if not named or name in named]
    for region in regions:
        if not any(is_region_of(name, region) for name in queried):
            raise UsageError(
                f"invalid --region {region}: not a region of {', '.join(queried)}",
                "regions are spelled us-east-1 (aws), us-central1 (gcp), eastus (azure)",
            )
    return [name for name in queried if not regions or any(is_region_of(name, region) for region in regions)]


@command()
def collect_spot(
    call: Call,
    paths: Annotated[
        tuple[Path, ...], argument("PATH", "Files or directories (default: query the clouds).")
    ] = (),
) -> None:
    """Pull the spot price history of GPU instances into the store, or load it from files.

    Without a path: AWS reports 90 days of price changes in every region of aws.regions (otherwise the regions of your GPU
    nodes, otherwise us-east-1); later runs continue from the last collected price. Azure's history comes from Resource Graph.
    A cloud without credentials is skipped; if all are skipped, the exit code is 1. Google Cloud publishes no history: its
    spot prices come, dated, with gpucost collect prices.

    With paths: JSON output of aws ec2 describe-spot-price-history, and files of the EC2 spot data feed, gzipped or plain.
    Prices that the store already has are skipped, so snapshots may overlap. If a file is invalid, the error names the row
    and nothing is loaded.

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
    _end(collect_spot_prices(call, spot.PROVIDERS), "spot prices", "pass files with spot prices")


MonthsOption = Annotated[
    Names,
    Option(
        "Billing period to query (default: the last and the current one); repeatable.",
        "YYYY-MM",
        flag="--month",
    ),
]
PathsArgument = Annotated[
    Names,
    argument("[PATH]...", "Files, directories or bucket addresses (default: `exports` in gpucost.toml)."),
]
ForceOption = Annotated[
    bool,
    Option(
        "Replace the stored bill, even if the new one is older, smaller or of another format.",
        flag="--replace",
        also="--force",
    ),
]


@command()
def collect_aws(call: Call, paths: PathsArgument = (), force: ForceOption = False) -> None:
    """Load AWS billing exports: Cost and Usage Reports (legacy and CUR 2.0), Data Exports, FOCUS.

    CSV and Parquet, compressed or not, from files, directories or s3://bucket/prefix. If there is a manifest, it decides
    which files count and replaces a billing period as a whole; an incomplete period is refused. A file without a manifest
    replaces the stored bill with the same charges, so loading a file twice, or a final month over an estimate, counts no
    charge twice. A file older or smaller than the stored bill is listed and skipped. To see the loaded charges:
    `gpucost sql "from charges"`.

    \b
    Examples:
      gpucost collect aws s3://my-bucket/exports/cur
      gpucost collect aws march.csv.gz april.csv.gz
      gpucost collect aws --replace 2026-10-not-final.csv
    """
    run_bills(call, "aws", paths, force=force)


# Cost types of the query API.
CostType = Literal["amortized", "actual"]


@command()
def collect_azure(
    call: Call,
    paths: PathsArgument = (),
    month: MonthsOption = (),
    cost_type: Annotated[
        CostType, Option("Cost type to query from the API; exports contain their own.", is_shown=True)
    ] = "amortized",
    force: ForceOption = False,
) -> None:
    """Load Azure cost exports, or query the Cost Management API without exports.

    Exports of any agreement (Enterprise, Microsoft Customer, pay-as-you-go) and language, CSV or Parquet, compressed or not,
    from files, directories or https://<account>.blob.core.windows.net/<container>/<directory>. Amortized and actual exports of
    one month are two views of one bill and never add up: amortized cost is the effective cost, actual cost adds the
    purchases of commitments. Without paths and exports, the API is queried for azure.cost_scope, one month at a time.

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
        float | None,
        Option("GiB that one month's query may read (default: gcp.max_gib).", "NUMBER", above=True),
    ] = None,
    estimate: Annotated[bool, Option("Only estimate how much the queries would read.")] = False,
    force: ForceOption = False,
) -> None:
    """Load Google Cloud's detailed usage cost export, from BigQuery or from files.

    From BigQuery (gcp.billing_table): whole invoice months with corrections. The size of each query is estimated and printed
    before it runs; a query over the limit is refused. From files or gs://bucket/prefix: CSV, JSON lines or Parquet,
    compressed or not, flat or nested; the files of a month belong together. Loading a month again replaces it.

    \b
    Examples:
      gpucost collect gcp
      gpucost collect gcp --month 2026-10 --estimate
      gpucost collect gcp exports/2026-10/*.json.gz
      gpucost collect gcp gs://my-bucket/billing
    """
    if estimate:
        if not call.settings.gcp.billing_table:
            raise UsageError("gcp.billing_table is missing", "set gcp.billing_table in gpucost.toml")
        for name in queried_months(month, call.now):
            bigquery(call, name, max_gib).estimate()
        return
    run_bills(call, "gcp", paths, force=force, months=month, max_gib=max_gib)


@command()
def collect_focus(call: Call, paths: PathsArgument = (), force: ForceOption = False) -> None:
    """Load FOCUS cost and usage files, 1.0 to 1.4, of any provider; OCI's cost reports; and OpenAI's and Anthropic's costs.

    CSV and Parquet, compressed or not, with columns spelled as in the specification or in snake case, and saved answers of
    OpenAI's and Anthropic's cost APIs, from files, directories or s3://bucket/prefix. A file replaces the stored bill with
    the same charges. A file older or smaller than the stored bill is listed and skipped; if you named that file, the exit
    code is 1.

    \b
    Examples:
      gpucost collect focus focus-2026-10.csv
      gpucost collect focus exports/focus/
      gpucost collect focus s3://my-bucket/focus
      gpucost collect focus openai-2026-10.csv
    """
    run_bills(call, "focus", paths, force=force)


_SHOWN = {
    "slurm_nodes": "nodes", "slurm_events": "node events", "slurm_reservations": "reservations", "slurm_accounts": "accounts",
    "slurm_shares": "shares", "slurm_devices": "job nodes with their GPUs",
}  # fmt: skip


@command()
def collect_slurm(
    call: SpanCall,
    paths: Annotated[
        tuple[Path, ...],
        argument("[FILE]...", "Output of sacct, scontrol, sacctmgr or sshare; text may be gzipped."),
    ] = (),
    cluster: Annotated[str | None, Option("Cluster name for files without one.", "NAME")] = None,
    fields: Annotated[str | None, Option("Fields of files without a header.", "A,B,C")] = None,
    delimiter: Annotated[str | None, Option("Field delimiter (default: as in the header).", "TEXT")] = None,
    sacct: Annotated[str | None, Option('Command to query, such as "ssh login sacct".', "COMMAND")] = None,
    slurmrestd: Annotated[
        str | None, Option("Address of slurmrestd; SLURM_JWT contains its token.", "URL")
    ] = None,
    timezone: Annotated[
        str | None, Option("Time zone of times without an offset (default: UTC).", "ZONE")
    ] = None,
) -> None:
    """Load Slurm's accounting: jobs, nodes, reservations and accounts.

    Jobs: the text of sacct with any list of fields that includes JobID, State, Start, End (or Elapsed) and AllocTRES, or its
    JSON. Nodes and accounts: scontrol show node, reservation and job -d (--oneliner or --json), sinfo --json, sacctmgr show
    event, sacctmgr show assoc tree and sshare (--parsable2 or --json). Loading a file twice changes nothing. Newer data of
    a running job replaces older data, in any order of loading. If a file is invalid, nothing is loaded.

    Without files: query Slurm with --sacct, --slurmrestd or [slurm] in gpucost.toml, one day at a time. The first run collects
    the current month; later runs start late_days before the last collected job.

    Without --from and --to, the collected period of files lasts from the first start to the last time of any job.

    \b
    A command for jobs and their nodes:
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
        _query_slurm(call, sacct, slurmrestd, cluster)
        return
    if sacct or slurmrestd:
        raise UsageError("files exclude --sacct and --slurmrestd", "leave out the options, or the files")
    form = SacctFormat(
        tuple(name.strip() for name in fields.split(",")) if fields else None,
        _unescaped(delimiter),
        cluster,
        _zone(timezone),
    )
    results, changed = import_files(call.store, paths, form, call.explicit_period, call.now)
    for result in results:
        _print_slurm(call, result)
    if not changed:
        call.say("no new data")


def _query_slurm(call: Call, sacct: str | None, slurmrestd: str | None, cluster: str | None) -> None:
    from gpucost.collect.slurm.collector import collect

    settings = call.settings.slurm
    if sacct and slurmrestd:
        raise UsageError("--sacct and --slurmrestd exclude each other", "leave out one")
    if sacct or slurmrestd:
        settings = settings.model_copy(update={"sacct": sacct, "slurmrestd": slurmrestd})
    if cluster:
        settings = settings.model_copy(update={"cluster": cluster})
    with collector_bars(call) as progress:
        result = collect(call.store, settings, call.explicit_period, call.tz, call.now, progress)
    _print_slurm(call, result)
    if result.purged:
        call.note(
            f"  warning: slurmdbd has deleted the jobs of {result.purged} (PurgeJobAfter): this time counts as not collected"
        )
    for error in result.failed:
        print_error(error.message, error.fix)


def _unescaped(text: str | None) -> str | None:
    r"""The delimiter with its escapes read: \t and \x1f are one character."""
    try:
        return text and text.encode("latin-1", "backslashreplace").decode("unicode_escape")
    except UnicodeDecodeError:
        raise UsageError(f"invalid --delimiter {text!r}", r"--delimiter '\x1f'") from None


def _zone(name: str | None) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError):
        raise UsageError(f"invalid --timezone {name!r}", "use an IANA name, such as Europe/Berlin") from None


def _print_slurm(call: Call, result: SlurmResult) -> None:
    for cluster, span in result.clusters.items():
        call.say(f"{result.source}: {result.runs:,} job runs of {cluster}, {span}")
    if not result.clusters and not result.facts:
        call.say(f"{result.source}: no jobs")
    for table, rows in result.facts.items():
        call.say(f"{result.source}: {rows:,} {_SHOWN[table]}")
    if result.notes.is_open:
        call.note(f"  warning: the last line of {result.source} has no end: the file may be cut off")
    if result.notes.has_local_times:
        call.note(
            "  warning: times without an offset were read in the zone of --timezone (default: UTC)\n"
            "    fix: run sacct with TZ=UTC SLURM_TIME_FORMAT=%s"
        )
