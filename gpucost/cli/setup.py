"""Commands for setup and inspection: config show, demo, doctor, init, schema, sql, store."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections import Counter
from contextlib import nullcontext
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucost import discover, disk
from gpucost.cli.command import BriefCall, Call, RowsCall, TargetCall, command
from gpucost.cli.output import has_colors, made_folder, print_text, waiting, write_page
from gpucost.errors import ConfigError, StoreError
from gpucost.options import Option, argument
from gpucost.periods import Period, name_of
from gpucost.render.rows import RowFormat, render_rows
from gpucost.resources import shipped
from gpucost.texts import bytes_text, readable_json, visible

if TYPE_CHECKING:
    from gpucost.config.model import Config
    from gpucost.doctor import SetupCheck


@command()
def config_show(call: RowsCall) -> None:
    """Show every effective setting and its source.

    Secrets are not read. Values of headers and Spark options, and logins and queries in URLs, are hidden.

    \b
    Examples:
      gpucost config show
      GPUCOST_TIMEZONE=Europe/Berlin gpucost config show --format json
    """
    from gpucost.config.files import places
    from gpucost.config.load import resolved

    looked = ", ".join(map(str, places(os.environ, Path.cwd())))
    call.note(f"config file: {call.settings.path or f'none (searched: {looked}); gpucost init writes one'}")
    call.write_rows(("key", "value", "from"), resolved(call.settings))


# Lines to copy into a shell.
_NEXT = """
to explore it:
{path}  gpucost demo --keep ./gpucost-demo
for your own fleet:
  gpucost init"""
_NEXT_KEPT = """
to explore it:
{path}  cd {folder}
  gpucost report --team product
  gpucost report --by namespace,gpu_model
  gpucost reconcile --month {billed}
  gpucost chargeback --month {billed} --out chargeback
  gpucost whatif reserve
  gpucost budget check
  gpucost unit epoch
  gpucost unit tokens
  gpucost waste
  gpucost findings
  gpucost queue
  gpucost sql "from charges"
  gpucost prices tco onprem.toml
  gpucost collect progress work.csv
  gpucost collect focus openai-*.csv
change prices.csv or gpucost.toml there and report again; for your own fleet, start with gpucost init"""


def _path() -> str:
    """The line that adds this program to the PATH; empty if a shell finds it already."""
    program, installed = Path(sys.argv[0]).absolute(), shutil.which("gpucost")
    if program.name != "gpucost" or (installed and program.samefile(installed)):
        return ""
    return f'  export PATH={shlex.quote(str(program.parent))}:"$PATH"\n'


@command(without="config store")
def demo(
    call: Call,
    keep: Annotated[
        Path | None, Option("Keep the store, config, bill, price book and example files in DIR.", "DIR")
    ] = None,
) -> None:
    """Load, price, attribute and report two months of a sample fleet: metrics, Slurm jobs and a bill.

    The first month has a bill, the second is an estimate. Needs no network and no credentials. Without --keep, deletes the
    files at the end.

    \b
    Examples:
      gpucost demo
      gpucost demo --keep ./gpucost-demo
    """
    from gpucost.demo.build import build, last_months

    billed, estimated = last_months(call.now)
    with nullcontext(keep.expanduser()) if keep else disk.temporary() as folder:
        config = build(folder, billed, estimated, call.note)
        call.note("attributing every GPU-hour")
        _report(config, estimated)
        print_text()
        _report(config, estimated, "research")
    lines = _NEXT_KEPT if keep else _NEXT
    call.note(lines.format(path=_path(), folder=shlex.quote(str(keep)), billed=f"{billed.start:%Y-%m}"))


def _report(config: Config, month: Period, *teams: str) -> None:
    from gpucost.questions.report.query import Query
    from gpucost.questions.report.reading import report
    from gpucost.store.connection import Store

    query = Query(period=month, period_name=name_of(month, config.tz), teams=teams)
    write_page(report(config, Store.of(config), query), None)


@command()
def doctor(call: BriefCall) -> None:
    """Check the setup, and print a fix for each problem.

    Checks the config, the store, each Prometheus, each required metric and label, and prices. Each problem comes with the
    command or setting that fixes it. Exit code 1 if a check failed; warnings alone exit with 0. -q prints only problems.

    \b
    Examples:
      gpucost doctor
      gpucost doctor -q
      gpucost doctor --format json
    """
    from gpucost.doctor import Status, examine

    checks = []
    area = ""
    for check in examine(call.config_file, call.store_file, call.now):
        checks.append(check)
        if call.format == "table" and not (call.quiet and check.status is Status.ok):
            if check.area != area:
                area = check.area
                print_text(("\n" if len(checks) > 1 else "") + area)
            _print(check)
    count = Counter(check.status for check in checks)
    if call.format == "json":
        print_text(readable_json([asdict(check) for check in checks], indent=2))
    elif not call.quiet:
        print_text(f"\n{count[Status.ok]} ok, {count[Status.warn]} to check, {count[Status.fail]} failed")
    if count[Status.fail]:
        raise typer.Exit(1)


def _print(check: SetupCheck) -> None:
    mark, color = {"ok": ("✓", "32"), "warn": ("!", "33"), "fail": ("✗", "31")}[check.status]
    if has_colors(sys.stdout):
        mark = f"\033[{color}m{mark}\033[0m"
    lines = check.found.splitlines() or [""]
    if check.fix and check.status != "ok":
        lines.append(f"fix: {check.fix}")
    print_text(
        f"  {mark} {check.status:<4}  "
        + visible("\n          ".join([f"{check.subject}: {lines[0]}", *lines[1:]]))
    )


@command()
def init(
    call: Call,
    url: Annotated[str | None, Option("URL of your Prometheus (default: search for one).", "URL")] = None,
    yes: Annotated[
        bool, Option("Do not prompt; without a server, [prometheus] stays a comment.", also="-y")
    ] = False,
    force: Annotated[bool, Option("Overwrite the file.")] = False,
) -> None:
    """Write a commented gpucost.toml to start from.

    Searches for a Prometheus on this machine, in PROMETHEUS_URL and, inside a pod, in the cluster. Prompts for a URL only
    if none is found.

    \b
    Examples:
      gpucost init
      gpucost init --yes --url https://prometheus.example.com
      gpucost init --config ~/.config/gpucost/gpucost.toml
    """
    from pydantic import ValidationError

    from gpucost.collect.slurm.sacct import sacct_command
    from gpucost.config.files import FILE_NAME
    from gpucost.config.load import plain_words
    from gpucost.config.model import PrometheusSource, shown_url

    target = (call.config_file or Path(FILE_NAME)).expanduser()
    if target.is_dir():
        target = target / FILE_NAME
    if target.exists() and not force:
        raise ConfigError(
            f"{target} already exists",
            "run gpucost init --force to overwrite it, or --config FILE to write another file",
        )
    near = filter(None, map(discover.probe, discover.candidates(os.environ)))
    server = discover.probe(url.rstrip("/")) if url else next(near, None)
    if server and not url:
        url = server.url
    if not url:
        may_ask = not yes and sys.stdin.isatty()
        call.note("found no Prometheus on this machine" + ("" if may_ask else ": set url under [prometheus]"))
        waiting.stop()
        if may_ask:
            url = str(typer.prompt("URL of your Prometheus", default=discover.LOCAL, err=True))
            server = discover.probe(url.rstrip("/"))
    try:
        url = url and PrometheusSource(url=url).url
    except ValidationError as error:
        reason = plain_words(error.errors()[0])
        raise ConfigError(
            f"invalid URL {shown_url(url or '')}: {reason}", "use --url http://HOST:PORT"
        ) from None
    store = str(call.store_file or "gpucost.duckdb")
    _write(target, {"url": url, "timezone": discover.timezone(), "store": store})
    print_text(visible(f"wrote {target}"))
    if url and server is None:
        call.note(f"note: no Prometheus answers at {url} yet")
    elif server and server.needs_login:
        call.note(f"note: {url} needs a login; set a token file or password under [prometheus]")
    elif server:
        call.note(f"found {url}" + (f", version {server.version}" if server.version else ""))
    forgets = f" after {server.retention}" if server and server.retention else ", by default after 15 days"
    cron = f"15 2 * * *  {shutil.which('gpucost') or 'gpucost'} collect prometheus -q --config {target.resolve()}"
    call.note(
        _ADVICE.format(forgets=forgets, cron=cron, billed=sacct_command(), placed=sacct_command(steps=True))
    )


_ADVICE = """
Prometheus deletes data{forgets}. Collect every day, for example by cron:
  {cron}

next:
  gpucost doctor
  gpucost collect prometheus
  gpucost report

for a Slurm cluster: gpucost collect slurm --sacct sacct, or write a file and load it with gpucost collect slurm jobs.psv
  # billed jobs
  {billed} > jobs.psv
  # billed jobs with their nodes and GPUs
  {placed} > jobs.psv"""


def _write(target: Path, answers: dict[str, str | None]) -> None:
    """Write the commented file.

    The server is a comment if none was found.
    """
    text = shipped("cli/starter.toml")
    if not answers["url"]:
        text = text.replace('[prometheus]\nurl = "@url@"', f'# [prometheus]\n# url = "{discover.LOCAL}"')
    for name, answer in answers.items():
        text = text.replace(f'"@{name}@"', json.dumps(answer, ensure_ascii=False))
    made_folder(target.parent, "--config names another file")
    # somebody may write a password into it
    with disk.atomic_write(target, disk.PRIVATE) as part:
        part.write_text(text, "utf-8")


@command(without="config store")
def schema(
    call: TargetCall,
    name: Annotated[str | None, argument("[NAME]", "Name of the answer (default: list all names).")] = None,
) -> None:
    """Print the JSON Schema of an answer in --format json, or list the names of all answers.

    An answer's key `schema` names its schema and version: for gpucost.report/1, run `gpucost schema report`. The number grows
    when a property is renamed, removed or changes its meaning.

    \b
    Examples:
      gpucost schema
      gpucost schema report
      gpucost schema unit.epoch -o epoch.schema.json
    """
    from gpucost.questions import SCHEMAS, schema as schema_of

    text = "".join(f"{each}\n" for each in SCHEMAS) if name is None else schema_of(name)
    call.deliver(text, "JSON Schema")


@command()
def sql(
    call: RowsCall,
    statement: Annotated[str, argument("SQL", "SQL statement in DuckDB's dialect; - reads it from stdin.")],
) -> None:
    """Query the store in SQL, read-only.

    Runs SELECT, DESCRIBE, SHOW, SUMMARIZE and EXPLAIN for up to ten minutes, without access to other files or the network.
    Like a report, the command first brings costs up to date with the configuration.

    \b
    Examples:
      gpucost sql "select source, count(*) as series from series group by source"
      gpucost sql --format csv -o nodes.csv "from nodes"
      gpucost sql - < question.sql
    """
    call.write_rows(*call.attributed().query(sys.stdin.read() if statement == "-" else statement))


@command()
def store_info(call: BriefCall) -> None:
    """Show the store's contents by source, period and size.

    \b
    Examples:
      gpucost store info
      gpucost store info --store october.duckdb --format json
    """
    from gpucost.render.schema import table, to_json

    answer = call.store.info()
    if call.format == "json":
        call.write(to_json(answer, "store"))
        return
    merged = f", and {bytes_text(answer.wal_size)} not yet merged" if answer.wal_size else ""
    text = (
        f"store    {visible(str(answer.path))}\n"
        f"size     {bytes_text(answer.size)}{merged}\n"
        f"version  schema {answer.schema_version}, file format {answer.storage_version}\n"
        f"content  {answer.samples:,} activity samples in hour blocks, {answer.states:,} runs of constant state\n\n"
    )
    if answer.sources:
        text += render_rows(*table(answer.sources), RowFormat.table, call.width)
    else:
        text += "the store is empty: run gpucost collect prometheus\n"
    if answer.dropped:
        text += "\ndropped as invalid:\n" + render_rows(*table(answer.dropped), RowFormat.table, call.width)
    if call.verbose:
        text += "\n" + render_rows(*table(answer.tables), RowFormat.table, call.width)
    call.write(text)


@command()
def store_compact(call: Call) -> None:
    """Rewrite the store without the space of replaced rows.

    With `[store] raw_retention_days`, drops old samples that no figure needs. These days can still be reported, and attributed
    again with other teams and prices, but not with another idle threshold (docs/store.md). The old file stays until the new
    one is complete.

    \b
    Examples:
      gpucost store compact
      gpucost store compact --store october.duckdb
    """
    from gpucost import pipeline

    before, after = pipeline.compact(call.settings, call.store, call.now)
    call.note(f"{call.store.path}: {bytes_text(before)} before, {bytes_text(after)} now")


@command()
def store_backup(
    call: Call, target: Annotated[Path, argument("FILE", "File to write; an existing file is replaced.")]
) -> None:
    """Write a consistent copy of the store; readers go on, writers wait.

    The copy is compared with the store and then moved into place in one step. To restore it, copy it over the store.

    \b
    Examples:
      gpucost store backup /backup/gpucost-2026-11-01.duckdb
    """
    from gpucost.store.upkeep import backup

    backup(call.store, target.expanduser())
    call.note(f"{target}: {bytes_text(target.expanduser().stat().st_size)}")


@command()
def store_log(call: RowsCall) -> None:
    """List the store's changes, oldest first: loads, seals of closed months, restated figures with their reasons, compactions.

    \b
    Examples:
      gpucost store log
      gpucost store log --format csv -o log.csv
    """
    from gpucost.store import log

    with call.store.read() as con:
        entries = log.entries(con)
    columns = ("at", "what", "subject", "detail")
    call.write_rows(columns, [attrgetter(*columns)(entry) for entry in entries])


@command()
def store_check(call: RowsCall) -> None:
    """Read the whole store and check its sums, order, references, and the inputs of attributed days.

    Exit code 1 if a check fails. -q prints only failed checks.

    \b
    Examples:
      gpucost store check
      gpucost store check -q --format json
    """
    from gpucost import pipeline

    checks = pipeline.check(call.settings, call.store)
    wrong = [each for each in checks if each.wrong]
    rows = [
        (
            each.what,
            "wrong" if each.wrong else "ok" if each.is_made else "not checked",
            each.wrong,
            each.example,
        )
        for each in checks
        if each.wrong or not each.is_made or not call.quiet
    ]
    if rows:
        call.write_rows(("check", "result", "wrong_rows", "first"), rows)
    if wrong:
        raise StoreError(
            f"{len(wrong)} of {len(checks)} checks of the store {call.store.path} failed",
            "restore a backup, or collect into a new store",
        )
