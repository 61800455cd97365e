"""Messages of Spark's driver and workers; tests/services/test_lake_spark.py runs them on a real cluster."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import pyarrow as pa
import pytest

from gpucost import __version__
from gpucost.engine import spark
from gpucost.errors import GpucostError, UsageError


def refuse(task: str) -> str:
    raise GpucostError(f"{task} is wrong", "repair it")


def results(work: Any, version: str = __version__) -> list[Any]:
    """The results of a worker for task 7."""
    batches = [pa.RecordBatch.from_pydict({"id": [7]})]
    (batch,) = spark._each(lambda number: work(f"task {number}"), version, iter(batches))
    assert batch.column(0).to_pylist() == [7]
    return [json.loads(result) for result in batch.column(1).to_pylist()]


def test_reported_error_is_not_retried() -> None:
    assert results(json.dumps) == ["task 7"]
    assert results(refuse) == [{"error": ["task 7 is wrong", "repair it"]}]


def test_workers_of_another_version_are_refused() -> None:
    ((message, _),) = (one["error"] for one in results(json.dumps, "0.0.1"))
    assert message == f"Spark's workers have gpucost {__version__}, not 0.0.1"


class Crashing:
    """A session in which tasks end with their worker, and Spark's message about it."""

    def range(self, *_: int) -> Crashing:
        return self

    def mapInArrow(self, *_: Any) -> Crashing:  # noqa: N802 - Spark's name
        return self

    def collect(self) -> None:
        raise RuntimeError(
            "An error occurred while calling o149.collectToPython.\n: org.apache.spark.SparkException: Job aborted due to stage "
            "failure: Task 1 in stage 3.0 failed 4 times, most recent failure: Lost task 1.3 in stage 3.0 (TID 9) (127.0.0.1 "
            "executor 0): org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).\n\tat org.apache.spark.X"
        )


def test_task_that_crashes_its_worker_is_named() -> None:
    with pytest.raises(
        GpucostError, match=r"^price: Spark: Python worker exited unexpectedly \(crashed\)\.$"
    ):
        list(spark.run(Crashing(), str, ["inventory", "price"]))


@pytest.mark.skipif(importlib.util.find_spec("pyspark") is not None, reason="pyspark is installed")
def test_missing_pyspark_error_names_the_package() -> None:
    with pytest.raises(UsageError, match="needs pyspark"), spark.session(None, {}):
        pass
