"""`gpucost collect slurm` of a real Slurm: while jobs run and after, held against Slurm's own accounting."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from tests.services.slurm_cluster import CLUSTER, SlurmCluster, missing

pytestmark = [pytest.mark.ci]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    if lacking := missing():
        packages = "slurmctld slurmd slurmdbd slurm-client slurm-wlm-basic-plugins slurmrestd slurm-wlm-jwt-plugin mariadb-server"
        message = f"not installed: {', '.join(lacking)} (Debian: .ci/install-server {packages})"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    base = tmp_path_factory.mktemp("slurm")
    for folder in (base, *base.parents[:3]):
        if folder.name.startswith(("slurm", "pytest", "popen")):
            # daemons and jobs of other users reach into it
            folder.chmod(0o755)
    cluster = SlurmCluster(base)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def states(slurm: SlurmCluster) -> dict[str, list[str]]:
    """The states of the runs of each job, by its number."""
    found = defaultdict(list)
    for line in slurm.run("sacct", "-a", "-D", "-X", "-n", "-P", "-o", "JobIDRaw,State").splitlines():
        job, state = line.split("|")
        found[job].append(state.partition(" ")[0])
    return found


def ask(folder: Path, *words: str) -> Any:
    result = CliRunner().invoke(app, [*words, "--config", str(folder / "gpucost.toml")])
    assert result.exit_code == 0, result.output
    return result


def held(folder: Path, by: str) -> dict[str, float]:
    """GPU-seconds of the last two days and the next, by a dimension."""
    start, end = ((datetime.now(UTC) + timedelta(days=days)).strftime("%Y-%m-%d") for days in (-2, 1))
    answer = json.loads(
        ask(folder, "report", "--from", start, "--to", end, "--by", by, "--format", "json").stdout
    )
    return {
        row[by]: row["allocated_gpu_hours"] * 3600 for row in answer["rows"] if row["kind"] == "allocated"
    }


def test_jobs_of_every_ending_are_what_slurm_bills(
    slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    (tmp_path / "gpucost.toml").write_text('store = "slurm.duckdb"\n[slurm]\nsacct = "sacct"\n')
    one, submit = ("-n1", "--gres=gpu:a100:1"), slurm.submit
    again = 'if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then sleep 3; else sleep 300; fi'
    submit("games", "llama-sft", "srun --mem=50 sleep 6", "-n1", "--gres=gpu:a100:2")
    submit("news", "sweep|of\npipes", "sleep 2", "-a", "0-2%2", *one)
    submit("news", "fails", "sleep 1; exit 7", "-n1", "--gres=gpu:v100:1")
    submit("www-data", "it's un_typed é", "sleep 3", "-p", "inference", "-n1", "--gres=gpu:1")
    cancelled = submit("games", "cancelled", "sleep 300", "-n1", "--gres=gpu:1")
    never = submit("games", "never ran", "true", "-n1", "--gres=gpu:1", "--begin=now+1hour")
    submit("games", "two nodes", "srun --mem=50 sleep 4", "-N2", "--ntasks-per-node=1", "--gres=gpu:a100:1")
    submit("news", "no gpu", "sleep 2", "-n1")
    slurm.run(
        *("sbatch", "--parsable", "--uid=games", "-A", "team-nlp", "-D", "/", "-o", "/dev/null", "-J", "het"),
        *("--mem=100", *one, ":", "-n1", "--mem=100", "--gres=gpu:v100:1", "--wrap", "sleep 3"),
    )
    time.sleep(6)
    slurm.run("scancel", cancelled, never)
    requeued = submit("news", "requeued", again, "--requeue", *one)
    slurm.wait("the job to be requeued", lambda: states(slurm)[requeued] == ["RUNNING"])
    time.sleep(1.5)
    slurm.run("scontrol", "requeue", requeued)
    victim = submit("games", "victim", again, "--requeue", "-N1", "-w", "n1", "-n1", "--gres=gpu:a100:4")
    slurm.wait("the victim", lambda: states(slurm)[victim] == ["RUNNING"], 120)
    time.sleep(1.5)
    submit("www-data", "urgent", "sleep 2", "--qos=high", "-N1", "-w", "n1", "-n1", "--gres=gpu:a100:4")
    slurm.wait("the preemption", lambda: "PREEMPTED" in states(slurm)[victim])
    running = submit("games", "still running", "sleep 900", "-n1", "--gres=gpu:v100:1")
    pending = submit("news", "still pending", "sleep 1", "-n1", "--gres=gpu:v100:2")
    slurm.wait("the running job", lambda: states(slurm)[running] == ["RUNNING"])
    assert states(slurm)[pending] == ["PENDING"]

    # while they run, and again: nothing doubles
    first = ask(tmp_path, "collect", "slurm")
    assert f"of {CLUSTER}" in first.stdout and "2 nodes" in first.stdout, first.output
    assert "nodes of jobs with the GPUs" in first.stdout, first.output
    early = held(tmp_path, "namespace")
    assert set(early) == {"team-nlp", "team-cv", "product"}
    assert "nothing is new" not in first.stdout
    for job in (requeued, victim):
        slurm.run("scontrol", "update", f"JobId={job}", "StartTime=now", check=False)
    slurm.run("scancel", running)
    slurm.wait("all to end", lambda: not slurm.run("squeue", "-h").strip(), 200)
    ask(tmp_path, "collect", "slurm")
    ask(tmp_path, "collect", "slurm")

    ended = states(slurm)
    # how the second run ends depends on how soon the first is cleaned up
    assert [runs[0] for runs in (ended[requeued], ended[victim])] == ["REQUEUED", "PREEMPTED"]
    assert len(ended[requeued]) == len(ended[victim]) == 2
    expected: dict[str, float] = defaultdict(float)
    shown = slurm.run(
        "sacct",
        "-a",
        "-D",
        "-X",
        "-n",
        "-P",
        "--delimiter=\x1f",
        "-o",
        "Account,ElapsedRaw,AllocTRES,JobName",
    )
    for record in shown.split("\n"):
        account, elapsed, tres, *_ = [*record.split("\x1f"), "", ""]
        gpus = dict(item.split("=") for item in tres.split(",") if "=" in item).get("gres/gpu", "0")
        expected[account] += float(elapsed or 0) * float(gpus)
    found = held(tmp_path, "namespace")
    assert {name: round(value, 3) for name, value in found.items()} == {
        name: value for name, value in expected.items() if value
    }
    names = held(tmp_path, "workload")
    assert {"Job/sweep|of\npipes", "Job/it's un_typed é", "Job/two nodes", "Job/het"} <= set(names), sorted(
        names
    )
    assert held(tmp_path, "account").keys() == {"research", "product"}
    nodes = held(tmp_path, "node")
    assert set(nodes) == {"n1", "n2"} and sum(nodes.values()) == pytest.approx(
        sum(expected.values()), abs=0.01
    )

    checks = CliRunner().invoke(app, ["doctor", "--config", str(tmp_path / "gpucost.toml")]).output
    assert f"sacct: answers for {CLUSTER}" in checks, checks

    # slurmrestd says the same
    other = tmp_path / "other"
    other.mkdir()
    url, token = slurm.rest()
    monkeypatch.setenv("SLURM_JWT", token)
    monkeypatch.setenv("SLURM_USER_NAME", "root")
    (other / "gpucost.toml").write_text(f'store = "other.duckdb"\n[slurm]\nslurmrestd = "{url}"\n')
    assert "2 nodes" in ask(other, "collect", "slurm").stdout
    assert held(other, "namespace") == pytest.approx(found, abs=0.01)
    assert held(other, "workload") == pytest.approx(names, abs=0.01)
    assert held(other, "account").keys() == {"research", "product"}
    monkeypatch.setenv("SLURM_JWT", f"{token}x")
    result = CliRunner().invoke(app, ["collect", "slurm", "--config", str(other / "gpucost.toml")])
    assert result.exit_code == 1 and "error" in result.output, result.output
    monkeypatch.delenv("SLURM_JWT")

    # Slurm's own report knows complete hours alone: what was is put two hours back, and rolled up
    bill = slurm.rolled_up(hours=2)
    assert {name: value for name, value in bill.items() if name in found} == {
        name: round(value) for name, value in found.items()
    }
    # the machines' idle and down time with it is what nodes cost
    later = tmp_path / "later"
    later.mkdir()
    (later / "gpucost.toml").write_text('store = "later.duckdb"\n[slurm]\nsacct = "sacct"\n')
    start = (datetime.now(UTC) - timedelta(hours=3)).strftime("%Y-%m-%dT%H:00Z")
    ask(later, "collect", "slurm", "--from", start)
    assert held(later, "namespace") == pytest.approx(found, abs=0.01)
