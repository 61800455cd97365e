"""Parse sacct's jobs: delimited text with any list of fields, and JSON."""

from __future__ import annotations

import gzip
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import chain, combinations_with_replacement, product
from pathlib import Path
from typing import IO, Any, NamedTuple
from zoneinfo import ZoneInfo

from gpucost import inputs
from gpucost.errors import DataError
from gpucost.inputs import JsonObject
from gpucost.records import frozen_dataclass

# The columns of the store's tables slurm_runs and slurm_steps.
_RUN_COLUMNS = """
    cluster job_id submit_ms job array_job_id name user account partition qos state reason
    eligible_ms start_ms end_ms elapsed_ms suspended_ms nodes req_tres alloc_tres reservation
"""
_STEP_COLUMNS = "cluster job_id step start_ms end_ms nodes alloc_tres gpu_util"
# The fields queried from sacct: enough for every figure and for ambiguous cases.
_FIELDS = """
    JobID JobIDRaw JobName Cluster Partition Account User QOS State Reason Submit Eligible Start End ElapsedRaw
    Suspended NNodes NodeList ReqTRES AllocTRES TRESUsageInAve TRESUsageInTot Reservation
"""
FIELDS = _FIELDS.split()
# In shell notation: no job name contains it.
DELIMITER = "\x1f"
# Slurm's job numbers are smaller.
MADE_UP = 1 << 62
DEFAULT_CLUSTER = "slurm"
_ROWS_AT_ONCE = 100_000
_LONGEST_RECORD = 65_536
_MEMORY = 200_000


def sacct_command(*, steps: bool = False) -> str:
    """The sacct command with unambiguous output for any job names and clock; `steps`: with
    placement.
    """
    jobs = "" if steps else " -X"
    command = f"sacct -a -D{jobs} -S now-7days -E now --parsable2 --delimiter=$'\\x1f' -o {','.join(FIELDS)}"
    return f"TZ=UTC SLURM_TIME_FORMAT=%s {command}"


@frozen_dataclass
class SacctFormat:
    """Facts missing in a file: its fields (without a header), delimiter, cluster, and the zone of local
    times.
    """

    fields: tuple[str, ...] | None = None
    delimiter: str | None = None
    cluster: str | None = None
    timezone: ZoneInfo = ZoneInfo("UTC")


@dataclass(slots=True)
class Notes:
    """Warnings about a file: local times without an offset, an incomplete last line."""

    has_local_times: bool = False
    is_open: bool = False


class Batch(NamedTuple):
    """Runs of jobs and steps with generic resources, one list per column."""

    runs: dict[str, list[Any]]
    steps: dict[str, list[Any]]

    @classmethod
    def empty(cls) -> Batch:
        """Columns without rows."""
        return cls({name: [] for name in _RUN_COLUMNS.split()}, {name: [] for name in _STEP_COLUMNS.split()})

    def add(self, row: JsonObject, where: str) -> None:
        """Add a record to the steps or runs; its `nodes` are a list of hosts. Raises ValueError, DataError."""
        columns, start = self.steps, row["start_ms"]
        if row.get("step") is None:
            columns, end, elapsed = self.runs, row["end_ms"], row["elapsed_ms"]
            if start is not None and end is None and elapsed is not None and row["state"] not in _UNENDED:
                end = start + elapsed + row["suspended_ms"]
            if start is not None and end is not None and elapsed is None:
                elapsed = end - start
            submit = start if row["submit_ms"] is None else row["submit_ms"]
            if submit is None:
                raise ValueError("Submit and Start are both missing, so the job's time is unknown")
            # sacct --truncate cuts it at the end of the query
            end = None if row["state"] in _GOING_ON else end
            row |= {"submit_ms": submit, "end_ms": end, "elapsed_ms": elapsed}
        elif start is None or "gres/" not in (row["alloc_tres"] or ""):
            return
        row["nodes"] = expand_nodes(row["nodes"] or "", where)
        for name, values in columns.items():
            values.append(row.get(name))


def read_sacct(source: Path, form: SacctFormat, notes: Notes) -> Iterator[Batch]:
    """The file's records in batches. Raises DataError with the line if it cannot be read unambiguously."""
    opening: Any = gzip.open if source.suffix == ".gz" else open
    try:
        with opening(source, "rb") as file:
            yield from read_records(file, str(source), form, notes)
    except (OSError, EOFError) as error:
        raise DataError(f"cannot read {source}: {getattr(error, 'strerror', None) or error}") from None


def read_records(file: IO[bytes], name: str, form: SacctFormat, notes: Notes) -> Iterator[Batch]:
    """`read` for an open file or an answer."""
    start = file.read(1)
    while start.isspace() or start in _BYTE_ORDER_MARK:
        start = file.read(1)
    if start == b"{":
        content = start + file.read(inputs.ANSWER)
        if len(content) > inputs.ANSWER:
            raise DataError(
                f"{name} contains more than {inputs.ANSWER // inputs.MIB} MiB of JSON", "choose fewer days"
            )
        try:
            answer = inputs.parse_json(content)
        except ValueError as error:
            raise DataError(
                f"{name} is not complete JSON: {error}", "run the command again until it finishes"
            ) from None
        yield from read_answer(answer, name, form)
    elif start:
        rest = inputs.lines(file, name)
        lines = (line.decode("utf-8", "replace") for line in chain([start + next(rest, b"")], rest))
        yield from _Text(name, form, notes).batches(lines)


_BYTE_ORDER_MARK = (b"\xef", b"\xbb", b"\xbf")


# Text

# User text, which can contain the delimiter or line breaks.
_FREE = """
    jobname comment admincomment systemcomment wckey workdir submitline constraints container
"""
_DATE = r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([+-]\d\d:?\d\d|Z)?|\d+|Unknown|None|N/A|)"
_TIME = r"((\d+-)?(\d+:)?\d+:\d\d(\.\d+)?|INVALID|)"
_TRES = r"([a-z]+(/[^=,]*)?=[^,=]*(,[a-z]+(/[^=,]*)?=[^,=]*)*|)"
_TYPED = {
    "jobid": r"\d+([_+.].*)?", "jobidraw": r"\d+([.+].*)?", "state": r"[A-Z_]+( by \d+|\+)?",
    "submit": _DATE, "eligible": _DATE, "start": _DATE, "end": _DATE, "elapsed": _TIME, "suspended": _TIME,
    "alloctres": _TRES, "reqtres": _TRES, "elapsedraw": r"\d*", "nnodes": r"\d*",
}  # fmt: skip
_CHECKS = {name: re.compile(pattern).fullmatch for name, pattern in _TYPED.items()}


@lru_cache(_MEMORY)
def _is_valid(name: str, text: str) -> bool:
    return _CHECKS[name](text) is not None


_NEEDED = ("JobID or JobIDRaw", "State", "Start", "End or Elapsed or ElapsedRaw", "AllocTRES", "NodeList")
_GOING_ON = ("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED", "SIGNALING")
_UNENDED = (*_GOING_ON, "PENDING", "RESIZING", "REQUEUE_HOLD")


class _Text:
    """A file of delimited records."""

    def __init__(self, name: str, form: SacctFormat, notes: Notes) -> None:
        self.name, self.form, self.notes = name, form, notes
        self.clock = clock_of(form, notes)

    def error(self, line: int, message: str) -> DataError:
        return DataError(f"{self.name}, line {line}: {message}", f"run {sacct_command()}, or use --json")

    def batches(self, lines: Iterable[str]) -> Iterator[Batch]:
        numbered = enumerate(self._ended(lines), start=1)
        number, first = next(numbered)
        columns, delimiter, has_header = self._columns(first)
        # --parsable ends each record with the delimiter.
        is_closed = has_header and first.count(delimiter) == len(columns)
        records = numbered if has_header else chain([(number, first)], numbered)
        batch = Batch.empty()
        for rows, (place, parts) in enumerate(self._records(columns, delimiter, is_closed, records), start=1):
            last, is_right = parts[-1], _CHECKS.get(columns[-1], bool)
            if self.notes.is_open and last and (not is_right(last) or last[-1] in "=,/[-"):
                raise self.error(place, f"the file is truncated in {last!r}")
            try:
                row = self._row(dict(zip(columns, parts, strict=True)))
                # A pending job without Submit: its waiting time is unknown.
                if "submit" in columns or row["start_ms"] is not None:
                    batch.add(row, self.name)
            except ValueError as error:
                raise self.error(place, str(error)) from None
            if rows % _ROWS_AT_ONCE == 0:
                yield batch
                batch = Batch.empty()
        yield batch

    def _ended(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            self.notes.is_open = not line.endswith("\n")
            yield line.rstrip("\r\n")

    def _delimiter(self, first: str) -> str:
        """The delimiter between the names of a header; without one, `|` or the one gpucost uses with sacct."""
        if {"jobid", "jobidraw"} & set(re.split(r"\W+", first.lower())):
            between = re.match(r"\w+(?:%-?\d+)?(\W+?)(?=\w)", first)
            if between and re.fullmatch("  +", between[1]):
                raise self.error(1, "the columns are for people and truncate long values")
            return between[1] if between else "|"
        return DELIMITER if DELIMITER in first else "|"

    def _columns(self, first: str) -> tuple[tuple[str, ...], str, bool]:
        """The fields in lower case, the delimiter, and whether the first line is a header."""
        found = self._delimiter(first) if self.form.delimiter is None else self.form.delimiter
        names = tuple(
            re.sub(r"%-?\d+$", "", part).strip().lower().replace("_", "") for part in first.split(found)
        )
        has_header = bool({"jobid", "jobidraw"} & set(names))
        named = tuple(field.strip().lower() for field in self.form.fields or ())
        if has_header:
            columns = names[:-1] if names[-1] == "" else names
            if self.form.fields and named != columns:
                fields = ", ".join(self.form.fields)
                raise self.error(
                    1, f"the header has {len(columns)} fields, but --fields names others: {fields}"
                )
        elif named:
            columns = named
        else:
            raise self.error(1, "the header is missing: name the fields with --fields")
        missing = [names for names in _NEEDED if not {*names.lower().split(" or ")} & {*columns}]
        if missing:
            raise self.error(1, f"field missing: {missing[0]}")
        return columns, found, has_header

    def _records(
        self, columns: tuple[str, ...], delimiter: str, is_closed: bool, lines: Iterator[tuple[int, str]]
    ) -> Iterator[tuple[int, list[str]]]:
        """Each record with its line; names with delimiters or line breaks are joined."""
        pending, begun = "", 0
        for number, line in lines:
            begun = begun if pending else number
            joined = f"{pending}\n{line}" if pending else line
            parts = joined.split(delimiter)
            if is_closed and parts[-1] == "":
                parts.pop()
            surplus = len(parts) - len(columns)
            if surplus < 0 and len(joined) < _LONGEST_RECORD:
                pending = joined
                continue
            if surplus or pending:
                # A truncated record and the next one could together have the right number of fields.
                ways = [] if surplus and pending else self._ways(columns, parts, delimiter)
                if len(ways) != 1:
                    fields = f"there are {len(parts)} fields for {len(columns)} columns"
                    raise self.error(begun, f"{fields}, and no unique way to split them")
                (parts,) = ways
            pending = ""
            yield begun, parts
        if pending:
            fields = f"there are {len(pending.split(delimiter))} fields for {len(columns)} columns"
            raise self.error(begun, f"{fields}: the record is truncated")

    @staticmethod
    def _ways(columns: tuple[str, ...], parts: list[str], delimiter: str) -> list[list[str]]:
        """All ways to split a record so that every field is valid."""
        surplus = len(parts) - len(columns)
        free = [place for place, name in enumerate(columns) if name in _FREE.split()]
        ways = []
        for chosen in combinations_with_replacement(free, surplus) if 0 <= surplus < 12 else ():
            rest, row = iter(parts), []
            for place in range(len(columns)):
                row.append(delimiter.join(next(rest) for _ in range(1 + chosen.count(place))))
            checked = [(name, value) for name, value in zip(columns, row, strict=True) if name in _CHECKS]
            if all(_is_valid(name, value) for name, value in checked):
                ways.append(row)
        return ways

    def _row(self, fields: Mapping[str, str]) -> JsonObject:
        """Raises ValueError."""
        row = {name: text or None for name, text in fields.items()}
        get = row.get
        display_id, raw = get("jobid") or get("jobidraw") or "", get("jobidraw") or get("jobid") or ""
        number, _, step = raw.partition(".")
        digits = re.match(r"\d+", number)
        if digits is None:
            raise ValueError(f"invalid job number {raw!r}")
        for name in ("state", "alloctres"):
            text = get(name) or ""
            if not _is_valid(name, text):
                raise ValueError(f"invalid {name} {text!r}: are these the fields, in this order?")
        moments = {name: self.clock(get(name)) for name in ("submit", "eligible", "start", "end")}
        start, end = moments["start"], moments["end"]
        elapsed, suspended = length(get("elapsedraw") or get("elapsed")), length(get("suspended")) or 0
        step = step or display_id.partition(".")[2]
        if start is not None and end is not None and elapsed is not None and not step:
            # sacct's Elapsed excludes suspended time.
            off = end - start - elapsed - suspended
            if abs(abs(off) - 3_600_000) < 1500 and self.notes.has_local_times:
                raise ValueError(
                    "Start to End is an hour off Elapsed: the clocks changed, and these times are local"
                )
        tres = get("alloctres")
        array = re.match(r"(\d+)_", display_id)
        usage = (_usage(get(name)) for name in ("tresusageintot", "tresusageinave"))
        return {
            **row,
            "cluster": get("cluster") or self.form.cluster or DEFAULT_CLUSTER,
            "job_id": int(digits[0]) if "jobidraw" in row else _job_id(number),
            "step": step or None,
            "job": display_id,
            "array_job_id": int(array[1]) if array else None,
            "name": get("jobname"),
            "state": (get("state") or "").partition(" ")[0].rstrip("+"),
            **{f"{name}_ms": moment for name, moment in moments.items()},
            "elapsed_ms": elapsed,
            "suspended_ms": suspended,
            "nodes": get("nodelist"),
            "req_tres": get("reqtres"),
            "alloc_tres": tres,
            "gpu_util": _gpu_util(tres, *usage) if step else None,
        }


def _job_id(display_id: str) -> int:
    """The job number of '17'; for '17_3' and '17+1', whose own numbers are unknown, one above Slurm's range."""
    match = re.fullmatch(r"(\d+)([_+])(\d+)", display_id)
    if match is None:
        return int(re.match(r"\d*", display_id)[0])  # type: ignore[index]
    return MADE_UP + (int(match[1]) << 24) + 2 * int(match[3]) + (match[2] == "+")


Clock = Callable[[str | None], int | None]


def clock_of(form: SacctFormat, notes: Notes) -> Clock:
    """Parse a time in milliseconds since 1970; None without one. Local times are in the form's zone.

    Raises ValueError.
    """

    @lru_cache(_MEMORY)
    def clock(text: str | None) -> int | None:
        if text in (None, "", "Unknown", "None", "N/A", "0"):
            return None
        if text.isdigit():
            return int(text) * 1000
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(f"invalid time {text!r}") from None
        if at.tzinfo is None:
            notes.has_local_times = True
            at = at.replace(tzinfo=form.timezone)
        return round(at.timestamp() * 1000)

    return clock


_ELAPSED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d\d(?:\.\d+)?)")


def length(text: str | None) -> int | None:
    """Milliseconds of '10-13:27:06', '27:06.5' or '97626' seconds. Raises ValueError."""
    if not text or text == "INVALID":
        return None
    if text.isdigit():
        return int(text) * 1000
    match = _ELAPSED.fullmatch(text)
    if match is None:
        raise ValueError(f"invalid duration {text!r}")
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return round(1000 * (days * 86400 + hours * 3600 + minutes * 60 + seconds))


def _usage(text: str | None) -> dict[str, float | None]:
    """A step's GPU usage: 'gres/gpumem=40M,gres/gpuutil=90' as {'gpumem': 41943040.0, 'gpuutil': 90.0}."""
    found = re.findall(r"gres/(gpumem|gpuutil)=(\d+(?:\.\d+)?)([KMGTPE]?)", text or "")
    return {name: float(number) * 1024 ** " KMGTPE".index(unit or " ") for name, number, unit in found}


# Minimum percentage of a step with used GPU memory: its GPUs were measured, unlike plugins that always report
# zeros.
_USED_MEMORY = 1e-9


def _gpu_util(
    tres: str | None, total: dict[str, float | None], average: dict[str, float | None]
) -> float | None:
    """The mean utilization of a step's GPUs, 0 to 100, from jobacct_gather's percent of one GPU.

    A task's own figure is the sum over the GPUs that it uses, in the total and in the average over tasks
    (https://slurm.schedmd.com/gres.html#GPU_utilization). `total` is of all tasks. With only an average, each
    GPU is assumed to have its own task, or one task to have all GPUs.
    """
    held = re.search(r"gres/gpu=(\d+)", tres or "")
    gpus = max(1, int(held[1]) if held else 1)
    usage = average | total
    busy, memory = usage.get("gpuutil"), usage.get("gpumem") or 0
    # Larger values are a plugin's "infinite" (all bits set), alone or averaged over tasks; likewise for
    # bytes.
    if busy is None or not 0 <= busy <= 1e7:
        return None
    if "gpuutil" in total or busy > 100:
        busy /= gpus
    return min(100.0, max(busy, _USED_MEMORY if 0 < memory <= 2**53 else 0))


# JSON


def read_answer(answer: Any, name: str, form: SacctFormat) -> Iterator[Batch]:
    """The records of `sacct --json`, or of slurmrestd's /slurmdb/vX/jobs: data parsers of Slurm 22.05 to
    25.x.
    """
    # An answer without jobs is valid, although older versions call it an error.
    errors = [error for error in answer.get("errors") or () if "nothing found" not in str(error).lower()]
    if errors:
        first = errors[0]
        raise DataError(
            f"{name}: error from Slurm: {first.get('error') or first.get('description') or first}"
        )
    if "jobs" not in answer:
        raise DataError(f"{name} has no jobs: {', '.join(answer) or 'it is empty'}", "sacct -a -D --json")
    batch = Batch.empty()
    for job in answer["jobs"]:
        try:
            for row in _rows(job, form.cluster):
                batch.add(row, row["cluster"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"{name}: cannot read job {job.get('job_id')}: {error!r}") from None
        if len(batch.runs["job_id"]) >= _ROWS_AT_ONCE:
            yield batch
            batch = Batch.empty()
    yield batch


def _number(value: Any) -> float | None:
    """A number, or the number in {"set": true, "infinite": false, "number": 5}."""
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set", True) and not value.get("infinite") else None
    if not isinstance(value, int | float | str) or value == "":
        return None
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value} is not a number")
    return number


def _milliseconds(value: Any) -> int | None:
    return None if (number := _number(value)) is None else round(1000 * number)


def _moment(value: Any) -> int | None:
    return _milliseconds(value) or None


def _tres(items: Any) -> str | None:
    """[{"type": "gres", "name": "gpu:a100", "count": 2}] in the form of AllocTRES."""
    texts = []
    for item in items or ():
        if count := _number(item.get("count")):
            kind = item["type"] + (f"/{item['name']}" if item.get("name") else "")
            texts.append(f"{kind}={count:.0f}")
    return ",".join(texts) or None


def _state(value: Any) -> str:
    if isinstance(value, Mapping):
        value = value.get("current")
    if isinstance(value, list):
        value = value[0] if value else ""
    return str(value or "").partition(" ")[0]


def _rows(job: JsonObject, cluster: str | None) -> Iterator[JsonObject]:
    """A job and its steps."""
    time, state, tres = job["time"], _state(job["state"]), job.get("tres") or {}
    array, het = job.get("array") or {}, job.get("het") or {}
    numbers = (_number(value) for value in (job["job_id"], array.get("job_id"), het.get("job_id")))
    job_id, array_id, het_id = (int(number or 0) for number in numbers)
    display_id = str(job_id)
    if array_id and (task := _number(array.get("task_id"))) is not None:
        display_id = f"{array_id}_{task:.0f}"
    elif array_id and array.get("task"):
        display_id = f"{array_id}_[{array['task']}]"
    elif het_id:
        display_id = f"{het_id}+{_number(het.get('job_offset')) or 0:.0f}"
    held = (job.get("reservation") or {}).get("name")
    reason = job["state"].get("reason") if isinstance(job["state"], Mapping) else None
    shared = {"cluster": str(job.get("cluster") or cluster or DEFAULT_CLUSTER), "job_id": job_id}
    yield {
        **shared,
        **{name: job.get(name) or None for name in ("name", "user", "account", "partition", "qos")},
        "job": display_id,
        "array_job_id": array_id or None,
        "state": state,
        "reason": reason or None,
        "submit_ms": _moment(time.get("submission")),
        "eligible_ms": _moment(time.get("eligible")),
        "start_ms": None if state == "PENDING" else _moment(time.get("start")),
        "end_ms": None if state in _UNENDED else _moment(time.get("end")),
        "elapsed_ms": _milliseconds(time.get("elapsed")),
        "suspended_ms": _milliseconds(time.get("suspended")) or 0,
        "nodes": job.get("nodes"),
        "req_tres": _tres(tres.get("requested")),
        "alloc_tres": _tres(tres.get("allocated")),
        "reservation": held if isinstance(held, str) and held else None,
    }
    for step in job.get("steps") or ():
        tres, places = step.get("tres") or {}, step.get("nodes") or {}
        allocated, usage = _tres(tres.get("allocated")), tres.get("requested") or {}
        label = (step.get("step") or {}).get("id")
        label = label.get("step_id") if isinstance(label, Mapping) else label
        busy = (
            {item["name"]: _number(item.get("count")) for item in usage.get(name) or () if item.get("name")}
            for name in ("total", "average")
        )
        yield {
            **shared,
            "step": str(label).rpartition(".")[2],
            "start_ms": _moment(step["time"].get("start")),
            "end_ms": _moment(step["time"].get("end")),
            "nodes": ",".join(places.get("list") or ()) or places.get("range"),
            "alloc_tres": allocated,
            "gpu_util": _gpu_util(allocated, *busy),
        }


# Lists of nodes


@lru_cache(_MEMORY)
def expand_nodes(text: str, where: str = "") -> list[str]:
    """The names in a list of hosts: 'r[1-2]n[01-03,7],login' has nine; [] for 'None assigned'. Raises
    DataError.
    """
    if text in ("", "None assigned", "(null)", "None"):
        return []
    hosts: list[str] = []
    try:
        for piece in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", text):
            parts = re.findall(r"([^\[\]]+)|\[([^\]]*)\]", piece)
            hosts += map(
                "".join, product(*([fixed] if fixed else numbers_in(ranges) for fixed, ranges in parts))
            )
        if not hosts or text.count("[") != text.count("]"):
            raise ValueError
    except ValueError:
        raise DataError(f"{where}: {text!r} is not a list of nodes") from None
    return hosts


def numbers_in(ranges: str) -> Iterator[str]:
    """The numbers in '01-03,7', with their leading zeros. Raises ValueError."""
    for item in ranges.split(","):
        first, dash, last = item.partition("-")
        for number in range(int(first), int(last if dash else first) + 1):
            yield str(number).zfill(len(first))
