"""`gpucost collect slurm` with a real Slurm, during and after jobs, compared with Slurm's own accounting.

Slurm runs on loopback without system services: MariaDB, slurmdbd, slurmctld and two nodes with empty files as GPUs.
"""

from __future__ import annotations

import json
import os
import pwd
import signal
import socket
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from tests.programs import require
from tests.text_tables import text_rows
from tests.unit.command import call

PROGRAMS = "mariadbd mariadb-install-db mysqladmin mysql slurmdbd slurmctld slurmd slurmrestd sacct sbatch"
PLUGINS = Path("/usr/lib/x86_64-linux-gnu/slurm-wlm")
CLUSTER = "testcluster"
#: Users that exist in every Debian.
USERS = {"games": "team-nlp", "news": "team-cv", "www-data": "product", "root": "team-nlp"}
_SECONDS = 60
#: Columns with times in Slurm's database.
_MOMENTS = """
job_table   | time_submit time_eligible time_start time_end
step_table  | time_start time_end
event_table | time_start time_end
"""


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class SlurmCluster:
    """A Slurm between `start` and `stop`; all files are in `base`."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.environment = {**os.environ, "SLURM_CONF": str(base / "slurm.conf"), "TZ": "UTC"}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._host = socket.gethostname().partition(".")[0]

    def run(self, *command: str, check: bool = True) -> str:
        """Return the output of a command."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr or done.stdout}")
        return done.stdout

    def submit(self, user: str, name: str, script: str, *options: str) -> str:
        """Submit a job as `user`; return its number."""
        words = f"sbatch --parsable --uid={user} -A {USERS[user]} -D / -o /dev/null --mem=100 -J".split()
        return self.run(*words, name, *options, "--wrap", script).strip()

    def wait(self, what: str, is_there: Callable[[], bool], seconds: float = _SECONDS) -> None:
        """Wait for a condition; raise TimeoutError with the last log lines of the daemons."""
        end = time.monotonic() + seconds
        while not is_there():
            if time.monotonic() > end:
                logs = "\n".join(
                    f"{log.name}: {log.read_text()[-800:]}" for log in sorted((self.base / "log").iterdir())
                )
                raise TimeoutError(f"{what}: not reached in {seconds} s\n{logs}")
            time.sleep(0.2)

    def start(self) -> None:
        """Start all daemons, in about ten seconds."""
        base = self.base
        for folder in ("db", "state", "spool-n1", "spool-n2", "gpu", "log", "bin"):
            (base / folder).mkdir(parents=True)
        for number in range(8):
            (base / "gpu" / f"g{number}").touch()
        for daemon in ("slurmctld", "slurmd", "slurmstepd", "slurmdbd"):
            # they compare their command name with their own name
            real = Path(f"/usr/sbin/{daemon}-wlm")
            (base / "bin" / daemon).symlink_to(real if real.exists() else f"/usr/sbin/{daemon}")
        database, self.controller, accounting, first, second = _free_ports(5)
        self._configure(database, accounting, (first, second))
        self._start_database(database)
        self._spawn("slurmdbd", f"{base}/bin/slurmdbd -D")
        self.wait("slurmdbd", lambda: "Cluster" in self.run("sacctmgr", "list", "cluster", check=False))
        self.run("sacctmgr", "-i", "add", "cluster", CLUSTER)
        self._add_users()
        self._spawn("slurmctld", f"{base}/bin/slurmctld -D -c -f {base}/slurm.conf")
        self.wait("slurmctld", lambda: "UP" in self.run("scontrol", "ping", check=False))
        for node in ("n1", "n2"):
            flags = f"-D -N {node} -f {base}/slurm.conf -d {base}/bin/slurmstepd"
            self._spawn(f"slurmd-{node}", f"{base}/bin/slurmd {flags}")
        self.wait("both nodes", lambda: self.run("sinfo", "-h", "-N", "-o", "%N %T").count("idle") >= 2)

    def stop(self) -> None:
        """End all daemons in reverse order."""
        self._end(*reversed(self._daemons))

    def rolled_up(self, hours: int) -> dict[str, int]:
        """Return sreport's GPU-seconds by account after moving all records back by so many hours."""
        self._end("slurmctld", "slurmd-n1", "slurmd-n2", "slurmdbd")
        back = hours * 3600
        changes = [
            f"update {CLUSTER}_{table} set {column} = {column} - {back} where {column} between 1 and 4000000000"  # noqa: S608
            for table, columns in text_rows(_MOMENTS)
            for column in columns.split()
        ]
        # slurmdbd has rolled up an hour that ended meanwhile
        changes += [
            f"delete from {CLUSTER}_assoc_usage_{span}_table"  # noqa: S608
            for span in ("hour", "day", "month")
        ]
        oldest = f"unix_timestamp() - {back + 7200}"
        rollups = ", ".join(f"{name}_rollup = {oldest}" for name in ("hourly", "daily", "monthly"))
        changes.append(f"update {CLUSTER}_last_ran_table set {rollups}")  # noqa: S608
        words = f"mysql --no-defaults -uroot -S {self.base}/db.sock slurm_acct_db -e"
        self.run(*words.split(), "; ".join(changes))
        self._spawn("slurmdbd", f"{self.base}/bin/slurmdbd -D")

        def report() -> dict[str, int]:
            moments = (time.gmtime(time.time() - ago) for ago in (back + 7200, 0))
            start, end = (time.strftime("%Y-%m-%dT%H:00:00", moment) for moment in moments)
            words = "sreport -n -P -t seconds -T gres/gpu cluster AccountUtilizationByUser"
            lines = self.run(*words.split(), f"start={start}", f"end={end}", check=False).splitlines()
            rows = [line.split("|") for line in lines if line.count("|") == 5]
            return {row[1].strip(): int(row[5]) for row in rows if not row[2]}

        self.wait("sreport", lambda: bool(report()), 120)
        return report()

    def rest(self) -> tuple[str, str]:
        """Start slurmrestd; return its URL and a token."""
        (port,) = _free_ports(1)
        plugins = "-a rest_auth/jwt -s openapi/v0.0.38,openapi/dbv0.0.38"
        self.environment |= {"SLURM_JWT": "daemon", "SLURMRESTD_SECURITY": "disable_user_check"}
        self._spawn("slurmrestd", f"slurmrestd -f {self.base}/slurm.conf {plugins} 127.0.0.1:{port}")
        del self.environment["SLURM_JWT"]

        def answers() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        self.wait("slurmrestd", answers)
        token = self.run("scontrol", "token", "username=root", "lifespan=3600").strip()
        return f"http://127.0.0.1:{port}", token.removeprefix("SLURM_JWT=")

    def _end(self, *names: str) -> None:
        """End daemons by name."""
        for name in names:
            daemon = self._daemons.pop(name)
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(daemon.pid, signal.SIGKILL)
                daemon.wait()

    def _spawn(self, name: str, command: str) -> None:
        with (self.base / "log" / name).open("wb") as log:
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            self._daemons[name] = subprocess.Popen(
                command.split(), env=self.environment, start_new_session=True, **streams
            )

    def _configure(self, database: int, accounting: int, nodes: Sequence[int]) -> None:
        base, root = self.base, pwd.getpwuid(os.getuid()).pw_name
        dbd = base / "slurmdbd.conf"
        dbd.write_text(
            f"AuthType=auth/none\nDbdHost=localhost\nDbdAddr=127.0.0.1\nDbdPort={accounting}\nSlurmUser={root}\n"
            f"StorageType=accounting_storage/mysql\nStorageHost=127.0.0.1\nStoragePort={database}\nStorageUser=slurm\n"
            f"StoragePass=slurm\nStorageLoc=slurm_acct_db\nPidFile={base}/slurmdbd.pid\nPluginDir={PLUGINS}\n"
        )
        dbd.chmod(0o600)
        shape = "CPUs=32 Boards=1 SocketsPerBoard=1 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=64000 State=UNKNOWN"
        gres = {"n1": "gpu:a100:4", "n2": "gpu:a100:2,gpu:v100:2"}
        described = "\n".join(
            f"NodeName={node} NodeAddr=127.0.0.1 NodeHostname={self._host} Port={port} {shape} Gres={gres[node]}"
            for node, port in zip(gres, nodes, strict=True)
        )
        (base / "slurm.conf").write_text(
            f"ClusterName={CLUSTER}\nSlurmctldHost={self._host}(127.0.0.1)\nSlurmctldPort={self.controller}\nSlurmUser={root}\n"
            f"SlurmdUser={root}\nAuthType=auth/none\nCredType=cred/none\nPluginDir={PLUGINS}\nStateSaveLocation={base}/state\n"
            f"SlurmdSpoolDir={base}/spool-%n\nSlurmctldPidFile={base}/slurmctld.pid\nSlurmdPidFile={base}/slurmd-%n.pid\n"
            "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/linux\nMpiDefault=none\n"
            "SwitchType=switch/none\nReturnToService=2\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n"
            "SlurmdParameters=config_overrides\nSchedulerParameters=bf_interval=2,sched_interval=2\nPreemptType=preempt/qos\n"
            "PreemptMode=REQUEUE\nPriorityType=priority/multifactor\nJobRequeue=1\nMinJobAge=300\nKillWait=2\n"
            "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=127.0.0.1\n"
            f"AccountingStoragePort={accounting}\nAccountingStorageTRES=gres/gpu,gres/gpu:a100,gres/gpu:v100\n"
            f"AccountingStorageEnforce=associations,limits,qos\nGresTypes=gpu\n{described}\n"
            "PartitionName=training Nodes=n1,n2 Default=YES MaxTime=1-0 State=UP\n"
            "PartitionName=inference Nodes=n2 MaxTime=1-0 State=UP\n"
        )
        key = base / "jwt.key"
        key.write_bytes(os.urandom(32))
        key.chmod(0o600)
        for conf in (dbd, base / "slurm.conf"):
            conf.write_text(f"{conf.read_text()}AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={key}\n")
        (base / "gres.conf").write_text(
            f"NodeName=n1 Name=gpu Type=a100 File={base}/gpu/g[0-3]\nNodeName=n2 Name=gpu Type=a100 File={base}/gpu/g[4-5]\n"
            f"NodeName=n2 Name=gpu Type=v100 File={base}/gpu/g[6-7]\n"
        )
        (base / "cgroup.conf").write_text("CgroupAutomount=no\n")

    def _start_database(self, port: int) -> None:
        base = self.base
        usual = f"--no-defaults --user=root --datadir={base}/db"
        install = f"mariadb-install-db {usual} --auth-root-authentication-method=normal --skip-test-db"
        self.run(*install.split())
        files = f"--socket={base}/db.sock --pid-file={base}/db.pid"
        self._spawn(
            "mariadbd",
            f"mariadbd {usual} --bind-address=127.0.0.1 --port={port} {files} --innodb-buffer-pool-size=64M",
        )
        client = ("--no-defaults", "-uroot", "-S", f"{base}/db.sock")
        self.wait("MariaDB", lambda: "alive" in self.run("mysqladmin", *client, "ping", check=False))
        grants = "".join(
            f"create user slurm@'{host}' identified by 'slurm'; grant all on slurm_acct_db.* to slurm@'{host}';"
            for host in ("127.0.0.1", "localhost")
        )
        self.run("mysql", *client, "-e", f"create database slurm_acct_db; {grants}")

    def _add_users(self) -> None:
        commands = """
        add qos high set priority=1000
        modify qos high set preempt=normal
        add account research Fairshare=60
        add account team-nlp parent=research
        add account team-cv parent=research
        add account product Fairshare=40
        """
        for user, account in USERS.items():
            commands += f"add user {user} account={account}\nmodify user {user} set qos=normal,high\n"
        for command in commands.strip().splitlines():
            self.run("sacctmgr", "-i", *command.split())


pytestmark = [pytest.mark.ci]
PACKAGES = "slurmctld slurmd slurmdbd slurm-client slurm-wlm-basic-plugins slurmrestd slurm-wlm-jwt-plugin mariadb-server"


@pytest.fixture
def slurm() -> Iterator[SlurmCluster]:
    require(*PROGRAMS.split(), package=PACKAGES)
    # daemons and jobs of other users need access; pytest makes its own folders private
    with TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        cluster = SlurmCluster(Path(folder))
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


def states(slurm: SlurmCluster) -> dict[str, list[str]]:
    """Return the states of the runs of each job, by number."""
    found = defaultdict(list)
    for line in slurm.run("sacct", "-a", "-D", "-X", "-n", "-P", "-o", "JobIDRaw,State").splitlines():
        job, state = line.split("|")
        found[job].append(state.partition(" ")[0])
    return found


def collect(folder: Path, settings: str, code: int = 0) -> tuple[str, str]:
    """Collect into a store in this folder; return the output."""
    folder.mkdir(exist_ok=True)
    (folder / "gpucost.toml").write_text(f'store = "slurm.duckdb"\n[slurm]\n{settings}\n')
    return call("collect", "slurm", "--config", str(folder / "gpucost.toml"), code=code)


def held(folder: Path, by: str) -> dict[str, float]:
    """Return GPU-seconds of the last two days and the next by a dimension."""
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


def test_jobs_with_every_final_state_match_slurm_accounting(
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

    # while they run, and again: no job counts twice
    first = collect(sacct, 'sacct = "sacct"')[0]
    assert f"of {CLUSTER}" in first and "2 nodes" in first and "job nodes with their GPUs" in first
    assert "no new data" not in first
    assert set(held(sacct, "namespace")) == {"team-nlp", "team-cv", "product"}
    for job in (requeued, victim):
        slurm.run("scontrol", "update", f"JobId={job}", "StartTime=now", check=False)
    slurm.run("scancel", running)
    slurm.wait("all to end", lambda: not slurm.run("squeue", "-h").strip(), 200)
    for _ in range(2):
        collect(sacct, 'sacct = "sacct"')

    ended = states(slurm)
    # the end of the second run depends on the cleanup of the first
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

    # slurmrestd reports the same
    url, token = slurm.rest()
    monkeypatch.setenv("SLURM_JWT", token)
    monkeypatch.setenv("SLURM_USER_NAME", "root")
    assert "2 nodes" in collect(other, f'slurmrestd = "{url}"')[0]
    for by, same in (("namespace", found), ("workload", names)):
        assert held(other, by) == pytest.approx(same, abs=0.01)
    assert held(other, "account").keys() == {"research", "product"}
    monkeypatch.setenv("SLURM_JWT", f"{token}x")
    assert "error" in collect(other, f'slurmrestd = "{url}"', code=1)[1]

    # Slurm's own report covers complete hours only: records are moved back two hours and rolled up
    bill = slurm.rolled_up(hours=2)
    assert {name: bill[name] for name in found} == {name: round(value) for name, value in found.items()}
