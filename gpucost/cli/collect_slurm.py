"""`gpucost collect slurm`: jobs, nodes and accounts of Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gpucost.cli.command import Call, SpanCall, command
from gpucost.cli.output import print_error
from gpucost.errors import UsageError
from gpucost.options import Option, argument

if TYPE_CHECKING:
    from gpucost.collect.slurm.collector import SlurmResult

_SHOWN = {
    "slurm_nodes": "nodes", "slurm_events": "events of nodes", "slurm_reservations": "reservations", "slurm_accounts": "accounts",
    "slurm_shares": "shares", "slurm_devices": "nodes of jobs with the GPUs that they have there",
}  # fmt: skip


@command()
def collect_slurm(
    call: SpanCall,
    paths: Annotated[
        tuple[Path, ...],
        argument("[FILE]...", "What sacct, scontrol, sinfo, sacctmgr and sshare wrote; text may be gzipped."),
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
    Of the rest: scontrol show node, reservation and job -d (--oneliner or --json), sinfo (--json, or with NODELIST and GRES
    among its columns), sacctmgr show event, sacctmgr show assoc tree and sshare (--parsable2 or --json). Loading a file twice
    changes nothing; a later answer replaces what an earlier one said of a job that still ran, in whichever order they come.
    One file that cannot be read, and none is loaded.

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
        _ask(call, sacct, slurmrestd, cluster)
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
    period = call.named_period[0] if call.named_period else None
    results, changed = import_files(call.store, paths, form, period, call.now)
    for result in results:
        _print(call, result)
    if not changed:
        call.say("nothing is new")


def _ask(call: Call, sacct: str | None, slurmrestd: str | None, cluster: str | None) -> None:
    from gpucost.collect.slurm.collector import collect

    settings = call.settings.slurm
    given: dict[str, str | None] = {"sacct": sacct, "slurmrestd": slurmrestd} if sacct or slurmrestd else {}
    settings = settings.model_copy(update={**given, **({"cluster": cluster} if cluster else {})})
    if sacct and slurmrestd:
        raise UsageError("--sacct and --slurmrestd are two ways to ask one Slurm", "leave out one")
    period = call.named_period[0] if call.named_period else None
    with call.progress_bar() as progress:
        result = collect(call.store, settings, period, call.tz, call.now, progress)
    _print(call, result)
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


def _print(call: Call, result: SlurmResult) -> None:
    for cluster, span in result.clusters.items():
        call.say(f"{result.source}: {result.runs:,} runs of jobs of {cluster}, {span}")
    if not result.clusters and not result.facts:
        call.say(f"{result.source}: no jobs")
    for table, rows in result.facts.items():
        call.say(f"{result.source}: {rows:,} {_SHOWN[table]}")
    if result.notes.repaired:
        call.note(
            f"  note: names with the delimiter or a new line in them: {result.notes.repaired:,}, put together"
        )
    if result.notes.is_open:
        call.note(f"  warning: {result.source} does not end its last line: it may be cut off")
    if result.notes.has_local_times:
        call.note(
            "  warning: times without an offset were read as --timezone says, else as UTC\n"
            "    fix: run sacct with TZ=UTC SLURM_TIME_FORMAT=%s"
        )
