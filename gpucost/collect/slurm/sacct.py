"""Reads what sacct tells of jobs: delimited text with any list of fields, and JSON."""

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
from gpucost.records import record

# The columns of the store's tables slurm_runs and slurm_steps.
_RUN_COLUMNS = """
    cluster job_id submit_ms job array_job_id name user account partition qos state reason
    eligible_ms start_ms end_ms elapsed_ms suspended_ms nodes req_tres alloc_tres reservation
"""
_STEP_COLUMNS = "cluster job_id step start_ms end_ms nodes alloc_tres gpu_util"
# What is asked of sacct: enough for every figure, and for every doubt.
_FIELDS = """
    JobID JobIDRaw JobName Cluster Partition Account User QOS State Reason Submit Eligible Start End ElapsedRaw
    Suspended NNodes NodeList ReqTRES AllocTRES TRESUsageInAve TRESUsageInTot Reservation
"""
FIELDS = _FIELDS.split()
# As a shell writes it: no name of a job holds it.
DELIMITER = "\x1f"
# Slurm's numbers of jobs are smaller.
MADE_UP = 1 << 62
DEFAULT_CLUSTER = "slurm"
_ROWS_AT_ONCE = 100_000
_LONGEST_RECORD = 65_536
_MEMORY = 200_000


def sacct_command(*, steps: bool = False) -> str:
    """The command whose answer is right whatever a job is called and wherever its clock stands; `steps`: with placement."""
    jobs = "" if steps else " -X"
    asked = f"sacct -a -D{jobs} -S now-7days -E now --parsable2 --delimiter=$'\\x1f' -o {','.join(FIELDS)}"
    return f"TZ=UTC SLURM_TIME_FORMAT=%s {asked}"


@record
class SacctFormat:
    """What a file does not say of itself: its fields (no header), delimiter, cluster, and the time zone of its local times."""

    fields: tuple[str, ...] | None = None
    delimiter: str | None = None
    cluster: str | None = None
    timezone: ZoneInfo = ZoneInfo("UTC")


@dataclass(slots=True)
class Notes:
    """What a reader should be told of a file: local times without an offset, a last line that does not end."""

    has_local_times: bool = False
    is_open: bool = False


class Batch(NamedTuple):
    """Runs of jobs and steps with generic resources, a list for each column."""

    runs: dict[str, list[Any]]
    steps: dict[str, list[Any]]

    @classmethod
    def empty(cls) -> Batch:
        """Columns without rows."""
        return cls({name: [] for name in _RUN_COLUMNS.split()}, {name: [] for name in _STEP_COLUMNS.split()})

    def add(self, row: JsonObject, where: str) -> None:
        """Put a record among the steps or the runs; its `nodes` are a list of hosts. Raises ValueError, DataError."""
        columns, start = self.steps, row["start_ms"]
        if row.get("step") is None:
            columns, end, elapsed = self.runs, row["end_ms"], row["elapsed_ms"]
            if start is not None and end is None and elapsed is not None and row["state"] not in _UNENDED:
                end = start + elapsed + row["suspended_ms"]
            if start is not None and end is not None and elapsed is None:
                elapsed = end - start
            submit = start if row["submit_ms"] is None else row["submit_ms"]
            if submit is None:
                raise ValueError("neither Submit nor Start tells when the job was")
            # sacct --truncate ends it with what was asked for
            end = None if row["state"] in _GOING_ON else end
            row |= {"submit_ms": submit, "end_ms": end, "elapsed_ms": elapsed}
        elif start is None or "gres/" not in (row["alloc_tres"] or ""):
            return
        row["nodes"] = expand_nodes(row["nodes"] or "", where)
        for name, values in columns.items():
            values.append(row.get(name))


def read_sacct(source: Path, form: SacctFormat, notes: Notes) -> Iterator[Batch]:
    """The file's records in batches. Raises DataError, naming the line, where it cannot be read without guessing."""
    opening: Any = gzip.open if source.suffix == ".gz" else open
    try:
        with opening(source, "rb") as file:
            yield from read_records(file, str(source), form, notes)
    except (OSError, EOFError) as error:
        raise DataError(f"cannot read {source}: {getattr(error, 'strerror', None) or error}") from None


def read_records(file: IO[bytes], name: str, form: SacctFormat, notes: Notes) -> Iterator[Batch]:
    """The same of an open file or an answer."""
    start = file.read(1)
    while start.isspace() or start in _BYTE_ORDER_MARK:
        start = file.read(1)
    if start == b"{":
        content = start + file.read(inputs.ANSWER)
        if len(content) > inputs.ANSWER:
            raise DataError(
                f"{name} holds more than {inputs.ANSWER // inputs.MIB} MiB of JSON", "take fewer days"
            )
        try:
            answer = inputs.parse_json(content)
        except ValueError as error:
            raise DataError(
                f"{name} is no whole JSON: {error}", "run the command again, and let it finish"
            ) from None
        yield from read_answer(answer, name, form)
    elif start:
        rest = inputs.lines(file, name)
        lines = (line.decode("utf-8", "replace") for line in chain([start + next(rest, b"")], rest))
        yield from _Text(name, form, notes).batches(lines)


_BYTE_ORDER_MARK = (b"\xef", b"\xbb", b"\xbf")


# Text

# What people write: the delimiter, or new lines, may stand in it.
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
def _is_one(name: str, text: str) -> bool:
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
        return DataError(
            f"{self.name}, line {line}: {message}",
            f"{sacct_command()} gives what is needed; --json does, too",
        )

    def batches(self, lines: Iterable[str]) -> Iterator[Batch]:
        numbered = enumerate(self._ended(lines), start=1)
        number, first = next(numbered)
        columns, delimiter, has_header = self._columns(first)
        # --parsable ends each record with the delimiter
        is_closed = has_header and first.count(delimiter) == len(columns)
        records = numbered if has_header else chain([(number, first)], numbered)
        batch = Batch.empty()
        for rows, (place, parts) in enumerate(self._records(columns, delimiter, is_closed, records), start=1):
            last, is_right = parts[-1], _CHECKS.get(columns[-1], bool)
            if self.notes.is_open and last and (not is_right(last) or last[-1] in "=,/[-"):
                raise self.error(place, f"the file ends within {last!r}: it is cut off")
            try:
                row = self._row(dict(zip(columns, parts, strict=True)))
                # one that waits without Submit: nothing tells since when
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
        """What stands between the names of a header; without one, `|` or sacct's as gpucost asks for it."""
        if {"jobid", "jobidraw"} & set(re.split(r"\W+", first.lower())):
            between = re.match(r"\w+(?:%-?\d+)?(\W+?)(?=\w)", first)
            if between and re.fullmatch("  +", between[1]):
                raise self.error(1, "these are columns for people, which cut what is too long")
            return between[1] if between else "|"
        return DELIMITER if DELIMITER in first else "|"

    def _columns(self, first: str) -> tuple[tuple[str, ...], str, bool]:
        """The fields, lower-cased, the delimiter, and whether the first line is a header."""
        found = self._delimiter(first) if self.form.delimiter is None else self.form.delimiter
        names = tuple(
            re.sub(r"%-?\d+$", "", part).strip().lower().replace("_", "") for part in first.split(found)
        )
        has_header = bool({"jobid", "jobidraw"} & set(names))
        if has_header:
            columns = names[:-1] if names[-1] == "" else names
            if self.form.fields and tuple(one.strip().lower() for one in self.form.fields) != columns:
                fields = ", ".join(self.form.fields)
                raise self.error(
                    1, f"the header names {len(columns)} fields, --fields names others: {fields}"
                )
        elif self.form.fields:
            columns = tuple(one.strip().lower() for one in self.form.fields)
        else:
            raise self.error(
                1, "there is no header, so that nothing tells which field is which: --fields lists them"
            )
        missing = [names for names in _NEEDED if not {*names.lower().split(" or ")} & {*columns}]
        if missing:
            raise self.error(1, f"there is no field {missing[0]}")
        return columns, found, has_header

    def _records(
        self, columns: tuple[str, ...], delimiter: str, is_closed: bool, lines: Iterator[tuple[int, str]]
    ) -> Iterator[tuple[int, list[str]]]:
        """Each record with its line; names that hold the delimiter, or new lines, are put together."""
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
                # a record that is cut off, and the next one, would make one that fits
                ways = [] if surplus and pending else self._ways(columns, parts, delimiter)
                if len(ways) != 1:
                    fields = f"there are {len(parts)} fields for {len(columns)} columns"
                    raise self.error(begun, f"{fields}, and no one way to cut them")
                (parts,) = ways
            pending = ""
            yield begun, parts
        if pending:
            fields = f"there are {len(pending.split(delimiter))} fields for {len(columns)} columns"
            raise self.error(begun, f"{fields}: the record is cut off")

    @staticmethod
    def _ways(columns: tuple[str, ...], parts: list[str], delimiter: str) -> list[list[str]]:
        """All ways to cut a record in which every field is what it should be."""
        surplus = len(parts) - len(columns)
        free = [place for place, name in enumerate(columns) if name in _FREE.split()]
        ways = []
        for chosen in combinations_with_replacement(free, surplus) if 0 <= surplus < 12 else ():
            rest, row = iter(parts), []
            for place in range(len(columns)):
                row.append(delimiter.join(next(rest) for _ in range(1 + chosen.count(place))))
            known = [(name, value) for name, value in zip(columns, row, strict=True) if name in _CHECKS]
            if all(_is_one(name, value) for name, value in known):
                ways.append(row)
        return ways

    def _row(self, record: Mapping[str, str]) -> JsonObject:
        """Raises ValueError."""
        row = {name: text or None for name, text in record.items()}
        get = row.get
        shown, raw = get("jobid") or get("jobidraw") or "", get("jobidraw") or get("jobid") or ""
        number, _, step = raw.partition(".")
        digits = re.match(r"\d+", number)
        if digits is None:
            raise ValueError(f"{raw!r} is no number of a job")
        for name in ("state", "alloctres"):
            text = get(name) or ""
            if not _is_one(name, text):
                raise ValueError(f"{text!r} is no {name}: are these the fields, in this order?")
        moments = {name: self.clock(get(name)) for name in ("submit", "eligible", "start", "end")}
        start, end = moments["start"], moments["end"]
        elapsed, suspended = _length(get("elapsedraw") or get("elapsed")), _length(get("suspended")) or 0
        step = step or shown.partition(".")[2]
        if start is not None and end is not None and elapsed is not None and not step:
            # sacct's Elapsed leaves out what was suspended
            off = end - start - elapsed - suspended
            if abs(abs(off) - 3_600_000) < 1500 and self.notes.has_local_times:
                raise ValueError(
                    "from Start to End is an hour off Elapsed: the clocks changed, and these times are local"
                )
        tres = get("alloctres")
        array = re.match(r"(\d+)_", shown)
        usage = (_usage(get(name)) for name in ("tresusageintot", "tresusageinave"))
        return {
            **row,
            "cluster": get("cluster") or self.form.cluster or DEFAULT_CLUSTER,
            "job_id": int(digits[0]) if "jobidraw" in row else _job_id(number),
            "step": step or None,
            "job": shown,
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


def _job_id(shown: str) -> int:
    """The number of the job '17'; of '17_3' and '17+1', which have their own that is not told, one beyond all of Slurm's."""
    match = re.fullmatch(r"(\d+)([_+])(\d+)", shown)
    if match is None:
        return int(re.match(r"\d*", shown)[0])  # type: ignore[index]
    return MADE_UP + (int(match[1]) << 24) + 2 * int(match[3]) + (match[2] == "+")


Clock = Callable[[str | None], int | None]


def clock_of(form: SacctFormat, notes: Notes) -> Clock:
    """Reads a moment in milliseconds since 1970, None where there is none; local times count in the form's zone.

    It raises ValueError.
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
            raise ValueError(f"{text!r} is no time") from None
        if at.tzinfo is None:
            notes.has_local_times = True
            at = at.replace(tzinfo=form.timezone)
        return round(at.timestamp() * 1000)

    return clock


_ELAPSED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d\d(?:\.\d+)?)")


def _length(text: str | None) -> int | None:
    """Milliseconds of '10-13:27:06', '27:06.5' or '97626' seconds. Raises ValueError."""
    if not text or text == "INVALID":
        return None
    if text.isdigit():
        return int(text) * 1000
    match = _ELAPSED.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no length of time")
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return round(1000 * (days * 86400 + hours * 3600 + minutes * 60 + seconds))


def _usage(text: str | None) -> dict[str, float | None]:
    """What a step used of its GPUs: 'gres/gpumem=40M,gres/gpuutil=90' as {'gpumem': 41943040.0, 'gpuutil': 90.0}."""
    found = re.findall(r"gres/(gpumem|gpuutil)=(\d+(?:\.\d+)?)([KMGTPE]?)", text or "")
    return {name: float(number) * 1024 ** " KMGTPE".index(unit or " ") for name, number, unit in found}


# Percent that a step at least has whose GPUs' memory was used: they were measured, unlike zeros of plugins that cannot.
_USED_MEMORY = 1e-9


def _gpu_util(
    tres: str | None, total: dict[str, float | None], average: dict[str, float | None]
) -> float | None:
    """The mean over a step's GPUs, 0 to 100, of what jobacct_gather says in percent of one GPU: `total` of all tasks, else each.

    A task's own figure is the sum over the GPUs that it keeps busy, of the total as of the average over tasks
    (https://slurm.schedmd.com/gres.html#GPU_utilization). Of an average alone, each GPU is taken to have its task, or one all.
    """
    held = re.search(r"gres/gpu=(\d+)", tres or "")
    gpus = max(1, int(held[1]) if held else 1)
    usage = average | total
    busy, memory = usage.get("gpuutil"), usage.get("gpumem") or 0
    # more is a plugin's "infinite" (all bits set), alone or as the mean of tasks; so it is of bytes
    if busy is None or not 0 <= busy <= 1e7:
        return None
    if "gpuutil" in total or busy > 100:
        busy /= gpus
    return min(100.0, max(busy, _USED_MEMORY if 0 < memory <= 2**53 else 0))


# JSON


def read_answer(answer: Any, name: str, form: SacctFormat) -> Iterator[Batch]:
    """The records of `sacct --json`, or of slurmrestd's /slurmdb/vX/jobs: data parsers of Slurm 22.05 to 25.x."""
    # an answer without jobs is one, though older versions call that an error
    errors = [one for one in answer.get("errors") or () if "nothing found" not in str(one).lower()]
    if errors:
        first = errors[0]
        raise DataError(f"{name}: Slurm says {first.get('error') or first.get('description') or first}")
    if "jobs" not in answer:
        raise DataError(f"{name} has no jobs: {', '.join(answer) or 'it is empty'}", "sacct -a -D --json")
    batch = Batch.empty()
    for job in answer["jobs"]:
        try:
            for row in _rows(job, form.cluster):
                batch.add(row, row["cluster"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"{name}: job {job.get('job_id')} cannot be read: {error!r}") from None
        if len(batch.runs["job_id"]) >= _ROWS_AT_ONCE:
            yield batch
            batch = Batch.empty()
    yield batch


def _number(value: Any) -> float | None:
    """A number, or one in {"set": true, "infinite": false, "number": 5}."""
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set", True) and not value.get("infinite") else None
    if not isinstance(value, int | float | str) or value == "":
        return None
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value} is no number")
    return number


def _milliseconds(value: Any) -> int | None:
    return None if (number := _number(value)) is None else round(1000 * number)


def _moment(value: Any) -> int | None:
    return _milliseconds(value) or None


def _tres(items: Any) -> str | None:
    """[{"type": "gres", "name": "gpu:a100", "count": 2}] as AllocTRES says it."""
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
    shown = str(job_id)
    if array_id and (task := _number(array.get("task_id"))) is not None:
        shown = f"{array_id}_{task:.0f}"
    elif array_id and array.get("task"):
        shown = f"{array_id}_[{array['task']}]"
    elif het_id:
        shown = f"{het_id}+{_number(het.get('job_offset')) or 0:.0f}"
    held = (job.get("reservation") or {}).get("name")
    reason = job["state"].get("reason") if isinstance(job["state"], Mapping) else None
    shared = {"cluster": str(job.get("cluster") or cluster or DEFAULT_CLUSTER), "job_id": job_id}
    yield {
        **shared,
        **{name: job.get(name) or None for name in ("name", "user", "account", "partition", "qos")},
        "job": shown,
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
    """The names in a list of hosts: 'r[1-2]n[01-03,7],login' has nine; [] of 'None assigned'. Raises DataError."""
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
        raise DataError(f"{where}: {text!r} is no list of nodes") from None
    return hosts


def numbers_in(ranges: str) -> Iterator[str]:
    """The numbers in '01-03,7', as long as they are written. Raises ValueError."""
    for item in ranges.split(","):
        first, dash, last = item.partition("-")
        for number in range(int(first), int(last if dash else first) + 1):
            yield str(number).zfill(len(first))
