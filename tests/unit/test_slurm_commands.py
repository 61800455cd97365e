"""`gpucost collect slurm` and the commands that use its data: messages about files, calls of Slurm, its queue."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from gpucost.collect.slurm.live import Commands
from gpucost.config.model import Config
from gpucost.doctor import OK, check_slurm
from tests.text_tables import text_rows
from tests.unit.command import call
from tests.unit.slurm_words import ALL_GPUS, FIELDS, HEADER, NODES, H, T, jobs, text

DAY = ("--from", "2026-03-10", "--to", "2026-03-11")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a config and a price book."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prices.csv").write_text(f"{HEADER}\n{ALL_GPUS}\n")
    (tmp_path / "gpucost.toml").write_text('store = "a.duckdb"\n[prices]\nbook = "prices.csv"\n')
    return tmp_path


def collect(*texts: str, more: tuple[str, ...] = (), code: int = 0) -> str:
    """The output for files with these texts."""
    names = [f"sacct-{number}.txt" for number, _ in enumerate(texts)]
    for name, content in zip(names, texts, strict=True):
        Path(name).write_text(content, encoding="utf-8")
    return "".join(call("collect", "slurm", *names, *more, code=code))


@pytest.mark.usefixtures("folder")
def test_waits_dollars_and_fair_share() -> None:
    """One of two started jobs waited 10 minutes and was preempted; sshare's shares are next to the dollars."""
    shares = (
        "Account|User|RawShares|NormShares|RawUsage|NormUsage|EffectvUsage|FairShare\n"
        "root|||0.000000|100||1.000000|\n nlp||60|0.6|75||0.75|\n  nlp|ann|1|1.0|75||0.75|0.25\n"
    )
    dump = text(jobs("""
        job start  end nodes gpus   State     Submit QOS    Partition
        1       0 3600 n1    a100:4 COMPLETED      0 normal gpu
        2     600 2400 n1    2      PREEMPTED      0 low    debug
        3       -    - -     -      PENDING        0 normal gpu"""))  # fmt: skip
    output = collect(dump, NODES, shares, more=DAY)
    assert "3 job runs of hpc" in output and "2 nodes" in output
    assert "no new data" in collect(dump, NODES, shares, more=DAY)
    answer = json.loads(call("queue", *DAY, "--format", "json")[0])
    waits = {(one["by"], one["name"]): one for one in answer["slurm_waits"]}
    assert set(waits) == {*text_rows("partition|gpu\npartition|debug\nqos|normal\nqos|low\naccount|nlp")}
    low = waits["qos", "low"]
    assert (low["started"], low["wait_p50_seconds"], low["preempted"]) == (1, 600, 1)
    # n1 is over-allocated for half an hour: six GPUs of four
    assert low["cost"] == low["preempted_cost"] == pytest.approx(3.6 * 0.5 * 4 * 2 / 6)
    assert waits["account", "nlp"]["wait_p95_seconds"] == pytest.approx(570)
    account, user = (one for one in answer["slurm_shares"] if one["account"] == "nlp")
    assert (account["user"], account["cost_share"]) == (None, 1.0)
    assert (user["user"], user["fair_share"]) == ("ann", 0.25)
    assert account["cost"] == pytest.approx(waits["account", "nlp"]["cost"]) == pytest.approx(3.6 * 4)
    collect("Cluster|Account|User|ParentName\nhpc|root||\nhpc|nlp||root\n")
    answer = json.loads(call("queue", *DAY, "--format", "json")[0])
    assert [one["cost"] for one in answer["slurm_shares"] if one["account"] == "root"] == [account["cost"]]
    shown = call("queue", *DAY)[0]
    assert "Jobs by QOS" in shown and "Fair share, from sshare" in shown and "10 min" in shown


@pytest.mark.usefixtures("folder")
def test_messages_about_files() -> None:
    dump = text(jobs("1 0 60 n1 1"))
    # one unreadable file: no file is loaded
    assert "line 2" in collect(dump, dump[:-30], code=1)
    assert "store not found" in call("report", code=1)[1]
    assert "may be cut off" in collect(dump[:-1], NODES)
    assert "may be cut off" not in collect(dump, NODES)
    fields = "JobID,Account,State,Start,End,NodeList,AllocTRES"
    row = f"2|nlp|COMPLETED|{T}|{T + 60}|n1|gres/gpu=1\n"
    assert "2 nodes" in collect(row, NODES, more=("--fields", fields, "--cluster", "hpc"))


def commands(folder: Path, **printed: str) -> str:
    """Programs that always print the same text; returns the path of sacct."""
    folder.mkdir(exist_ok=True)
    for name in ("sacct", "scontrol", "sacctmgr", "sshare"):
        (folder / f"{name}.txt").write_text(printed.get(name, ""))
        program = folder / name
        program.write_text(
            f'#!/bin/sh\ncase "$*" in *helpformat*) echo "{" ".join(FIELDS)}";; *) cat {folder}/{name}.txt;; esac\n'
        )
        program.chmod(0o755)
    return f"{folder}/sacct"


def test_slurm_is_queried_one_day_at_a_time(folder: Path) -> None:
    sacct = commands(
        folder / "bin", sacct=text(jobs("1 0 3600 n1 1"), "\x1f"), scontrol="ClusterName = hpc\n"
    )
    output, _ = call("collect", "slurm", "--sacct", sacct, "--from", "2026-03-10", "--to", "2026-03-12")
    assert "2 job runs of hpc, 2026-03-10T00:00:00Z .. 2026-03-12T00:00:00Z" in output
    # a failed query is reported, and the jobs are loaded anyway
    spans, runs = "SELECT to_ms - from_ms AS n FROM loads", "SELECT job_id AS n FROM slurm_runs"
    found = json.loads(call("sql", f"{spans} UNION ALL BY NAME {runs} ORDER BY n", "--format", "json")[0])
    assert [row["n"] for row in found] == [1, 24 * H * 1000, 24 * H * 1000]
    assert "sacct failed" in call("collect", "slurm", "--sacct", f"{folder}/none/sacct", code=1)[1]


def test_doctor_prints_correct_commands(tmp_path: Path) -> None:
    sacct = commands(tmp_path / "bin", scontrol="ClusterName = hpc\n")
    answers, billed, placed = check_slurm(Config.model_validate({"slurm": {"sacct": sacct}}))
    assert answers.status == OK and "answers for hpc" in answers.found
    assert (
        billed.found.startswith("TZ=UTC SLURM_TIME_FORMAT=%s sacct -a -D -X ")
        and "--delimiter=$'\\x1f'" in billed.found
    )
    assert placed.found == billed.found.replace(" -X", "")


@pytest.mark.parametrize(
    ("private", "level", "hides"),
    [("none", "", None), ("jobs,usage", "Operator", None), ("jobs", "None", "jobs")],
)
def test_slurm_that_hides_jobs_of_other_users_is_detected(
    private: str, level: str, hides: str | None
) -> None:
    class PrivateSlurm(Commands):
        def run(self, _: str, *args: str) -> str:
            settings = f"ClusterName = hpc\nPrivateData = {private}\nPurgeJobAfter = 12 months\n"
            return f"{level}\n" if "user" in args else settings

        def _plain(self, *_: str) -> str:
            return "analyst\n"

    slurm = PrivateSlurm("sacct")
    assert slurm.cluster() == "hpc" and slurm.retention() == timedelta(days=336)
    assert slurm.hidden() == hides


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_more_jobs_than_a_row_group_are_all_loaded() -> None:
    """DuckDB 2.0 loses 122,880 rows inserted into an empty table in the same transaction."""
    lines = (
        f"{n}|nlp|COMPLETED|{T + n % 7000}|{T + n % 7000 + 60}|n{n % 50}|gres/gpu=1" for n in range(130_000)
    )
    collect("\n".join(("JobID|Account|State|Start|End|NodeList|AllocTRES", *lines, "")))
    answer = json.loads(call("report", *DAY, "--by", "namespace", "--format", "json")[0])
    (held,) = [row["allocated_gpu_hours"] for row in answer["rows"] if row["kind"] == "allocated"]
    assert held * H == pytest.approx(130_000 * 60)
