"""Read completed work from CSV and JSONL files: one row per workload, time and amount."""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from gpucost import inputs
from gpucost.collect.base import period_of
from gpucost.collect.progress.mappings import UNITS, levels, unit_of
from gpucost.collect.prometheus.parse import Garbled, whole_json
from gpucost.errors import DataError, SourceError, UsageError
from gpucost.periods import Period, to_ms
from gpucost.records import frozen_dataclass, grouped
from gpucost.store import runs
from gpucost.store.connection import Store
from gpucost.store.progress import ALWAYS, ProgressBatch, ProgressLoad, ProgressSeries, load_values

KIND = "progress"
NEEDED = ("workload", "time", "unit", "value")
TEXTS = ("cluster", "namespace", "pod", "workload", "model")
_NEEDS = f"required columns: {', '.join(NEEDED)}; optional: cluster, namespace, pod, model, run, kind, failed"
SUFFIXES = (".csv", ".jsonl", ".ndjson")
KINDS = ("event", "counter", "gauge")


@frozen_dataclass
class FileResult:
    """The result of one file; `period` is from its first to its last time, `own_units` are units not in
    UNITS.
    """

    path: Path
    period: Period
    load: ProgressLoad
    own_units: tuple[str, ...]


def import_files(store: Store, paths: Sequence[Path], tz: ZoneInfo) -> list[FileResult]:
    """Load all files of work, or none if one cannot be used. A file replaces its earlier version.

    Raises UsageError if a path does not exist, SourceError or DataError if a file cannot be read or used.
    """
    files = {path.resolve(): path for path in _files(paths)}
    batches = [(path, *_read(path, tz)) for path in files.values()]
    results = []
    with store.write() as con:
        for path, batch, span in batches:
            source = str(path.resolve())
            loaded = load_values(con, source, ALWAYS, batch)
            runs.log_run(con, KIND, source, span, rows=loaded.values)
            own_units = sorted({series.unit for series in batch.series} - set(UNITS))
            results.append(FileResult(path, period_of(span), loaded, tuple(own_units)))
    return results


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            inside = sorted(
                entry
                for entry in path.rglob("*")
                if entry.suffix in SUFFIXES and entry.is_file() and not entry.name.startswith(".")
            )
            if not inside:
                what = f"{path} contains no {', '.join(SUFFIXES)} file"
                raise UsageError(what, "name the files, or another directory")
            yield from inside
        elif path.exists():
            yield path
        else:
            raise UsageError(
                f"{path} does not exist", "name a CSV or JSONL file of work, or a directory of them"
            )


def _read(path: Path, tz: ZoneInfo) -> tuple[ProgressBatch, tuple[int, int]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = inputs.lines(file, str(path))
            rows = _csv(path, lines) if path.suffix == ".csv" else _jsonl(path, lines)
            values = grouped(_value(path, number, row, tz) for number, row in rows)
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text") from None
    if not values:
        raise DataError(f"{path} has no rows", _NEEDS)
    batch = ProgressBatch()
    moments: list[int] = []
    for series, entries in values.items():
        times, amounts = map(list, zip(*entries, strict=True))
        moments += times
        if series.unit == "epoch" and series.kind == "gauge":
            times, amounts = levels(zip(times, amounts, amounts, strict=True), series.marks)
        batch.add(series, np.array(times, dtype=np.int64), np.array(amounts, dtype=np.float64))
    return batch, (min(moments), max(moments) + 1)


def _csv(path: Path, file: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(file, strict=True)
    try:
        for row in reader:
            if None in row or None in row.values():
                raise DataError(
                    f"{path}, line {reader.line_num}: the number of fields differs from the number of columns"
                )
            yield reader.line_num, row
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}") from None


def _jsonl(path: Path, file: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            row = whole_json(line.encode())
        except Garbled:
            row = None
        if not isinstance(row, dict):
            raise DataError(f"{path}, line {number} is not a JSON object")
        yield number, row


def _value(
    path: Path, number: int, row: Mapping[str, Any], tz: ZoneInfo
) -> tuple[ProgressSeries, tuple[int, float]]:
    def text(name: str) -> str:
        return "" if row.get(name) is None else str(row[name]).strip()

    def wrong(name: str, needed: str) -> DataError:
        return DataError(f"{path}, line {number}: {name} {text(name)!r} is {needed}")

    for name in NEEDED:
        if name not in row:
            raise DataError(f"{path}, line {number}: {name} is missing", _NEEDS)
    if not (text("workload") or text("pod")):
        raise wrong("workload", "empty, and so is pod")
    unit = unit_of(text("unit"))
    if not unit:
        raise wrong("unit", "empty: use epoch, request, prompt_token, generation_token or a custom word")
    try:
        at_ms = _moment(text("time"), tz)
    except ValueError:
        raise wrong("time", "neither a time such as 2026-10-01T06:00:00Z nor Unix seconds") from None
    try:
        value = float(text("value"))
    except ValueError:
        value = math.nan
    kind = text("kind") or ("gauge" if unit == "epoch" else "event")
    if kind not in KINDS:
        raise wrong("kind", f"not one of {', '.join(KINDS)}")
    if not (math.isfinite(value) and value >= 0):
        raise wrong("value", "not a number of at least 0")
    failed = text("failed").lower()
    if failed not in ("", "0", "1", "true", "false"):
        raise wrong("failed", "neither true nor false")
    series = ProgressSeries(
        mapping="file",
        unit=unit,
        kind=kind,
        labels=(),
        run_id=text("run"),
        is_failure=failed in ("1", "true"),
        **{name: text(name) for name in TEXTS},  # type: ignore[arg-type]
    )
    return series, (at_ms, value)


def _moment(text: str, tz: ZoneInfo) -> int:
    """Milliseconds of a time with offset, a local time without, or Unix seconds. Raises ValueError."""
    try:
        seconds = float(text)
    except ValueError:
        instant = datetime.fromisoformat(text)
        return to_ms(instant if instant.tzinfo else instant.replace(tzinfo=tz))
    if not 0 <= seconds < 32503680000:
        raise ValueError(text)
    return round(seconds * 1000)
