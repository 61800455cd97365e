"""How often spot instances are interrupted, and where that is known from."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from gpucost import inputs
from gpucost.catalog import facts
from gpucost.errors import DataError
from gpucost.periods import MS_PER_HOUR
from gpucost.records import record

_SUFFIXES = {".json", ".csv", ".txt"}
_EVENT = re.compile(r"\s*\d{1,18}\s*,\s*(add|remove)\s*,")
_DATED = re.compile(r"\s*\d{4}-\d{2}-\d{2}\s*,\s*\d{2}:\d{2}:\d{2}\s*,\s*\d{1,18}\s*$")
_ELAPSED = re.compile(r"\s*\d{1,18}(\.\d{1,18})?\s*,\s*\d{1,18}\s*$")
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
        f"{path} is no trace of spot instances: its first line is {first[:60]!r}",
        "gpucost whatif spot --help lists the formats",
    )


def _files(folder: Path) -> Iterator[Path]:
    for file in sorted(
        file for file in folder.rglob("*") if file.suffix.lower() in _SUFFIXES and file.is_file()
    ):
        plain = file.with_name(file.name.replace("_scaled", ""))
        if plain == file or not plain.exists():
            yield file


def _is_trace(path: Path) -> bool:
    lines = list(_lines(path).values())
    if lines and lines[0].lstrip().startswith("{"):
        return any('"gap_seconds"' in line for line in lines)
    return bool(lines) and any(
        all(shape.match(line) for line in lines[:_LOOKED_AT]) for shape in (_EVENT, _DATED, _ELAPSED)
    )


def _lines(path: Path) -> dict[int, str]:
    """Those that are not empty, by number."""
    try:
        text = inputs.text(path)
    except OSError as error:
        raise DataError(f"cannot read the trace {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"the trace {path} is no text") from None
    return {number: line for number, line in enumerate(text.splitlines(), 1) if line.strip()}


def _ticks(path: Path) -> Trace:
    try:
        document = inputs.parse_json(inputs.text(path))
        gap, data = float(document["metadata"]["gap_seconds"]), document["data"]
        counts = [int(count) for count in data]
        if gap <= 0 or any(count < 0 or count != given for count, given in zip(counts, data, strict=True)):
            raise ValueError
    except (ValueError, TypeError, KeyError, OverflowError):
        raise DataError(
            f"{path} is no trace: it takes metadata.gap_seconds above 0 and data, a list of whole numbers from 0"
        ) from None
    return Trace(_drops(counts), sum(counts) * gap / _SECONDS_PER_HOUR)


def _drops(counts: Sequence[int]) -> int:
    return sum(max(before - after, 0) for before, after in pairwise(counts))


def _events(path: Path, lines: Mapping[int, str]) -> Trace:
    up: dict[str, int] = {}
    preemptions = lived = last = 0
    for where, (moment, event, node) in _fields(path, lines, 3):
        at = _whole(where, moment)
        if at < last:
            raise _broken(where, "goes back in time")
        last = at
        if event == "add" and node not in up:
            up[node] = at
        elif event == "remove" and node in up:
            preemptions, lived = preemptions + 1, lived + at - up.pop(node)
        else:
            raise _broken(where, f"cannot {event} {node}")
    return Trace(preemptions, (lived + sum(last - begun for begun in up.values())) / MS_PER_HOUR)


def _counts(path: Path, lines: Mapping[int, str]) -> Trace:
    """A row counts until the next one; where the clock steps back, no time passes."""
    is_dated = bool(_DATED.match(next(iter(lines.values()))))
    in_hours = not is_dated and any("." in line.split(",")[0] for line in lines.values())
    hours, counts = [], []
    for where, (*moment, count) in _fields(path, lines, 3 if is_dated else 2):
        try:
            at = datetime.fromisoformat(" ".join(moment)).timestamp() if is_dated else float(moment[0])
        except ValueError:
            raise _broken(where, f"{' '.join(moment)!r} is no time") from None
        hours.append(at if in_hours else at / _SECONDS_PER_HOUR)
        counts.append(_whole(where, count))
    node_hours, now = 0.0, hours[0]
    for there, until in zip(counts, hours[1:], strict=False):
        node_hours += there * max(until - now, 0.0)
        now = max(now, until)
    return Trace(_drops(counts), node_hours)


def _fields(path: Path, lines: Mapping[int, str], count: int) -> Iterator[tuple[str, list[str]]]:
    """Which row it is, and its fields."""
    for number, line in lines.items():
        where, (fields,) = f"{path}, row {number}", csv.reader([line], skipinitialspace=True)
        if len(fields) != count:
            raise _broken(where, f"has {len(fields)} fields, not {count}")
        yield where, [field.strip() for field in fields]


def _whole(where: str, text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise _broken(where, f"{text!r} is no whole number")
    return int(text)


def _broken(where: str, what: str) -> DataError:
    return DataError(f"{where}: {what}", "nothing of this trace was used")


@record
class Rate:
    """Interruptions per node-hour, and between which they lie; `high` None where nothing bounds them, or no range is known."""

    per_hour: float
    source: str
    as_of: str | None = None
    low: float | None = None
    high: float | None = None


def of_events(events: int, node_hours: float, source: str) -> Rate:
    """Events per node-hour, and a 95 % interval of a Poisson count (its normal approximation on square roots)."""
    root = math.sqrt(events)
    low, high = (max(root + side, 0.0) ** 2 / node_hours for side in (-0.98, 0.98))
    return Rate(events / node_hours, source, None, low, high)


def of_trace(trace: Trace) -> Rate:
    """Preemptions per node-hour of traces."""
    counted = (
        f"{trace.preemptions:,} preemptions in {trace.node_hours:,.1f} node-hours of {trace.files} file(s)"
    )
    return of_events(trace.preemptions, trace.node_hours, f"traces: {counted}")


def family_of(instance_type: str) -> str:
    """What an instance type is of: `p4d` of p4d.24xlarge, `a2` of a2-highgpu-8g; all of a name without such parts."""
    return re.split(r"[.-]", instance_type.lower())[0]


def measured_rate(provider: str | None, instance_type: str, gpu_model: str | None) -> Rate:
    """What traces of the same family or GPU model counted at this provider, else all of them pooled: pricing/interruptions.csv.

    The middle is all events over all instance-hours, `low` and `high` the limits of the calmest and of the busiest trace.
    """
    known, family = facts("interruptions.csv"), family_of(instance_type)
    own = [
        row
        for row in known
        if row["provider"] == provider and (row["family"] == family or row["gpu_model"] == gpu_model)
    ]
    preemptions = [row for row in known if row["measure"] == "preemption"]
    rows = [row for row in own if row["measure"] == "preemption"] or own or preemptions
    events, hours = sum(int(row["events"]) for row in rows), sum(float(row["instance_hours"]) for row in rows)
    counted = "preemptions" if rows[0]["measure"] == "preemption" else "failed probes (an upper limit)"
    models = ", ".join(sorted({f"{row['provider']} {row['gpu_model']}" for row in rows}))
    source = f"measured traces: {events:,} {counted} in {hours:,.0f} instance-hours of {models}"
    if not own:
        what = f"{provider or ''} {family}".strip()
        source += f"; pooled: none of {what} is known" if what else "; pooled"
    low, high = min(float(row["low"]) for row in rows), max(float(row["high"]) for row in rows)
    return Rate(events / hours, source, max(row["period_start"] for row in rows), low, high)
