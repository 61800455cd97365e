"""A lake attributed on a real Spark cluster has the figures of the store, row by row; whatever ends there in mid-run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
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
from tests.replay.fleet import read_fleet
from tests.replay.load import load, write_config
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


PARAMS = [pytest.param(GROUPS[0], marks=pytest.mark.ci), *GROUPS[1:]]


@pytest.mark.parametrize("group", PARAMS, ids=range(len(GROUPS)))
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
        folder = self.url / "_gpucost/attributed/attribute"
        return {path.name: path.read_text() for path in folder.rglob("*.json")}

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
    interrupted.spark.ask(interrupted.config, interrupted.url, 24)
    with patch.object(attribution, "_PAIRS_AT_ONCE", 24):
        attribute(interrupted.config, interrupted.url)
    assert "error" not in interrupted.spark.answer()
    interrupted.check()


def test_a_file_that_is_cut_off_is_named_with_its_task(interrupted: Interrupted) -> None:
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
