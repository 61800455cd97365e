"""`gpucost collect slurm` of a real Slurm: while jobs run and after, held against Slurm's own accounting."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from tests.programs import require
from tests.services.slurm_cluster import CLUSTER, PROGRAMS, SlurmCluster
from tests.unit.command import call

pytestmark = [pytest.mark.ci]
PACKAGES = "slurmctld slurmd slurmdbd slurm-client slurm-wlm-basic-plugins slurmrestd slurm-wlm-jwt-plugin mariadb-server"


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[SlurmCluster]:
    require(*PROGRAMS.split(), package=PACKAGES)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if folder.name.startswith(("test_", "pytest", "popen")):
            folder.chmod(0o755)  # daemons and jobs of other users reach into it
    (tmp_path / "slurm").mkdir()
    cluster = SlurmCluster(tmp_path / "slurm")
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


def collect(folder: Path, settings: str, code: int = 0) -> tuple[str, str]:
    """What a run says that collects into a store in this folder."""
    folder.mkdir(exist_ok=True)
    (folder / "gpucost.toml").write_text(f'store = "slurm.duckdb"\n[slurm]\n{settings}\n')
    return call("collect", "slurm", "--config", str(folder / "gpucost.toml"), code=code)


def held(folder: Path, by: str) -> dict[str, float]:
    """GPU-seconds of the last two days and the next, by a dimension."""
    start, end = ((datetime.now(UTC) + timedelta(days=days)).strftime("%Y-%m-%d") for days in (-2, 1))
    words = f"report --from {start} --to {end} --by {by} --format json --config {folder}/gpucost.toml"
    rows = [row for row in json.loads(call(*words.split())[0])["rows"] if row["kind"] == "allocated"]
    return {row[by]: row["allocated_gpu_hours"] * 3600 for row in rows}


#: User, name, script and options of jobs.
JOBS = """
games    | llama-sft        | srun --mem=50 sleep 6   | -n1 --gres=gpu:a100:2
news     | sweep|of         | sleep 2                 | -a 0-2%2 -n1 --gres=gpu:a100:1
news     | fails            | sleep 1; exit 7         | -n1 --gres=gpu:v100:1
www-data | it's un_typed é  | sleep 3                 | -p inference -n1 --gres=gpu:1
games    | two nodes        | srun --mem=50 sleep 4   | -N2 --ntasks-per-node=1 --gres=gpu:a100:1
news     | no gpu           | sleep 2                 | -n1
games    | het              | sleep 3                 | -n1 --gres=gpu:a100:1 : -n1 --mem=100 --gres=gpu:v100:1
"""


def test_jobs_of_every_ending_are_what_slurm_bills(
    slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    sacct, other = tmp_path / "sacct", tmp_path / "other"
    again = 'if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then sleep 3; else sleep 300; fi'

    def submit(row: str) -> str:
        user, name, script, options = (cell.strip() for cell in row.split(" | "))
        return slurm.submit(user, name.replace("|of", "|of\npipes"), script, *options.split())

    def until(job: str, state: str) -> None:
        slurm.wait(f"{state} of {job}", lambda: state in states(slurm)[job], 120)
        time.sleep(1.5)

    for row in JOBS.strip().splitlines():
        submit(row)
    cancelled = submit("games | cancelled | sleep 300 | -n1 --gres=gpu:1")
    never = submit("games | never ran | true | -n1 --gres=gpu:1 --begin=now+1hour")
    time.sleep(6)
    slurm.run("scancel", cancelled, never)
    requeued = submit(f"news | requeued | {again} | --requeue -n1 --gres=gpu:a100:1")
    until(requeued, "RUNNING")
    slurm.run("scontrol", "requeue", requeued)
    victim = submit(f"games | victim | {again} | --requeue -N1 -w n1 -n1 --gres=gpu:a100:4")
    until(victim, "RUNNING")
    submit("www-data | urgent | sleep 2 | --qos=high -N1 -w n1 -n1 --gres=gpu:a100:4")
    until(victim, "PREEMPTED")
    running = submit("games | still running | sleep 900 | -n1 --gres=gpu:v100:1")
    pending = submit("news | still pending | sleep 1 | -n1 --gres=gpu:v100:2")
    until(running, "RUNNING")
    assert states(slurm)[pending] == ["PENDING"]

    # while they run, and again: nothing doubles
    first = collect(sacct, 'sacct = "sacct"')[0]
    assert f"of {CLUSTER}" in first and "2 nodes" in first and "nodes of jobs with the GPUs" in first
    assert "nothing is new" not in first
    assert set(held(sacct, "namespace")) == {"team-nlp", "team-cv", "product"}
    for job in (requeued, victim):
        slurm.run("scontrol", "update", f"JobId={job}", "StartTime=now", check=False)
    slurm.run("scancel", running)
    slurm.wait("all to end", lambda: not slurm.run("squeue", "-h").strip(), 200)
    for _ in range(2):
        collect(sacct, 'sacct = "sacct"')

    ended = states(slurm)
    # how the second run ends depends on how soon the first is cleaned up
    assert [runs[0] for runs in (ended[requeued], ended[victim])] == ["REQUEUED", "PREEMPTED"]
    assert len(ended[requeued]) == len(ended[victim]) == 2
    expected: dict[str, float] = defaultdict(float)
    words = "sacct -a -D -X -n -P -o Account,ElapsedRaw,AllocTRES"
    for line in slurm.run(*words.split()).splitlines():
        account, elapsed, tres = line.split("|")
        gpus = dict(one.split("=") for one in tres.split(",") if "=" in one).get("gres/gpu", "0")
        expected[account] += float(elapsed or 0) * float(gpus)
    found, names, nodes = (held(sacct, by) for by in ("namespace", "workload", "node"))
    assert found == pytest.approx({name: value for name, value in expected.items() if value}, abs=0.0005)
    jobs = {"Job/sweep|of\npipes", "Job/it's un_typed é", "Job/two nodes", "Job/het"}
    assert jobs <= set(names), sorted(names)
    assert held(sacct, "account").keys() == {"research", "product"}
    assert set(nodes) == {"n1", "n2"} and sum(nodes.values()) == pytest.approx(sum(found.values()), abs=0.01)
    checks = CliRunner().invoke(app, ["doctor", "--config", str(sacct / "gpucost.toml")]).output
    assert f"sacct: answers for {CLUSTER}" in checks, checks

    # slurmrestd says the same
    url, token = slurm.rest()
    monkeypatch.setenv("SLURM_JWT", token)
    monkeypatch.setenv("SLURM_USER_NAME", "root")
    assert "2 nodes" in collect(other, f'slurmrestd = "{url}"')[0]
    for by, same in (("namespace", found), ("workload", names)):
        assert held(other, by) == pytest.approx(same, abs=0.01)
    assert held(other, "account").keys() == {"research", "product"}
    monkeypatch.setenv("SLURM_JWT", f"{token}x")
    assert "error" in collect(other, f'slurmrestd = "{url}"', code=1)[1]

    # Slurm's own report knows complete hours alone: what was is put two hours back, and rolled up
    bill = slurm.rolled_up(hours=2)
    assert {name: bill[name] for name in found} == {name: round(value) for name, value in found.items()}
