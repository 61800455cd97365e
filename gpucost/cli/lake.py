"""`gpucost lake`: raw data as Parquet files by cluster and day, and the figures made of them."""

from contextlib import nullcontext
from typing import Annotated, Literal

from gpucost.cli.command import Call, RowsCall, command
from gpucost.errors import ConfigError
from gpucost.options import Option, argument
from gpucost.texts import bytes_text

Url = Annotated[
    str | None,
    argument("[URL]", "A folder, s3://…, gs://… or abfss://… (default: [lake] url of the config)."),
]


# The engine for tasks.
EngineName = Literal["local", "spark"]


@command()
def lake_export(
    call: Call,
    url: Url = None,
    everything: Annotated[
        bool, Option("Also check days without a new load, and replace broken files.", flag="--all")
    ] = False,
) -> None:
    """Export the store into a lake: Parquet files by cluster and day.

    Only new and changed days are written. Readers see all changes of a cluster at once; after an interrupted export they see
    the earlier state. Several stores can export into one lake, but a cluster's day has one writer: if another store wrote it, the
    export of that cluster fails and names both.

    \b
    Examples:
      gpucost lake export /mnt/lake
      gpucost lake export s3://finops/gpucost
    """
    from gpucost.lake.export import export
    from gpucost.lake.files import open_files

    files = open_files(lake_url(call, url), call.settings)
    with call.status() as show_progress:
        done = export(call.settings, call.store, files, everything=everything, show_progress=show_progress)
    rows, written = sum(file.rows for file in done.files), bytes_text(sum(file.size for file in done.files))
    call.say(
        f"{files.label()}: {done.partitions:,} partitions written ({len(done.files):,} files, {rows:,} rows, {written}), "
        f"{done.unchanged:,} as they were"
    )


@command()
def lake_attribute(
    call: Call,
    url: Url = None,
    engine: Annotated[
        EngineName | None,
        Option("In this process, or on a Spark cluster (default: [engine] name).", "local|spark"),
    ] = None,
) -> None:
    """Price and attribute a lake, by cluster and day; the figures equal those of a store.

    Only changes are attributed again. Readers (`gpucost report --lake URL`) see the new figures once all of them are written, and
    the earlier ones until then.

    \b
    Examples:
      gpucost lake attribute /mnt/lake
      gpucost lake attribute s3://finops/gpucost --engine spark
    """
    from gpucost.engine import spark
    from gpucost.lake.attribution import attribute

    address, settings = lake_url(call, url), call.settings.engine
    is_local = (engine or settings.name) == "local"
    opened = nullcontext() if is_local else spark.session(settings.spark_master, settings.spark_options)
    with opened as session, call.status() as show_progress:
        done = attribute(call.settings, address, session, show_progress)
    tasks = sum(done.done.values())
    call.say(
        f"{done.days:,} days attributed, {done.unchanged:,} as they were ({tasks:,} tasks, {done.rows:,} rows)"
    )


@command()
def lake_info(call: RowsCall, url: Url = None) -> None:
    """Show a lake's contents: days, rows and bytes by cluster and writer.

    \b
    Examples:
      gpucost lake info /mnt/lake
    """
    from gpucost.lake import manifest
    from gpucost.lake.files import open_files

    files = open_files(lake_url(call, url), call.settings)
    manifests = manifest.load(files).manifests
    if not manifests:
        raise manifest.no_lake(files)
    rows = []
    for partition in manifests:
        days = [day for day in partition.days if day]
        first, last = min(days, default=None), max(days, default=None)
        size, lines = sum(file.size for file in partition.files), sum(file.rows for file in partition.files)
        rows.append(
            (partition.cluster or "(bills and prices)", partition.writer, first, last, len(days), lines, size)
        )
    rows.sort(key=lambda row: row[:2])
    call.write_rows(("cluster", "writer", "first_day", "last_day", "days", "rows", "bytes"), rows)


def lake_url(call: Call, url: str | None) -> str:
    """The lake's address. Raises ConfigError without one."""
    address = url or call.settings.lake.url
    if not address:
        raise ConfigError(
            "lake address missing", "run gpucost lake … URL, or set url under [lake] in gpucost.toml"
        )
    return address
