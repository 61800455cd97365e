"""Which log of calls a file is, and what its calls come to as series of work."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from typing import TYPE_CHECKING

from gpucost import inputs
from gpucost.errors import DataError, SourceError
from gpucost.store.call_files import LogFile, column_of
from gpucost.store.progress import ProgressBatch, ProgressSeries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Literal

    from gpucost.config.model import CallLog
    from gpucost.store.call_files import CallReader, CallSums

# How rotated files are called: calls.jsonl.1, calls.jsonl.2.gz, calls.csv-20261101.
_SUFFIX = re.compile(r"(\.(?:csv|jsonl|ndjson|json|parquet))(?:[.-][0-9]+|\.gz)*$")
# The columns of work by rows.
NEEDED = ("workload", "time", "unit", "value")


def suffix(path: Path) -> str:
    """What kind of file a name says it is, rotated or compressed: ".csv", ".jsonl", ".ndjson", ".json", ".parquet", else ""."""
    found = _SUFFIX.search(path.name)
    return found.group(1) if found else ""


def recognize(reader: CallReader, path: Path, logs: Sequence[CallLog], name: str | None) -> LogFile | None:
    """The log that a file is by its columns, the first that fits, or the one of that name; None for a file of work by rows.

    Raises SourceError for a file that cannot be read, DataError for one that is most like a log of calls, and lacks columns.
    """
    start, gzipped = _start(path)
    kind: Literal["csv", "parquet", "jsonl", "array"] = "jsonl"
    if start.startswith(b"PAR1"):
        kind = "parquet"
    elif suffix(path) == ".csv":
        kind = "csv"
    elif start.lstrip().startswith(b"["):
        kind = "array"
    header = _csv_header(path, gzipped=gzipped) if kind == "csv" else reader.header(path, kind)
    plain = kind in ("csv", "jsonl") and not gzipped
    if name is None and (not header or set(NEEDED) <= set(header)):
        if header and not plain:
            raise DataError(f"{path}: work by rows is read from plain CSV and JSON lines alone", "write it as one of these")
        return None
    lacks = {log.name: [names[0] for names in _needed(log) if not any(column_of(one, header) for one in names)] for log in logs}
    nearest = min((log for log in logs if name in (None, log.name)), key=lambda log: len(lacks[log.name]))
    missing = lacks[nearest.name]
    # what is as near to work by rows is told what that lacks
    if missing and name is None and plain and sum(one not in header for one in NEEDED) <= len(missing):
        return None
    if missing:
        raise DataError(
            f"{path}: there is no column {' and no column '.join(missing)}, as a log of calls of {nearest.name} has",
            f"map the file's columns under [[call_logs]], or give it the columns {', '.join(NEEDED)}; nothing was loaded",
        )
    return LogFile(path, kind, gzipped, header, nearest)


def _needed(log: CallLog) -> list[list[str]]:
    """Of each column that a log of calls needs, the names that it may have."""
    return [log.time, log.model, log.prompt_tokens, log.generation_tokens]


def _start(path: Path) -> tuple[bytes, bool]:
    """The first bytes of a file, decompressed where it is gzip, and whether it is. Raises SourceError where it cannot be read."""
    try:
        with path.open("rb") as file:
            start = file.read(1 << 12)
        if not start.startswith(b"\x1f\x8b"):
            return start, False
        with gzip.open(path) as packed:
            return packed.read(1 << 12), True
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{path} breaks off: it is no whole .gz; nothing was loaded", "fetch the file again") from None
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}") from None


def _csv_header(path: Path, *, gzipped: bool) -> list[str]:
    """The first row of a CSV; nothing where it is none."""
    try:
        with gzip.open(path, "rt", encoding="utf-8-sig") if gzipped else path.open(encoding="utf-8-sig") as file:
            return next(csv.reader(inputs.lines(file, str(path)), strict=True), [])
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error):
        return []


def batch(file: LogFile, sums: CallSums) -> ProgressBatch:
    """The sums as events, of each file by itself: a call is in the sums of one alone."""
    events = ProgressBatch()
    for series, at_ms, values in sums.series:
        unit, model, tenant, team, provider, api_base, currency, is_failure = series
        one = ProgressSeries(
            mapping=file.log.name, unit=unit, kind="event", labels=(("file", file.source),), model=model,
            is_failure=is_failure, tenant=tenant, gateway=file.gateway, team=team, provider=provider, api_base=api_base,
            currency=currency,
        )  # fmt: skip
        events.add(one, at_ms, values)
    return events
