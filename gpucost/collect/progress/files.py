"""Reads work done from files: one row per workload, moment and amount, or a gateway's log with a row per call."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np

from gpucost import inputs
from gpucost.collect.base import period_of
from gpucost.collect.progress import calls
from gpucost.collect.progress.calls import NEEDED
from gpucost.collect.progress.mappings import UNITS, call_logs, levels, unit_of
from gpucost.collect.prometheus.parse import Garbled, whole_json
from gpucost.errors import DataError, SourceError, UsageError
from gpucost.periods import Period, to_ms
from gpucost.store import call_files, runs
from gpucost.store.progress import ALWAYS, ProgressBatch, ProgressLoad, ProgressSeries, load_values

if TYPE_CHECKING:
    import duckdb

    from gpucost.config.model import CallLog
    from gpucost.store.call_files import CallSums, LogFile
    from gpucost.store.connection import Store

KIND = "progress"
TEXTS = ("cluster", "namespace", "pod", "workload", "model")
MORE = ("cluster", "namespace", "pod", "model", "run", "kind", "failed")
KINDS = ("event", "counter", "gauge")


@dataclass(frozen=True, slots=True)
class FileResult:
    """What one file brought; `period` runs from its first to its last moment, `own_units` are words of its own for units.

    Of a gateway's log, `log` is what it is called, and `repeats` of its `calls` were told of before. `lost` are calls that the
    file told of when it was loaded before, and that no file tells of now.
    """

    path: Path
    period: Period
    load: ProgressLoad
    own_units: tuple[str, ...] = ()
    log: str = ""
    calls: int = 0
    repeats: int = 0
    lost: int = 0


def import_files(
    store: Store, paths: list[Path], tz: ZoneInfo, logs: list[CallLog] | None = None, name: str | None = None
) -> list[FileResult]:
    """Loads files of work, all of them or, where one cannot be used, none; a file replaces what it brought before.

    `logs` are the logs of calls that are known, by default the ready-made ones; all files are such a log where `name` says which,
    else their columns tell. Raises UsageError where a path or a log does not exist, SourceError or DataError where a file cannot
    be read or used.
    """
    known = call_logs() if logs is None else logs
    if name is not None and name not in (names := [log.name for log in known]):
        raise UsageError(
            f"no log of calls is called {name!r}", f"--log takes one of: {', '.join(names)}; [[call_logs]] adds others"
        )
    found = list({path.resolve(): path for path in _files(paths)}.values())
    logs_of: dict[Path, LogFile] = {}
    work: dict[Path, tuple[ProgressBatch, tuple[int, int]]] = {}
    with call_files.workspace(*{path.resolve().parent for path in found}) as reader:
        for path in found:
            if log := calls.recognize(reader, path, known, name):
                logs_of[path] = log
                reader.read(log, tz)
            else:
                work[path] = _read(path, tz)
        with store.write() as con:
            call_files.forget(con, [str(path.resolve()) for path in found])
            sums = dict(zip(logs_of, reader.load(con), strict=True))
            lost = call_files.lost(con)
            results = [
                _import_calls(con, logs_of[path], sums[path]) if path in sums else _import_work(con, path, *work[path])
                for path in found
            ]
            return [replace(one, lost=lost.get(str(one.path.resolve()), 0)) for one in results]


def _import_calls(con: duckdb.DuckDBPyConnection, file: LogFile, sums: CallSums) -> FileResult:
    loaded = load_values(con, file.source, ALWAYS, calls.batch(file, sums))
    runs.log_run(con, KIND, file.source, sums.span, rows=loaded.values)
    return FileResult(file.path, period_of(sums.span), loaded, (), file.log.name, sums.calls, sums.repeats)


def _import_work(con: duckdb.DuckDBPyConnection, path: Path, batch: ProgressBatch, span: tuple[int, int]) -> FileResult:
    source = str(path.resolve())
    loaded = load_values(con, source, ALWAYS, batch)
    runs.log_run(con, KIND, source, span, rows=loaded.values)
    return FileResult(path, period_of(span), loaded, tuple(sorted({series.unit for series in batch.series} - set(UNITS))))


def _files(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            inside = [entry for entry in _inside(path) if calls.suffix(entry)]
            if not inside:
                raise UsageError(f"{path} holds no .csv, .json, .jsonl and .parquet file", "name the files, or another directory")
            yield from inside
        elif path.exists():
            yield path
        else:
            raise UsageError(f"there is no {path}", "name a CSV or JSONL file of work, a log of calls, or a directory of them")


def _inside(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.rglob("*") if entry.is_file() and not entry.name.startswith("."))


def left_out(paths: list[Path]) -> list[Path]:
    """The files in directories among `paths` that are not read, by their names."""
    named = {path.resolve() for path in paths}
    others = [entry for path in paths if path.is_dir() for entry in _inside(path) if not calls.suffix(entry)]
    return [path for path in others if path.resolve() not in named]


def _read(path: Path, tz: ZoneInfo) -> tuple[ProgressBatch, tuple[int, int]]:
    values: dict[ProgressSeries, tuple[list[int], list[float]]] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = inputs.lines(file, str(path))
            rows = _csv(path, lines) if calls.suffix(path) == ".csv" else _jsonl(path, lines)
            for number, row in rows:
                series, at_ms, value = _value(path, number, row, tz)
                times, amounts = values.setdefault(series, ([], []))
                times.append(at_ms)
                amounts.append(value)
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is no text in UTF-8") from None
    if not values:
        raise DataError(f"{path} holds no rows", f"it needs the columns {', '.join(NEEDED)}")
    batch = ProgressBatch()
    for series, (times, amounts) in values.items():
        if series.unit == "epoch" and series.kind == "gauge":
            times, amounts = levels(zip(times, amounts, amounts, strict=True), series.marks)
        batch.add(series, np.array(times, dtype=np.int64), np.array(amounts, dtype=np.float64))
    moments = [moment for times, _ in values.values() for moment in times]
    return batch, (min(moments), max(moments) + 1)


def _csv(path: Path, file: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(file, strict=True)
    try:
        missing = [name for name in NEEDED if name not in (reader.fieldnames or [])]
        if missing:
            fix = f"it needs {', '.join(NEEDED)}; it may have {', '.join(MORE)}"
            raise DataError(f"{path}: there is no column {missing[0]}", fix)
        for row in reader:
            if None in row or None in row.values():
                raise DataError(f"{path}, line {reader.line_num}: as many fields as columns are needed")
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
            raise DataError(f"{path}, line {number}: is no JSON object")
        missing = [name for name in NEEDED if name not in row]
        if missing:
            raise DataError(f"{path}, line {number}: {missing[0]} is missing", f"it needs {', '.join(NEEDED)}")
        yield number, row


def _value(path: Path, number: int, row: Mapping[str, Any], tz: ZoneInfo) -> tuple[ProgressSeries, int, float]:
    def text(name: str) -> str:
        value = row.get(name)
        return "" if value is None else str(value).strip()

    def wrong(name: str, needed: str) -> DataError:
        return DataError(f"{path}, line {number}: {name} {text(name)!r} is {needed}")

    if not (text("workload") or text("pod")):
        raise wrong("workload", "empty, and no pod is named either")
    unit = unit_of(text("unit"))
    if not unit:
        raise wrong("unit", "empty: epoch, request, prompt_token, generation_token or your own word")
    try:
        at_ms = _moment(text("time"), tz)
    except ValueError:
        raise wrong("time", "no time such as 2026-10-01T06:00:00Z, and no Unix seconds") from None
    try:
        value = float(text("value"))
    except ValueError:
        value = math.nan
    kind = text("kind") or ("gauge" if unit == "epoch" else "event")
    if kind not in KINDS:
        raise wrong("kind", f"none of {', '.join(KINDS)}")
    if not (math.isfinite(value) and value >= 0):
        raise wrong("value", "no number from 0")
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
    return series, at_ms, value


def _moment(text: str, tz: ZoneInfo) -> int:
    """Milliseconds of a time with offset, a local one without, or Unix seconds. Raises ValueError."""
    try:
        seconds = float(text)
    except ValueError:
        instant = datetime.fromisoformat(text)
        return to_ms(instant if instant.tzinfo else instant.replace(tzinfo=tz))
    if not 0 <= seconds < 32503680000:
        raise ValueError(text)
    return round(seconds * 1000)
