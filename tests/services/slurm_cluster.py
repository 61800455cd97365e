"""A real Slurm on loopback: MariaDB, slurmdbd, slurmctld and two nodes whose GPUs are empty files, without system services."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.text_tables import text_rows

PROGRAMS = "mariadbd mariadb-install-db mysqladmin mysql slurmdbd slurmctld slurmd slurmrestd sacct sbatch"
PLUGINS = Path("/usr/lib/x86_64-linux-gnu/slurm-wlm")
CLUSTER = "testcluster"
#: Users that every Debian has.
USERS = {"games": "team-nlp", "news": "team-cv", "www-data": "product", "root": "team-nlp"}
_SECONDS = 60
#: Columns of moments in Slurm's database.
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
    """Started by `start`, ended by `stop`; everything lies in `base`."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.environment = {**os.environ, "SLURM_CONF": str(base / "slurm.conf"), "TZ": "UTC"}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._host = socket.gethostname().partition(".")[0]

    def run(self, *command: str, check: bool = True) -> str:
        """What a command prints."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr or done.stdout}")
        return done.stdout

    def submit(self, user: str, name: str, script: str, *options: str) -> str:
        """The number of a job that `user` submits."""
        words = f"sbatch --parsable --uid={user} -A {USERS[user]} -D / -o /dev/null --mem=100 -J".split()
        return self.run(*words, name, *options, "--wrap", script).strip()

    def wait(self, what: str, is_there: Callable[[], bool], seconds: float = _SECONDS) -> None:
        """Wait until something is so. Raises TimeoutError, with the last words of the daemons, where it does not come."""
        end = time.monotonic() + seconds
        while not is_there():
            if time.monotonic() > end:
                logs = "\n".join(
                    f"{log.name}: {log.read_text()[-800:]}" for log in sorted((self.base / "log").iterdir())
                )
                raise TimeoutError(f"{what} did not come in {seconds} s\n{logs}")
            time.sleep(0.2)

    def start(self) -> None:
        """Bring everything up: some ten seconds."""
        base = self.base
        for folder in ("db", "state", "spool-n1", "spool-n2", "gpu", "log", "bin"):
            (base / folder).mkdir(parents=True)
        for number in range(8):
            (base / "gpu" / f"g{number}").touch()
        for daemon in ("slurmctld", "slurmd", "slurmstepd", "slurmdbd"):
            # they compare the name that they were started by with their own
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
        """End all that was started, the last first."""
        self._end(*reversed(self._daemons))

    def rolled_up(self, hours: int) -> dict[str, int]:
        """GPU-seconds by account as sreport tells them, once all that was lies so many hours further back."""
        self._end("slurmctld", "slurmd-n1", "slurmd-n2", "slurmdbd")
        back = hours * 3600
        changes = [
            f"update {CLUSTER}_{table} set {column} = {column} - {back} where {column} between 1 and 4000000000"  # noqa: S608
            for table, columns in text_rows(_MOMENTS)
            for column in columns.split()
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
        """slurmrestd: its URL, and a token."""
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
            streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
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
