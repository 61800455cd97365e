"""`gpucost store info`: what the store holds, by source, period and size."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors, load, put
from gpucost.cli._rows import RowFormat, write_rows

if TYPE_CHECKING:
    from gpucost.store import StoreInfo


class InfoFormat(StrEnum):
    """How the answer is written."""

    table = "table"
    json = "json"


@handle_errors
def store_info(
    format: Annotated[InfoFormat, typer.Option("--format", help="How to write it.")] = InfoFormat.table,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Say what the store holds, by source, period and size.

    \b
    Examples:
      gpucost store info
      gpucost store info --store october.duckdb --format json
    """
    _, opened = load(config, store)
    answer = opened.info()
    if format is InfoFormat.json:
        put(json.dumps(asdict(answer), indent=2, default=_plain))
    else:
        _print(answer, verbose=verbose)


def _print(answer: StoreInfo, *, verbose: bool) -> None:
    from gpucost.model import iso

    put(f"store    {answer.path}")
    put(f"size     {size(answer.size)}" + (f", and {size(answer.wal_size)} not yet merged" if answer.wal_size else ""))
    put(f"version  schema {answer.schema_version}, file format {answer.storage_version}")
    put(f"holds    {answer.samples:,} activity samples in hour blocks, {answer.states:,} runs of constant state\n")
    if answer.sources:
        columns = ("source", "kind", "from", "to", "loads", "samples", "dropped", "last load")
        rows = [
            (s.source, s.kind, iso(s.start), iso(s.end), s.loads, s.rows, s.dropped, iso(s.last_loaded_at.replace(microsecond=0)))
            for s in answer.sources
        ]
        write_rows(columns, rows, RowFormat.table, None)
    else:
        put("nothing was collected yet: gpucost collect prometheus")
    if answer.dropped:
        put("\nleft out as impossible:")
        dropped = [(d.source, d.reason, d.metric, d.samples) for d in answer.dropped]
        write_rows(("source", "reason", "metric", "samples"), dropped, RowFormat.table, None)
    if verbose:
        put()
        write_rows(("table", "rows"), [(table.name, table.rows) for table in answer.tables], RowFormat.table, None)


def size(count: int) -> str:
    """Bytes as people read them, in powers of 1024."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def _plain(value: Any) -> str:
    from gpucost.model import iso

    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no JSON")
