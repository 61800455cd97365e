"""Reading sacct: text with any list of fields and delimiter, two versions of JSON, and unreadable files."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gpucost.collect.slurm.sacct import Notes, SacctFormat, expand_nodes, read_sacct
from gpucost.errors import DataError
from tests.unit.slurm_words import FIELDS, T, jobs, text

WHOLE = text(jobs("1 0 60 n1 1"))
HELD = "cpu=1,gres/gpu=1,node=1"


def read(folder: Path, content: str | bytes, **form: Any) -> tuple[dict[str, list[Any]], Notes]:
    """Columns of a file's runs and, as `step_…`, of its steps."""
    path, notes = folder / "dump", Notes()
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    columns: dict[str, list[Any]] = defaultdict(list)
    for batch in read_sacct(path, SacctFormat(**form), notes):
        for name, values in batch.runs.items():
            columns[name] += values
        for name, values in batch.steps.items():
            columns[f"step_{name}"] += values
    return columns, notes


@pytest.mark.parametrize("mark", ["|", "\x1f", "\t", ";"])
def test_names_may_contain_delimiters_and_newlines(tmp_path: Path, mark: str) -> None:
    for pattern in ("plain", "a{0}b", "{0}{0}", "two\nlines", "qu\"ote's", "ünï ✓", " spaces "):
        name = pattern.format(mark)
        first, second, third = jobs("1 0 60 n1 1\n2 0 60 n1 1\n3 0 60 n1 1")
        columns, _ = read(tmp_path, text([first, second | {"JobName": name}, third], mark))
        assert (columns["name"], columns["job_id"]) == (["job-1", name, "job-3"], [1, 2, 3])


@pytest.mark.parametrize("mark", ["^", "^|^", "@", "~~", ";", "\x1e"])
def test_all_text_forms_of_a_table_give_the_same_rows(tmp_path: Path, mark: str) -> None:
    runs = jobs("""
        job start end nodes  gpus JobName
        1       0  60 n1        1 job-1
        2       0  60 n[1-2]    4 a;b@c""")
    lines = text(runs, mark)
    plain, notes = read(tmp_path, lines, delimiter=mark)
    assert plain["job_id"] == [1, 2] and not notes.is_open
    assert read(tmp_path, lines[:-1])[1].is_open  # the last line has no line end
    headless = lines.partition("\n")[2]
    fields = {"fields": tuple(FIELDS)}
    forms: list[tuple[str | bytes, dict[str, Any]]] = [
        (lines, {}),
        ("\ufeff" + lines, {}),
        (lines.replace("\n", f"{mark}\n"), {}),
        (text(runs, mark, end="\r\n"), {}),
        (lines, fields),
        (headless, fields | {"delimiter": mark}),
    ]
    for content, form in forms:
        assert read(tmp_path, content, **form)[0] == plain, (content, form)


def test_compressed_text_is_read(tmp_path: Path) -> None:
    (tmp_path / "dump.gz").write_bytes(gzip.compress(WHOLE.encode()))
    (batch,) = read_sacct(tmp_path / "dump.gz", SacctFormat(), Notes())
    assert batch.runs["job_id"] == [1]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("what is this\n", "the header is missing"),
        ("JobID|State|Start|End\n1|COMPLETED|1|2\n", "field missing: AllocTRES"),
        ("JobID|State|Start|End|AllocTRES\n1|COMPLETED|1|2|gres/gpu=1\n", "field missing: NodeList"),
        (WHOLE[:-30], "line 2: there are"),
        (WHOLE[:-12], "line 2: the file is truncated in"),
        (WHOLE.replace("job-1", "a|b\nc"), "line 2: there are 16 fields for 15 columns, and no unique way"),
        (WHOLE + "1\n" * 40_000, "line 3: there are 1 fields for 15 columns, and no unique way"),
        (WHOLE.replace("COMPLETED", "gpu"), "line 2: invalid state 'gpu'"),
        (WHOLE.replace(f"n1|{HELD}", f"{HELD}|n1"), "line 2: invalid alloctres 'n1'"),
        (WHOLE.replace(f"|{T}|{T + 60}|", f"|soon|{T + 60}|"), "line 2: invalid time 'soon'"),
        (WHOLE.replace("|n1|", "|n[1-|"), "not a list of nodes"),
        ("       JobID      State  Start\n------------ ---------- ------\n", "columns are for people"),
        ('{"jobs": [', "not complete JSON"),
        ('{"errors": [{"error": "no rights"}], "jobs": []}', "no rights"),
        ('{"partitions": []}', "has no jobs"),
    ],
)
def test_unreadable_text_is_refused_with_its_line(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(DataError, match="dump") as error:
        read(tmp_path, content)
    assert words in error.value.message


def test_local_times_use_the_time_zone_and_a_repeated_hour_is_refused(tmp_path: Path) -> None:
    start, end = "2026-10-25T01:30:00", "2026-10-25T04:30:00"  # clocks went back at three: four hours
    (run,) = jobs("1 0 60 n1 1")
    content = text([run | {"Submit": start, "Start": start, "End": end, "ElapsedRaw": 4 * 3600}])
    runs, notes = read(tmp_path, content, timezone=ZoneInfo("Europe/Berlin"))
    assert notes.has_local_times
    assert runs["start_ms"] == [datetime(2026, 10, 24, 23, 30, tzinfo=UTC).timestamp() * 1000]
    with pytest.raises(DataError, match="line 2: Start to End is an hour off Elapsed"):
        read(tmp_path, content)
    assert not read(tmp_path, text([run | {"Start": f"{start}+0200"}]))[1].has_local_times


def test_node_lists_are_expanded() -> None:
    names = "r1n01 r1n02 r1n03 r1n7 r2n01 r2n02 r2n03 r2n7 login"
    assert expand_nodes("r[1-2]n[01-03,7],login") == names.split()
    assert expand_nodes("None assigned") == expand_nodes("") == []


#: A job that ended on two nodes, with a name that plain text cannot contain, and a job that is still running.
OLDER = f"""{{"meta": {{}}, "errors": [], "jobs": [
    {{"job_id": 1, "name": "a|b\\nc", "cluster": "hpc", "account": "nlp", "user": "ann", "partition": "gpu", "qos": "normal",
      "nodes": "n[1-2]", "state": {{"current": "COMPLETED", "reason": "None"}}, "array": {{"job_id": 0, "task_id": null}},
      "het": {{"job_id": 0, "job_offset": null}}, "reservation": {{"id": 0, "name": 0}},
      "tres": {{"allocated": [{{"type": "cpu", "name": null, "count": 1}}, {{"type": "gres", "name": "gpu:a100", "count": 4}},
          {{"type": "gres", "name": "gpu", "count": 4}}, {{"type": "node", "name": null, "count": 1}}], "requested": []}},
      "time": {{"submission": {T}, "start": {T}, "end": {T + 60}, "elapsed": 60, "eligible": {T}, "suspended": 0}}, "steps": []}},
    {{"job_id": 2, "name": "job-2", "cluster": "hpc", "account": "nlp", "user": "ann", "partition": "gpu", "qos": "normal",
      "nodes": "n1", "state": {{"current": "RUNNING", "reason": "None"}}, "array": {{"job_id": 0, "task_id": null}},
      "het": {{"job_id": 0, "job_offset": null}}, "reservation": {{"id": 0, "name": 0}},
      "tres": {{"allocated": [{{"type": "cpu", "name": null, "count": 1}}, {{"type": "gres", "name": "gpu", "count": 2}},
          {{"type": "node", "name": null, "count": 1}}], "requested": []}},
      "time": {{"submission": {T + 60}, "start": {T + 60}, "end": 0, "elapsed": 7140, "eligible": {T + 60}, "suspended": 0}},
      "steps": []}}]}}"""
NEWER = re.sub(r'"current": ("\w+")', r'"current": [\1]', OLDER).replace(
    '"task_id": null', '"task_id": {"set": false}'
)
NEWER = re.sub(r'"submission": (\d+)', r'"submission": {"set": true, "infinite": false, "number": \1}', NEWER)


def test_json_job_without_end_gets_it_from_elapsed_and_suspended(tmp_path: Path) -> None:
    document = json.loads(NEWER)
    document["jobs"][0]["time"] |= {"end": 0, "elapsed": 360, "suspended": 240}
    runs, _ = read(tmp_path, json.dumps(document))
    assert (runs["end_ms"][0] - runs["start_ms"][0], runs["suspended_ms"][0]) == (600_000, 240_000)


@pytest.mark.parametrize("document", [OLDER, NEWER], ids=["older", "newer"])
def test_json_and_text_give_the_same_rows(tmp_path: Path, document: str) -> None:
    first, second = jobs("1 0 60 n[1-2] a100:4\n2 60 - n1 2")
    plain, _ = read(tmp_path, text([first | {"JobName": "a|b\nc"}, second], "\x1f"))
    found, _ = read(tmp_path, document)
    for name in set(plain) - {"eligible_ms", "reason", "req_tres"}:
        assert found[name] == plain[name], name


#: Totals and averages over tasks, and the utilization of two GPUs: slurmrestd writes "infinite" as all bits set, -1, or a flag.
USAGE = """
{"gpuutil": 90, "gpumem": 1} | {} | 45
{"gpuutil": 0, "gpumem": 5} | {} | 1e-9
{"gpuutil": 0, "gpumem": 0} | {} | 0
{"gpuutil": 18446744073709551615} | {"gpuutil": 90} | null
{"gpuutil": -1} | {} | null
{} | {"gpuutil": 4294967295} | null
{"gpuutil": {"set": true, "infinite": true, "number": 0}} | {"gpuutil": 7} | null
{"gpumem": 7} | {} | null
{"gpuutil": 0, "gpumem": 18446744073709551615} | {} | 0
{} | {"gpuutil": 40} | 40
{} | {"gpuutil": 150} | 75
{} | {} | null"""


@pytest.mark.parametrize("row", USAGE.strip().splitlines())
def test_gpu_utilization_in_json(tmp_path: Path, row: str) -> None:
    document, (total, average, util) = json.loads(NEWER), map(json.loads, row.split("|"))
    one = document["jobs"].pop()
    usage = {
        kind: [{"type": "gres", "name": name, "count": count} for name, count in used.items()]
        for kind, used in (("total", total), ("average", average))
    }
    tree = {"allocated": one["tres"]["allocated"], "requested": usage}
    one["steps"] = [{"step": {"id": "2.batch"}, "time": one["time"], "nodes": {"list": ["n1"]}, "tres": tree}]
    found, _ = read(tmp_path, json.dumps(document | {"jobs": [one]}))
    assert found["step_gpu_util"] == [util]
