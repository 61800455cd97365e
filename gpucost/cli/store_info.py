"""`gpucost store info`: what the store holds, by source, period and size."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpucost.cli._common import (
    ConfigOption,
    QuietOption,
    StoreOption,
    VerboseOption,
    handle_errors,
    load,
    output_file,
    put_or_write,
)
from gpucost.cli._rows import FormatOption, OutputOption, RowFormat, render_rows, write_rows

if TYPE_CHECKING:
    from gpucost.store import StoreInfo

SCHEMA = "gpucost.store/1"


@handle_errors
def store_info(
    format: FormatOption = RowFormat.table,
    output: OutputOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Say what the store holds, by source, period and size; as csv, parquet and markdown the sources alone.

    \b
    Examples:
      gpucost store info
      gpucost store info --store october.duckdb --format json
      gpucost store info --format csv -o sources.csv
    """
    _, opened = load(config, store)
    answer = opened.info()
    target = output_file(output)
    if format is RowFormat.json:
        text = json.dumps({"schema": SCHEMA} | asdict(answer), indent=2, default=_plain) + "\n"
    elif format is RowFormat.table:
        text = _text(answer, verbose=verbose)
    else:
        write_rows(
            ("source", "kind", "from", "to", "loads", "samples", "dropped", "last_loaded_at"), _sources(answer), format, target
        )
        return
    put_or_write(text, target)


def _sources(answer: StoreInfo) -> list[tuple[Any, ...]]:
    return [
        (s.source, s.kind, s.start, s.end, s.loads, s.rows, s.dropped, s.last_loaded_at.replace(microsecond=0))
        for s in answer.sources
    ]


def _text(answer: StoreInfo, *, verbose: bool) -> str:
    from gpucost.model import iso

    merged = f", and {size(answer.wal_size)} not yet merged" if answer.wal_size else ""
    parts = [
        f"store    {answer.path}\n",
        f"size     {size(answer.size)}{merged}\n",
        f"version  schema {answer.schema_version}, file format {answer.storage_version}\n",
        f"holds    {answer.samples:,} activity samples in hour blocks, {answer.states:,} runs of constant state\n\n",
    ]
    if answer.sources:
        columns = ("source", "kind", "from", "to", "loads", "samples", "dropped", "last load")
        rows = [[iso(value) if isinstance(value, datetime) else value for value in row] for row in _sources(answer)]
        parts.append(render_rows(columns, rows, RowFormat.table))
    else:
        parts.append("nothing was collected yet: gpucost collect prometheus\n")
    if answer.dropped:
        dropped = [(d.source, d.reason, d.metric, d.samples) for d in answer.dropped]
        parts += ["\nleft out as impossible:\n", render_rows(("source", "reason", "metric", "samples"), dropped, RowFormat.table)]
    if verbose:
        tables = [(table.name, table.rows) for table in answer.tables]
        parts += ["\n", render_rows(("table", "rows"), tables, RowFormat.table)]
    return "".join(parts)


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
