"""Tasks on a Spark cluster: the same SQL, in DuckDB, inside Spark's workers."""

from __future__ import annotations

import json
import re
import sys
import warnings
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from gpucost import __version__
from gpucost.errors import GpucostError, UsageError
from gpucost.installation import with_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpucost.config.model import Config

_SCHEMA = "number long, result string"


def run(session: Any, work: Callable[[int], str], names: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Run each task in Spark; return numbers and results when all have ended.

    Spark repeats a task if a worker is lost. Rows never pass through the driver: `work` gets a task's number,
    and reads and writes files itself. Raises GpucostError with the task's name if a task finally fails.
    """
    frame = session.range(0, len(names), 1, len(names))  # one row for each task
    with warnings.catch_warnings():
        # a warning about pandas, which Arrow's batches do not use
        warnings.simplefilter("ignore", FutureWarning)
        frame = frame.mapInArrow(partial(_each, work, __version__), _SCHEMA)
    try:
        rows = frame.collect()
    except Exception as error:
        number = re.search(r"Task (\d+) in stage", str(error))
        name = f"{names[int(number[1])]}: " if number else ""
        raise GpucostError(f"{name}Spark: {_reason(error)}", "run it again: finished tasks stay") from error
    for row in rows:
        result = json.loads(row["result"])
        if "error" in result:
            raise GpucostError(*result["error"])
        yield row["number"], row["result"]


def _each(work: Callable[[int], str], version: str, batches: Iterator[Any]) -> Iterator[Any]:
    """Run tasks in a worker: from numbers to results, in Arrow batches."""
    import pyarrow as pa

    for batch in batches:
        numbers, results = batch.column(0).to_pylist(), []
        for number in numbers:
            try:
                if version != __version__:
                    raise GpucostError(
                        f"Spark's workers have gpucost {__version__}, not {version}",
                        "install the same version there",
                    )
                results.append(work(number))
            except GpucostError as error:
                # return it as a result: repeating the task would not help
                results.append(json.dumps({"error": [error.message, error.fix]}))
        yield pa.RecordBatch.from_pydict(
            {"number": pa.array(numbers, pa.int64()), "result": pa.array(results, pa.string())}
        )


def _reason(error: Exception) -> str:
    """The cause in Spark's report of a failed task.

    It is Python's error, otherwise the innermost exception of the first line.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if "Error:" in line and not line.startswith("at ")]
    java = [line.rpartition("Exception: ")[2] for line in lines if "Exception: " in line]
    causes = python[-1:] or java or [*lines, type(error).__name__]
    return causes[0][:500]


@contextmanager
def session(master: str | None, options: Mapping[str, str]) -> Iterator[Any]:
    """The active Spark session, otherwise a new session for this block.

    Raises UsageError without pyspark, GpucostError if Spark cannot be started.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise UsageError("--engine spark needs pyspark", with_extra("spark")) from None
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    # progress bars only on a terminal
    settings = {"spark.app.name": "gpucost", "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()}
    if master:
        settings["spark.master"] = master
    try:
        new = SparkSession.builder.config(map=settings | dict(options)).getOrCreate()
    except Exception as error:
        where = f" at {master}" if master else ""
        raise GpucostError(
            f"Spark cannot be started{where}: {_reason(error)}",
            "name a running cluster in [engine] spark_master",
        ) from error
    try:
        yield new
    finally:
        new.stop()


def attribute(
    spark: Any, url: str, config: Config, show_progress: Callable[[str], None] = lambda _: None
) -> Any:
    """Attribute the lake at `url` in an existing Spark session (Databricks, EMR, Dataproc).

    It does the same as `gpucost lake attribute` and returns gpucost.lake.attribution.Attributed. The workers
    need gpucost and pyarrow, and access to the lake.
    """
    from gpucost.lake.attribution import attribute as run

    return run(config, url, spark, show_progress)
