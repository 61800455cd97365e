"""A lake attributed on a real Spark cluster equals the store, row by row, even if processes end in mid-run.

The cluster runs on loopback: a master, two workers, and a driver that attributes lakes. Spark takes 0.5 GB, so it is not a
test dependency: GPUCOST_SPARK_PYTHON names the Python of an environment with it, such as the one of .ci/install-programs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from gpucost import pipeline
from gpucost.config.model import Config
from gpucost.lake import attribution, manifest
from gpucost.lake.files import open_files
from gpucost.store.connection import Store
from tests.lakes import attribute, differences, export, opened, stored_together
from tests.oracle.shared_cases import replayed, shared_cases
from tests.oracle.test_exact import Together, together
from tests.programs import program, require
from tests.replay.fleet import read_fleet
from tests.replay.load import load, write_config
from tests.replay.server import free_port
from tests.shared import shared
from tests.text_tables import words

_CHECKOUT = Path(__file__).parents[2]
_OPTIONS = words("spark.executor.memory=600m spark.ui.enabled=false spark.driver.memory=600m")


def spark_python() -> str:
    """Return a Python with pyspark. Skip the test without one; fail it under CI=true."""
    require("java", package="openjdk-17-jre-headless")
    return program("GPUCOST_SPARK_PYTHON", "spark-python")


class SparkCluster:
    """Master and workers, each in its own session with its children, and a driver at its first use."""

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
        """Start a worker with one core."""
        work = self.folder / f"worker-{len(self._started)}"
        limits = "--host 127.0.0.1 --cores 1 --memory 800m"
        self.workers.append(self._deploy(f"worker.Worker spark://{self.master} {limits} --work-dir {work}"))

    def lose_worker(self) -> None:
        """End a worker and its children, as if its machine had failed."""
        kill_session(self.workers.pop(0))

    def ask(self, config: Config, url: Path, pairs: int = 1_200_000) -> None:
        """Make the driver attribute a lake, with `pairs` of (GPU, hour) per task."""
        if self._driver is None or self._driver.poll() is not None:
            words = ("-m", "tests.services.spark_driver", f"spark://{self.master}", json.dumps(self.options))
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            self._driver = self._start([self.python, *words], **pipes)
        question = {"config": str(config.path), "url": str(url), "pairs": pairs}
        print(json.dumps(question), file=self._driver.stdin, flush=True)

    def answer(self) -> dict[str, Any]:
        """Return the result of the run, or its `error` and `fix`."""
        assert self._driver is not None and self._driver.stdout is not None
        line = self._driver.stdout.readline()
        assert line, self.log()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def attribute(self, config: Config, url: Path, pairs: int = 1_200_000) -> dict[str, Any]:
        """Send a request and return the answer."""
        self.ask(config, url, pairs)
        return self.answer()

    def end_driver(self) -> None:
        """Kill the driver; the next request starts another one."""
        if self._driver is not None:
            kill_session(self._driver)

    def log(self) -> str:
        """Return the last log lines of all processes."""
        return "\n".join(path.read_text()[-3000:] for path in self.folder.glob("*.log"))

    def stop(self) -> None:
        """End all processes."""
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
    """Kill a process and its session."""
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
    """Yield a cluster; its files are removed afterwards."""
    cluster = SparkCluster(spark_python(), folder)
    try:
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


pytestmark = [pytest.mark.services, pytest.mark.slow]
SOME = replace(together()[0], cases=together()[0].cases[:10])


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """Yield a master, two workers and a driver."""
    with spark_cluster(tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster


def unlike_the_store(spark: SparkCluster, config: Config, store: Store, pairs: int = 1_200_000) -> list[str]:
    """Return differences between the store's figures and Spark's figures of its lake."""
    pipeline.attribute(config, store)
    url = config.store.with_name("lake")
    export(config, store, url)
    done = spark.attribute(config, url, pairs)
    return [done["error"]] if "error" in done else unequal(config, store, url)


def unequal(config: Config, store: Store, url: Path) -> list[str]:
    """Return differences between the store's figures and the lake's."""
    with opened(config, url) as other:
        return differences(store.path, other.path)


# Each group takes a run; groups of one or two cases are attributed without Spark (tests/unit/test_lake.py).
GROUPS = sorted((one for one in together() if len(one.cases) > 2), key=lambda one: len(one.cases))


PARAMS = [pytest.param(GROUPS[0], marks=pytest.mark.ci), *GROUPS[1:]]


@pytest.mark.parametrize("group", PARAMS, ids=range(len(GROUPS)))
def test_figures_of_cases_match_the_store(group: Together, spark: SparkCluster, tmp_path: Path) -> None:
    config, store = stored_together(group, tmp_path)
    assert not unlike_the_store(spark, config, store, pairs=2_000)


@pytest.mark.shared
def test_figures_of_shared_cases_match_the_store(spark: SparkCluster, tmp_path: Path) -> None:
    wrong = []
    for name in shared_cases() or ["none"]:
        case, folder = shared(f"replay/cases/{name}"), tmp_path / name
        folder.mkdir()
        fleet = read_fleet(case)
        config = write_config(fleet, folder, case / "prices.csv")
        store = load(fleet, replayed(fleet), config)
        wrong += [f"{name}: {line}" for line in unlike_the_store(spark, config, store)]
    assert not wrong, "\n".join(wrong)


class Interrupted:
    """Return a lake with many small tasks."""

    def __init__(self, spark: SparkCluster, folder: Path) -> None:
        self.spark, self.url = spark, folder / "lake"
        self.config, self.store = stored_together(SOME, folder)
        pipeline.attribute(self.config, self.store)
        export(self.config, self.store, self.url)

    def run(self, meanwhile: Callable[[], None]) -> None:
        """Attribute it, and do something once the first days of several clusters are written."""
        self.spark.ask(self.config, self.url, 24)
        deadline = time.monotonic() + 120
        while len(self.markers()) < 5:
            assert time.monotonic() < deadline, self.spark.log()
            time.sleep(0.05)
        meanwhile()

    def markers(self) -> dict[str, str]:
        """Return the markers of written days."""
        folder = self.url / "_gpucost/attributed/attribute"
        return {path.name: path.read_text() for path in folder.rglob("*.json")}

    def check(self) -> None:
        """Check that the figures equal the store's, and that one marker names every file."""
        assert not unequal(self.config, self.store, self.url)


@pytest.fixture
def interrupted(spark: SparkCluster, tmp_path: Path) -> Interrupted:
    return Interrupted(spark, tmp_path)


def test_lost_worker_does_not_change_figures(interrupted: Interrupted) -> None:
    spark = interrupted.spark
    interrupted.run(spark.lose_worker)
    spark.add_worker()
    assert "error" not in spark.answer()
    interrupted.check()


def test_killed_driver_can_be_started_again(interrupted: Interrupted) -> None:
    spark = interrupted.spark
    interrupted.run(spark.end_driver)
    time.sleep(3)  # workers notice
    before = interrupted.markers()
    done = spark.attribute(interrupted.config, interrupted.url, 24)
    assert done["unchanged"] >= len(before) > 0 and done["done"]["attribute"] > 0
    after = interrupted.markers()
    assert {name: after[name] for name in before} == before
    interrupted.check()


def test_tasks_that_run_twice_at_once_count_once(interrupted: Interrupted) -> None:
    """As if Spark had restarted a slow task elsewhere and both had finished; here another engine runs it."""
    interrupted.spark.ask(interrupted.config, interrupted.url, 24)
    with patch.object(attribution, "_PAIRS_AT_ONCE", 24):
        attribute(interrupted.config, interrupted.url)
    assert "error" not in interrupted.spark.answer()
    interrupted.check()


def test_truncated_file_is_named_with_its_task(interrupted: Interrupted) -> None:
    config, url = interrupted.config, interrupted.url
    assert config.path is not None
    lake = manifest.read(open_files(str(url), config))
    cluster = lake.clusters[1]
    path = url / lake.tables(cluster, lake.days(cluster)[:1])["blocks"][0].name
    path.write_bytes(path.read_bytes()[:100])
    answer = interrupted.spark.attribute(config, url)
    assert answer["error"].startswith(f"inventory, cluster={cluster}: ") and str(path) in answer["error"], (
        answer
    )
    assert not (url / "_gpucost/current.json").exists()
