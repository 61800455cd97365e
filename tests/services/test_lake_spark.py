"""A lake attributed on a real Spark cluster has the figures of the store, row by row; whatever ends there in mid-run."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpucost import pipeline
from gpucost.config.load import load_config
from gpucost.config.model import Config
from gpucost.lake import attribution, manifest
from gpucost.lake.files import open_files
from gpucost.store.connection import Store
from tests.bench.steps import large
from tests.lakes import attribute, differences, export, opened, stored_together
from tests.oracle.shared_cases import replayed, shared_cases
from tests.oracle.test_exact import Together, together
from tests.property.fleets import books, fleets, lived_in, priced
from tests.replay.fleet import Fleet, read_fleet
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.services.spark_cluster import SparkCluster, spark_cluster
from tests.shared import shared

pytestmark = [pytest.mark.services, pytest.mark.slow]
SOME = replace(together()[0], cases=together()[0].cases[:10])


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master, two workers and a driver."""
    with spark_cluster(tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster


def unlike_the_store(spark: SparkCluster, config: Config, store: Store, pairs: int = 1_200_000) -> list[str]:
    """What differs between the store's own figures and those that Spark makes of its lake."""
    pipeline.attribute(config, store)
    url = config.store.with_name("lake")
    export(config, store, url)
    done = spark.attribute(config, url, pairs)
    return [done["error"]] if "error" in done else unequal(config, store, url)


def unequal(config: Config, store: Store, url: Path) -> list[str]:
    """What differs between the store's figures and the lake's."""
    with opened(config, url) as other:
        return differences(store.path, other.path)


# Each takes a run; those of one or two cases are attributed without Spark (tests/unit/test_lake.py).
GROUPS = sorted((one for one in together() if len(one.cases) > 2), key=lambda one: len(one.cases))


@pytest.mark.parametrize(
    "group", [pytest.param(GROUPS[0], marks=pytest.mark.ci), *GROUPS[1:]], ids=range(len(GROUPS))
)
def test_figures_of_cases_are_those_of_the_store(
    group: Together, spark: SparkCluster, tmp_path: Path
) -> None:
    config, store = stored_together(group, tmp_path)
    assert not unlike_the_store(spark, config, store, pairs=2_000)


@pytest.mark.shared
def test_figures_of_shared_cases_are_those_of_the_store(spark: SparkCluster, tmp_path: Path) -> None:
    wrong = []
    for name in shared_cases() or ["none"]:
        case, folder = shared(f"replay/cases/{name}"), tmp_path / name
        folder.mkdir()
        fleet = read_fleet(case)
        config = write_config(fleet, folder, case / "prices.csv")
        store = load(fleet, replayed(fleet), config)
        wrong += [f"{name}: {line}" for line in unlike_the_store(spark, config, store)]
    assert not wrong, "\n".join(wrong)


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(data=st.data(), fleet=fleets().flatmap(lived_in), pairs=st.sampled_from([24, 10**6]))
def test_figures_of_random_fleets_are_those_of_the_store(
    spark: SparkCluster, data: st.DataObject, fleet: Fleet, pairs: int
) -> None:
    with priced(fleet, data.draw(books(fleet))) as config:
        wrong = unlike_the_store(spark, config, load(fleet, scrape(fleet, lean=True), config, 3), pairs)
        assert not wrong, "\n".join(wrong)


def test_a_fleet_of_ten_times_the_memory(spark: SparkCluster, tmp_path: Path) -> None:
    gpus, days = 10_000, 10
    large(str(tmp_path / "gpucost.duckdb"), str(gpus), str(days))
    path = tmp_path / "gpucost.toml"
    path.write_text('store = "gpucost.duckdb"\n[prices]\nbook = "prices.csv"\n[engine]\nmemory = "110MB"\n')
    config = load_config(path, environ={}, cwd=tmp_path)
    # a sample a minute, of eight bytes
    assert gpus * days * 24 * 60 * 8 > 10 * 110_000_000
    wrong = unlike_the_store(spark, config, Store(config.store), pairs=240_000)
    assert not wrong, "\n".join(wrong)


class Interrupted:
    """A lake of many small tasks."""

    def __init__(self, spark: SparkCluster, folder: Path) -> None:
        self.spark, self.url = spark, folder / "lake"
        self.config, self.store = stored_together(SOME, folder)
        pipeline.attribute(self.config, self.store)
        export(self.config, self.store, self.url)

    def run(self, meanwhile: Callable[[], None]) -> None:
        """Let it be attributed, and do something once the first days of several clusters are there."""
        self.spark.ask(self.config, self.url, 24)
        deadline = time.monotonic() + 120
        while len(self.markers()) < 5:
            assert time.monotonic() < deadline, self.spark.log()
            time.sleep(0.05)
        meanwhile()

    def markers(self) -> dict[str, str]:
        """What says of days that they are there."""
        return {
            path.name: path.read_text()
            for path in (self.url / "_gpucost/attributed/attribute").rglob("*.json")
        }

    def check(self) -> None:
        """The figures are the store's, and every file is named by one marker."""
        assert not unequal(self.config, self.store, self.url)


@pytest.fixture
def interrupted(spark: SparkCluster, tmp_path: Path) -> Interrupted:
    return Interrupted(spark, tmp_path)


def test_a_worker_lost_in_mid_run(interrupted: Interrupted) -> None:
    spark = interrupted.spark
    interrupted.run(spark.lose_worker)
    spark.add_worker()
    assert "error" not in spark.answer()
    interrupted.check()


def test_a_process_of_a_task_killed_in_mid_run(interrupted: Interrupted) -> None:
    spark = interrupted.spark

    def kill() -> None:
        killed = spark.python_workers()
        assert killed
        for pid in killed:
            os.kill(pid, signal.SIGKILL)

    interrupted.run(kill)
    assert "error" not in spark.answer()
    interrupted.check()


def test_a_driver_killed_in_mid_run_and_started_again(interrupted: Interrupted) -> None:
    spark = interrupted.spark
    interrupted.run(spark.end_driver)
    time.sleep(3)  # workers notice
    before = interrupted.markers()
    done = spark.attribute(interrupted.config, interrupted.url, 24)
    assert done["unchanged"] >= len(before) > 0 and done["done"]["attribute"] > 0
    after = interrupted.markers()
    assert {name: after[name] for name in before} == before
    interrupted.check()


def test_tasks_run_twice_at_once_count_once(interrupted: Interrupted) -> None:
    """As where Spark starts a slow one again elsewhere, and both run to their ends: here by a run of another engine."""
    spark = interrupted.spark
    spark.ask(interrupted.config, interrupted.url, 24)
    with patch.object(attribution, "_PAIRS_AT_ONCE", 24):
        attribute(interrupted.config, interrupted.url)
    assert "error" not in spark.answer()
    interrupted.check()


@pytest.mark.parametrize("keep", [None, 100], ids=["gone", "cut off"])
def test_a_file_that_is_missing_is_named_with_its_task(interrupted: Interrupted, keep: int | None) -> None:
    spark, config, url = interrupted.spark, interrupted.config, interrupted.url
    assert config.path is not None
    assert "error" not in spark.attribute(config, url)
    current, text = (url / "_gpucost/current.json").read_text(), config.path.read_text()
    lake = manifest.read(open_files(str(url), config))
    cluster = lake.clusters[1]
    path = url / lake.tables(cluster, lake.days(cluster)[:1])["blocks"][0].name
    content = path.read_bytes()
    path.unlink()
    if keep is not None:
        path.write_bytes(content[:keep])
    # with another threshold all is attributed anew
    config.path.write_text(f"{text}\n[idle]\nthreshold_percent = 7\n")
    answer = spark.attribute(config, url)
    assert answer["error"].startswith(f"inventory, cluster={cluster}: ") and str(path) in answer["error"], (
        answer
    )
    assert (url / "_gpucost/current.json").read_text() == current
    path.write_bytes(content)
    interrupted.check()
