"""How often spot instances are interrupted, and where that is known from."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from gpucost.errors import DataError
from gpucost.periods import MS_PER_HOUR
from gpucost.records import record
from gpucost.whatif.flags import HOURS_PER_MONTH

_SUFFIXES = {".json", ".csv", ".txt"}
_EVENT = re.compile(r"\s*\d+\s*,\s*(add|remove)\s*,")
_DATED = re.compile(r"\s*\d{4}-\d{2}-\d{2}\s*,\s*\d{2}:\d{2}:\d{2}\s*,\s*\d+\s*$")
_ELAPSED = re.compile(r"\s*\d+(\.\d+)?\s*,\s*\d+\s*$")
# a directory's file is taken for a trace if so many lines look like one
_LOOKED_AT = 10
_SECONDS_PER_HOUR = 3600


@record
class Trace:
    """What a trace, or several, came to. `passed_over` are the files of directories that hold no trace."""

    preemptions: int
    node_hours: float
    files: int = 1
    passed_over: tuple[Path, ...] = ()

    @property
    def per_hour(self) -> float:
        """Interruptions per node-hour."""
        return self.preemptions / self.node_hours


def read_traces(paths: Sequence[Path]) -> Trace:
    """All traces of these files and directories together. Files of a directory that are no traces are passed over.

    Of `x.csv` and `x_scaled.csv`, which tell the same in seconds and in hours, the first is read.
    Raises DataError for a file that cannot be read as a trace, naming its row, and where no instance was ever there.
    """
    traces, passed_over = [], []
    for path in paths:
        for file in _files(path) if path.is_dir() else [path]:
            if file == path or _is_trace(file):
                traces.append(read_trace(file))
            else:
                passed_over.append(file)
    named, node_hours = ", ".join(map(str, paths)), sum(trace.node_hours for trace in traces)
    if not traces:
        raise DataError(f"no traces in {named}", "gpucost whatif spot --help says which formats are read")
    if node_hours <= 0:
        raise DataError(f"no instance was ever there in {named}", "a rate needs node-hours")
    return Trace(sum(trace.preemptions for trace in traces), node_hours, len(traces), tuple(passed_over))


def read_trace(path: Path) -> Trace:
    """One file. Raises DataError."""
    lines = _lines(path)
    first = next(iter(lines.values()), "")
    if first.lstrip().startswith("{"):
        return _ticks(path)
    if _EVENT.match(first):
        return _events(path, lines)
    if _DATED.match(first) or _ELAPSED.match(first):
        return _counts(path, lines)
    raise DataError(
        f"{path} is no trace of spot instances: its first line is {first[:60]!r}", "gpucost whatif spot --help lists the formats"
    )


def _files(folder: Path) -> Iterator[Path]:
    for file in sorted(file for file in folder.rglob("*") if file.suffix.lower() in _SUFFIXES and file.is_file()):
        plain = file.with_name(file.name.replace("_scaled", ""))
        if plain == file or not plain.exists():
            yield file


def _is_trace(path: Path) -> bool:
    lines = list(_lines(path).values())
    if lines and lines[0].lstrip().startswith("{"):
        return any('"gap_seconds"' in line for line in lines)
    return bool(lines) and any(all(shape.match(line) for line in lines[:_LOOKED_AT]) for shape in (_EVENT, _DATED, _ELAPSED))


def _lines(path: Path) -> dict[int, str]:
    """Those that are not empty, by number."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot read the trace {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"the trace {path} is no text") from None
    return {number: line for number, line in enumerate(text.splitlines(), 1) if line.strip()}


def _ticks(path: Path) -> Trace:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        gap, data = float(document["metadata"]["gap_seconds"]), document["data"]
        counts = [int(count) for count in data]
        if gap <= 0 or any(count < 0 or count != given for count, given in zip(counts, data, strict=True)):
            raise ValueError
    except (ValueError, TypeError, KeyError):
        raise DataError(
            f"{path} is no trace: it takes metadata.gap_seconds above 0 and data, a list of whole numbers from 0"
        ) from None
    return Trace(_drops(counts), sum(counts) * gap / _SECONDS_PER_HOUR)


def _drops(counts: Sequence[int]) -> int:
    return sum(max(before - after, 0) for before, after in pairwise(counts))


def _events(path: Path, lines: Mapping[int, str]) -> Trace:
    up: dict[str, int] = {}
    preemptions = lived = last = 0
    for number, (moment, event, node) in _fields(path, lines, 3):
        at = _whole(path, number, moment)
        if at < last:
            raise _broken(path, number, "goes back in time")
        last = at
        if event == "add" and node not in up:
            up[node] = at
        elif event == "remove" and node in up:
            preemptions, lived = preemptions + 1, lived + at - up.pop(node)
        else:
            raise _broken(path, number, f"cannot {event} {node}")
    return Trace(preemptions, (lived + sum(last - begun for begun in up.values())) / MS_PER_HOUR)


def _counts(path: Path, lines: Mapping[int, str]) -> Trace:
    """A row counts until the next one; where the clock steps back, no time passes."""
    is_dated = bool(_DATED.match(next(iter(lines.values()))))
    in_hours = not is_dated and any("." in line.split(",")[0] for line in lines.values())
    hours, counts = [], []
    for number, (*moment, count) in _fields(path, lines, 3 if is_dated else 2):
        try:
            at = datetime.fromisoformat(" ".join(moment)).timestamp() if is_dated else float(moment[0])
        except ValueError:
            raise _broken(path, number, f"{' '.join(moment)!r} is no time") from None
        hours.append(at if in_hours else at / _SECONDS_PER_HOUR)
        counts.append(_whole(path, number, count))
    node_hours, now = 0.0, hours[0]
    for there, until in zip(counts, hours[1:], strict=False):
        node_hours += there * max(until - now, 0.0)
        now = max(now, until)
    return Trace(_drops(counts), node_hours)


def _fields(path: Path, lines: Mapping[int, str], count: int) -> Iterator[tuple[int, list[str]]]:
    for number, line in lines.items():
        (fields,) = csv.reader([line], skipinitialspace=True)
        if len(fields) != count:
            raise _broken(path, number, f"has {len(fields)} fields, not {count}")
        yield number, [field.strip() for field in fields]


def _whole(path: Path, number: int, text: str) -> int:
    if not text.isdecimal():
        raise _broken(path, number, f"{text!r} is no whole number")
    return int(text)


def _broken(path: Path, number: int, what: str) -> DataError:
    return DataError(f"{path}, row {number}: {what}", "nothing of this trace was used")


@record
class Rate:
    """Interruptions per node-hour, and between which they lie; `high` None where nothing bounds them, or no range is known."""

    per_hour: float
    source: str
    as_of: str | None = None
    low: float | None = None
    high: float | None = None


def of_share(percent: float) -> float:
    """The rate at which `percent` of instances are interrupted within a month of 730 h: -ln(1 - p) / 730."""
    return math.inf if percent >= 100 else -math.log1p(-percent / 100) / HOURS_PER_MONTH


def of_band(low_percent: float, high_percent: float, source: str, as_of: str | None) -> Rate:
    """The rate of a band per month: that of its middle, and those of its ends; a band up to 100 % has no upper end."""
    low, high = of_share(low_percent), of_share(high_percent)
    middle = of_share((low_percent + high_percent) / 2)
    return Rate(middle, source, as_of, low, high if math.isfinite(high) else None)


def of_trace(trace: Trace) -> Rate:
    """Preemptions per node-hour, and a 95 % interval of a Poisson count (its normal approximation on square roots)."""
    root, hours = math.sqrt(trace.preemptions), trace.node_hours
    source = f"traces: {trace.preemptions:,} preemptions in {hours:,.1f} node-hours of {trace.files} file(s)"
    return Rate(trace.per_hour, source, None, max(root - 0.98, 0.0) ** 2 / hours, (root + 0.98) ** 2 / hours)
