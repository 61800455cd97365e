"""`gpucost lake`: raw data as Parquet files by cluster and day, and figures made of them where they lie."""

from __future__ import annotations

from contextlib import nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucost.cli.command import Call, argument, command, option
from gpucost.errors import ConfigError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from gpucost.lake.attribution import Engine

Url = Annotated[str | None, argument("[URL]", "A folder, s3://…, gs://… or abfss://…; without it [lake] url of the config.")]


class EngineName(StrEnum):
    """Where tasks run."""

    local = "local"
    spark = "spark"


@command("*")
def lake_export(
    call: Call,
    url: Url = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Look at every day, also where no load touched it since the last export.")
    ] = False,
) -> None:
    """Write what the store holds into a lake: Parquet files by cluster and day.

    Only what differs is written, and each cluster's day is seen whole or not at all. A run that was ended goes on where it
    stopped. A day has one writer: where another store wrote it, nothing of that cluster is written, and both are named.

    \b
    Examples:
      gpucost lake export /mnt/lake
      gpucost lake export s3://finops/gpucost
    """
    from gpucost.cli.setup import size
    from gpucost.lake import transfer
    from gpucost.lake.files import open_files

    files = open_files(lake_url(call, url), call.settings)
    with call.status() as tell:
        done = transfer.export(call.settings, call.store, files, everything=everything, tell=tell)
    call.say(
        f"{files.shown()}: {done.partitions:,} partitions written ({done.files:,} files, {done.rows:,} rows, {size(done.size)}), "
        f"{done.unchanged:,} as they were"
    )
    for cluster in done.strangers:
        call.note(f"note: cluster {cluster} is in the lake and no more in the store: it stays; gpucost lake drop takes it out")


@command("cluster *")
def lake_import(call: Call, url: Url = None) -> None:
    """Fill the store with what a lake holds, of all clusters or of those that are named.

    What the store had of such a cluster is replaced; nothing is changed where that would lose what the lake does not have.

    \b
    Examples:
      gpucost lake import /mnt/lake --store copy.duckdb
      gpucost lake import s3://finops/gpucost --cluster prod
    """
    from gpucost.lake import manifest, transfer
    from gpucost.lake.files import open_files

    lake = manifest.read(open_files(lake_url(call, url), call.settings))
    with call.status() as tell:
        rows = transfer.import_lake(call.store, lake, call.clusters, tell=tell)
    listed = ", ".join(f"{count:,} {name}" for name, count in rows.items() if count)
    call.say(f"{call.store.path}: {listed or 'nothing is there'}")


@command("*")
def lake_attribute(
    call: Call,
    url: Url = None,
    engine: Annotated[
        EngineName | None, option("--engine", "local|spark", "Processes here, or a Spark cluster; else as [engine] says.")
    ] = None,
) -> None:
    """Price and attribute what a lake holds, day by day and cluster by cluster; figures are as a store's.

    Only what changed is made anew. Until all of it is there, readers see the figures from before. `gpucost report --lake URL`
    reads them.

    \b
    Examples:
      gpucost lake attribute /mnt/lake
      gpucost lake attribute s3://finops/gpucost --engine spark
    """
    from gpucost.lake.attribution import attribute

    address = lake_url(call, url)
    with _engine(call, engine) as make, call.status() as tell:
        done = attribute(call.settings, address, make, tell)
    tasks = sum(done.done.values())
    call.say(f"{done.days:,} days attributed, {done.unchanged['attribute']:,} as they were ({tasks:,} tasks, {done.rows:,} rows)")


def _engine(call: Call, name: EngineName | None) -> AbstractContextManager[Any]:
    """What makes the engine that is asked for."""
    settings = call.settings.engine
    if (name or settings.name) == "local":
        from gpucost.engine.local import LocalEngine

        def local(_: Any) -> Engine:
            return LocalEngine(settings.workers)

        return nullcontext(local)
    from gpucost.engine.spark import engine

    return engine(settings.spark_master, settings.spark_options)


@command("* written")
def lake_info(call: Call, url: Url = None) -> None:
    """Show what a lake holds: by cluster and writer the days, rows and bytes.

    \b
    Examples:
      gpucost lake info /mnt/lake
    """
    from gpucost.lake import manifest
    from gpucost.lake.files import open_files

    files = open_files(lake_url(call, url), call.settings)
    manifests = manifest.all_of(files)
    if not manifests:
        raise manifest.no_lake(files)
    rows = []
    for one in manifests:
        days = sorted(day for day in one.days if day)
        written = [file for tables in one.days.values() for file in tables.values()]
        rows.append(
            (one.cluster or "(bills and prices)", one.writer, days[0] if days else None, days[-1] if days else None, len(days),
             sum(file.rows for file in written), sum(file.size for file in written))
        )  # fmt: skip
    rows.sort(key=lambda row: (str(row[0]), str(row[1])))
    call.write_rows(("cluster", "writer", "first_day", "last_day", "days", "rows", "bytes"), rows)


@command("*")
def lake_drop(
    call: Call,
    writer: Annotated[str, option("--writer", "NAME", "Whose files; gpucost lake info names the writers.")],
    url: Url = None,
    cluster: Annotated[str | None, option("--cluster", "NAME", "Only this cluster's.")] = None,
) -> None:
    """Take out of a lake what one writer wrote; raw data that only the lake has is lost by that.

    \b
    Examples:
      gpucost lake drop /mnt/lake --writer old-collector
      gpucost lake drop /mnt/lake --writer old-collector --cluster prod
    """
    from gpucost.lake import transfer
    from gpucost.lake.files import open_files

    files = open_files(lake_url(call, url), call.settings)
    call.say(f"{files.shown()}: {transfer.drop(files, writer, cluster):,} partitions of {writer} dropped")


def lake_url(call: Call, url: str | None) -> str:
    """The lake that is meant. Raises ConfigError where none is."""
    address = url or call.settings.lake.url
    if not address:
        raise ConfigError("no lake is named", "gpucost lake … URL, or url under [lake] in gpucost.toml")
    return address
