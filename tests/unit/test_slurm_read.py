"""What is read of sacct: text of any list of fields and delimiter, JSON of two versions, and what cannot be read."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gpucost.collect.slurm.sacct import Notes, SacctFormat, expand_nodes, read_sacct
from gpucost.errors import DataError
from tests.unit.slurm_words import FIELDS, Job, job, text, tres


def read(folder: Path, content: str | bytes, **form: Any) -> tuple[dict[str, list[Any]], Notes]:
    path = folder / "told"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    notes = Notes()
    runs: dict[str, list[Any]] = defaultdict(list)
    for batch in read_sacct(path, SacctFormat(**form), notes):
        for name, values in batch.runs.items():
            runs[name] += values
    return runs, notes


@pytest.mark.parametrize("mark", ["|", "\x1f", "\t", ";"])
def test_names_hold_what_they_like(tmp_path: Path, mark: str) -> None:
    for pattern in (
        "plain",
        "a{0}b",
        "{0}{0}",
        "two\nlines",
        "a{0}b\nc{0}d",
        "qu\"ote's",
        "ünï ✓",
        " spaces ",
    ):
        name = pattern.format(mark)
        jobs = [job(n, 0, 60, "n1", tres(1), JobName=name if n == 2 else "other") for n in (1, 2, 3)]
        runs, notes = read(tmp_path, text(jobs, mark))
        repaired = 1 if mark in name or "\n" in name else 0
        assert (runs["name"], runs["job_id"], notes.repaired) == (
            ["other", name, "other"],
            [1, 2, 3],
            repaired,
        )


def test_text_may_be_closed_by_delimiters_end_lines_as_windows_does_and_be_zipped(tmp_path: Path) -> None:
    jobs = [job(1, 0, 60, "n1", tres(1)), job(2, 0, 60, "n1", tres(1), JobName="a|b")]
    plain, _ = read(tmp_path, text(jobs))
    assert read(tmp_path, text(jobs).replace("\n", "|\n"))[0] == plain
    assert read(tmp_path, text(jobs, end="\r\n"))[0] == plain
    (tmp_path / "told.gz").write_bytes(gzip.compress(text(jobs).encode()))
    (batch,) = read_sacct(tmp_path / "told.gz", SacctFormat(), Notes())
    assert batch.runs == plain
    headless = text(jobs).partition("\n")[2]
    assert read(tmp_path, headless, fields=tuple(FIELDS))[0] == plain
    assert read(tmp_path, text(jobs), fields=tuple(FIELDS))[0] == plain


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("what is this\n", "no header"),
        ("JobID|State|Start|End\n1|COMPLETED|1|2\n", "no field AllocTRES"),
        (text([job(1, 0, 60, "n1", tres(1))])[:-30], "line 2: there are"),
        ("JobID|State|Start|End|AllocTRES\n1|COMPLETED|1|2|gres/gpu=1\n", "no field NodeList"),
        (text([job(1, 0, 60, "n1", tres(1))])[:-12], "line 2: the file ends within"),
        (text([job(1, 0, 60, "n1", tres(1), State="gpu")]), "line 2: 'gpu' is no state"),
        (text([job(1, 0, 60, tres(1), "n1")]), "line 2: 'n1' is no alloctres"),
        ("       JobID      State  Start\n------------ ---------- ------\n", "columns for people"),
        (text([job(1, 0, 60, "n1", tres(1), Start="soon")]), "line 2: 'soon' is no time"),
        (text([job(1, 0, 60, "n[1-", tres(1))]), "no list of nodes"),
        ('{"jobs": [', "no whole JSON"),
        ('{"errors": [{"error": "no rights"}], "jobs": []}', "no rights"),
        ('{"partitions": []}', "has no jobs"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(DataError, match="told") as error:
        read(tmp_path, content)
    assert words in error.value.message


@pytest.mark.parametrize("mark", ["^", "^|^", "@", "~~", ";", "\x1e"])
def test_a_header_tells_its_delimiter_and_fields_the_one_of_files_without(tmp_path: Path, mark: str) -> None:
    told = text([job(1, 0, 60, "n1", tres(1)), job(2, 0, 60, "n[1-2]", tres(4), JobName="a;b c")], mark)
    plain, _ = read(tmp_path, told, delimiter=mark)
    assert plain["job_id"] == [1, 2]
    assert read(tmp_path, told)[0] == plain == read(tmp_path, "\ufeff" + told)[0]
    if mark in (";", "\x1e"):
        assert read(tmp_path, told.partition("\n")[2], fields=tuple(FIELDS))[0] == plain


def test_a_file_that_does_not_end_its_last_line_is_told_of(tmp_path: Path) -> None:
    told = text([job(1, 0, 60, "n1", tres(1))])
    assert [read(tmp_path, content)[1].is_open for content in (told[:-1], told)] == [True, False]


def test_local_times_count_in_a_zone_and_an_hour_that_comes_twice_is_refused(tmp_path: Path) -> None:
    start, end = "2026-10-25T01:30:00", "2026-10-25T04:30:00"  # clocks went back at three: four hours
    told = job(1, 0, 60, "n1", tres(1), Submit=start, Start=start, End=end, ElapsedRaw=4 * 3600)
    runs, notes = read(tmp_path, text([told]), timezone=ZoneInfo("Europe/Berlin"))
    assert notes.has_local_times
    assert runs["start_ms"] == [datetime(2026, 10, 24, 23, 30, tzinfo=UTC).timestamp() * 1000]
    with pytest.raises(DataError, match="line 2: from Start to End is an hour off Elapsed"):
        read(tmp_path, text([told]))
    assert not read(tmp_path, text([job(1, 0, 60, "n1", tres(1), Start="2026-10-25T01:30:00+0200")]))[
        1
    ].has_local_times


def test_lists_of_nodes() -> None:
    assert expand_nodes("r[1-2]n[01-03,7],login") == [
        *(f"r{r}n{n}" for r in (1, 2) for n in ("01", "02", "03", "7")),
        "login",
    ]
    assert expand_nodes("None assigned") == expand_nodes("") == []


def _json(jobs: list[Job], *, newer: bool) -> str:
    def number(value: float) -> Any:
        return {"set": True, "infinite": False, "number": value} if newer else value

    def one(told: Job) -> dict[str, Any]:
        items = [item.partition("=") for item in told["AllocTRES"].split(",")]
        allocated = [
            {"type": kind.partition("/")[0], "name": kind.partition("/")[2] or None, "count": int(count)}
            for kind, _, count in items
        ]
        state: Any = [told["State"]] if newer else told["State"]
        end = told["End"] if isinstance(told["End"], int) else 0
        return {
            "job_id": told["JobID"], "name": told["JobName"], "cluster": told["Cluster"], "account": told["Account"],
            "user": told["User"], "partition": told["Partition"], "qos": told["QOS"], "nodes": told["NodeList"],
            "state": {"current": state, "reason": "None"}, "array": {"job_id": 0, "task_id": {"set": False} if newer else None},
            "het": {"job_id": 0, "job_offset": None}, "reservation": {"id": 0, "name": 0},
            "tres": {"allocated": allocated, "requested": []},
            "time": {"submission": number(told["Submit"]), "start": told["Start"], "end": end,
                     "elapsed": told["ElapsedRaw"], "eligible": told["Submit"], "suspended": 0},
            "steps": [],
        }  # fmt: skip

    return json.dumps({"meta": {}, "errors": [], "jobs": [one(told) for told in jobs]})


def test_a_job_in_json_without_an_end_ran_and_was_suspended(tmp_path: Path) -> None:
    told = json.loads(_json([job(1, 0, 600, "n1", tres(1))], newer=True))
    told["jobs"][0]["time"] |= {"end": 0, "elapsed": 360, "suspended": 240}
    runs, _ = read(tmp_path, json.dumps(told))
    assert (runs["end_ms"][0] - runs["start_ms"][0], runs["suspended_ms"][0]) == (600_000, 240_000)


@pytest.mark.parametrize("newer", [False, True])
def test_json_says_what_text_does(tmp_path: Path, newer: bool) -> None:
    jobs = [job(1, 0, 60, "n[1-2]", tres(4, "a100"), JobName="a|b\nc"), job(2, 60, None, "n1", tres(1))]
    told, _ = read(tmp_path, _json(jobs, newer=newer))
    plain, _ = read(tmp_path, text(jobs))
    same = set(plain) - {"alloc_tres", "eligible_ms", "reason", "req_tres"}
    assert {name: told[name] for name in same} == {name: plain[name] for name in same}
    assert [set(one.split(",")) for one in told["alloc_tres"]] == [
        set(one.split(",")) for one in plain["alloc_tres"]
    ]


@pytest.mark.parametrize(
    ("total", "average", "util"),
    [
        ({"gpuutil": 90, "gpumem": 1}, {}, 45), ({"gpuutil": 0, "gpumem": 5}, {}, 1e-9), ({"gpuutil": 0, "gpumem": 0}, {}, 0),
        ({"gpuutil": 2**64 - 1}, {"gpuutil": 90}, None), ({"gpuutil": -1}, {}, None), ({}, {"gpuutil": 2**32 - 1}, None),
        ({"gpuutil": {"set": True, "infinite": True, "number": 0}}, {"gpuutil": 7}, None), ({"gpumem": 7}, {}, None),
        ({"gpuutil": 0, "gpumem": 2**64 - 1}, {}, 0), ({}, {"gpuutil": 40}, 40), ({}, {"gpuutil": 150}, 75), ({}, {}, None),
    ],
)  # fmt: skip
def test_usage_in_json(
    tmp_path: Path, total: dict[str, Any], average: dict[str, Any], util: float | None
) -> None:
    """Two GPUs: slurmrestd writes "infinite" as all bits set, as -1, or as a flag."""
    told = json.loads(_json([job(1, 0, 60, "n1", tres(2))], newer=True))
    (one,) = told["jobs"]
    usage = {
        kind: [{"type": "gres", "name": name, "count": count} for name, count in used.items()]
        for kind, used in (("total", total), ("average", average))
    }
    tree = {"allocated": one["tres"]["allocated"], "requested": usage}
    one["steps"] = [{"step": {"id": "1.batch"}, "time": one["time"], "nodes": {"list": ["n1"]}, "tres": tree}]
    (tmp_path / "told").write_text(json.dumps(told))
    (batch,) = read_sacct(tmp_path / "told", SacctFormat(), Notes())
    assert batch.steps["gpu_util"] == [util]
