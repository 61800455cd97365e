"""A standalone Spark cluster on loopback: a master and two workers as processes, and a driver that attributes lakes there.

Spark is 0.5 GB to install, so it is no test dependency: GPUCOST_SPARK_PYTHON names the Python of an environment that has it, as
.ci/install-programs makes one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gpucost.config.model import Config
from tests.programs import program, require
from tests.replay.server import free_port
from tests.text_tables import words

_CHECKOUT = Path(__file__).parents[2]
_OPTIONS = words("spark.executor.memory=600m spark.ui.enabled=false spark.driver.memory=600m")


def spark_python() -> str:
    """A Python that has pyspark. Skips the test where there is none; fails it under CI=true."""
    require("java", package="openjdk-17-jre-headless")
    return program("GPUCOST_SPARK_PYTHON", "spark-python")


class SparkCluster:
    """Master and workers, each in a session of its own with all that it starts; and a driver, once one is needed."""

    def __init__(self, python: str, folder: Path) -> None:
        self.python, self.folder, self.options = python, folder, dict(_OPTIONS)
        self.master = f"127.0.0.1:{free_port()}"
        self.workers: list[subprocess.Popen[bytes]] = []
        self._home = next(Path(python).parents[1].glob("lib/python*/site-packages/pyspark"))
        self._started: list[subprocess.Popen[Any]] = []
        self._driver: subprocess.Popen[str] | None = None
        host, _, port = self.master.rpartition(":")
        self._deploy(f"master.Master --host {host} --port {port}")
        for _ in range(2):
            self.add_worker()

    def add_worker(self) -> None:
        """Start a worker of one core."""
        work = self.folder / f"worker-{len(self._started)}"
        limits = "--host 127.0.0.1 --cores 1 --memory 800m"
        self.workers.append(self._deploy(f"worker.Worker spark://{self.master} {limits} --work-dir {work}"))

    def lose_worker(self) -> None:
        """End a worker with all that it runs, as if its machine was gone."""
        kill_session(self.workers.pop(0))

    def ask(self, config: Config, url: Path, pairs: int = 1_200_000) -> None:
        """Let the driver attribute a lake, `pairs` of (GPU, hour) a task."""
        if self._driver is None or self._driver.poll() is not None:
            words = ("-m", "tests.services.spark_driver", f"spark://{self.master}", json.dumps(self.options))
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            self._driver = self._start([self.python, *words], **pipes)
        question = {"config": str(config.path), "url": str(url), "pairs": pairs}
        print(json.dumps(question), file=self._driver.stdin, flush=True)

    def answer(self) -> dict[str, Any]:
        """What came of it: what the run came to, or its `error` and `fix`."""
        assert self._driver is not None and self._driver.stdout is not None
        line = self._driver.stdout.readline()
        assert line, self.log()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def attribute(self, config: Config, url: Path, pairs: int = 1_200_000) -> dict[str, Any]:
        """Ask, and the answer."""
        self.ask(config, url, pairs)
        return self.answer()

    def end_driver(self) -> None:
        """End the driver as it is; the next task that is asked for starts another one."""
        if self._driver is not None:
            kill_session(self._driver)

    def log(self) -> str:
        """The last that all of them said."""
        return "\n".join(path.read_text()[-3000:] for path in self.folder.glob("*.log"))

    def stop(self) -> None:
        """End everything."""
        for process in self._started:
            kill_session(process)

    def _deploy(self, words: str) -> subprocess.Popen[bytes]:
        return self._start(
            f"{self._home}/bin/spark-class org.apache.spark.deploy.{words} --webui-port 0".split()
        )

    def _start(self, command: list[str], **more: Any) -> subprocess.Popen[Any]:
        environment = os.environ | words(f"""
            PYTHONPATH={_CHECKOUT} PYSPARK_PYTHON={self.python} SPARK_HOME={self._home} SPARK_LOCAL_IP=127.0.0.1
            SPARK_LOCAL_DIRS={self.folder} TMPDIR={self.folder}""")
        with (self.folder / f"{len(self._started)}.log").open("wb") as log:
            more = {"stdout": log, **more}
            process = subprocess.Popen(
                command, stderr=log, env=environment, cwd=_CHECKOUT, start_new_session=True, **more
            )
        self._started.append(process)
        return process


def kill_session(leader: subprocess.Popen[Any]) -> None:
    """End a process and all of its session, at once."""
    while True:
        running = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                session = (path / "stat").read_text().rpartition(")")[2].split()[3]
                if int(session) == leader.pid and (path / "cmdline").read_bytes():
                    running.append(int(path.name))
                    os.kill(running[-1], signal.SIGKILL)
        leader.wait()
        if not running:
            return


@contextmanager
def spark_cluster(folder: Path) -> Iterator[SparkCluster]:
    """A cluster, alive within the `with`; what it wrote is gone afterwards."""
    cluster = SparkCluster(spark_python(), folder)
    try:
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
