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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpucost.config.model import Config

_SCHEMA = "number long, result string"


class SparkEngine:
    """Runs each task as a task of Spark's, which tries it again where a worker is lost.

    Rows never pass through the driver: a task reads and writes files itself, and what it is to do it reads from `shelf`.
    """

    def __init__(self, session: Any, shelf: Callable[[Sequence[str]], Callable[[int], str]]) -> None:
        self.session, self._shelf = session, shelf

    def __enter__(self) -> SparkEngine:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def threads(self, tasks: int) -> int:
        """One: Spark gives each task one core (`spark.task.cpus`)."""
        del tasks
        return int(self.session.conf.get("spark.task.cpus", "1"))

    def run(self, work: Callable[[str], str], tasks: Sequence[str], names: Sequence[str]) -> Iterator[tuple[int, str]]:
        """The number of each task and what `work` makes of it, once all have ended.

        Raises GpucostError for a task that failed for good; the others are done by then, or may be done.
        """
        frame = self.session.range(0, len(tasks), 1, len(tasks))  # a row is a task here, and of Spark's
        with warnings.catch_warnings():
            # of pandas, which Arrow's batches do without
            warnings.simplefilter("ignore", FutureWarning)
            frame = frame.mapInArrow(partial(_each, work, self._shelf(tasks), __version__), _SCHEMA)
        try:
            rows = frame.collect()
        except Exception as error:
            number = re.search(r"Task (\d+) in stage", str(error))
            name = f"{names[int(number[1])]}: " if number else ""
            raise GpucostError(f"{name}Spark: {_reason(error)}", "what is done stays: run it again") from error
        for row in rows:
            told = json.loads(row["result"])
            if "error" in told:
                raise GpucostError(*told["error"])
            yield row["number"], row["result"]


def _each(work: Callable[[str], str], read: Callable[[int], str], version: str, batches: Iterator[Any]) -> Iterator[Any]:
    """What a worker does: the numbers of tasks, and what they came to, as batches of Arrow."""
    import pyarrow as pa

    for batch in batches:
        numbers, results = batch.column(0).to_pylist(), []
        for number in numbers:
            try:
                if version != __version__:
                    raise GpucostError(
                        f"Spark's workers have gpucost {__version__}, not {version}", "install the same version there"
                    )
                results.append(work(read(number)))
            except GpucostError as error:
                # trying again would not mend it
                results.append(json.dumps({"error": [error.message, error.fix]}))
        yield pa.RecordBatch.from_pydict({"number": pa.array(numbers, pa.int64()), "result": pa.array(results, pa.string())})


def _reason(error: Exception) -> str:
    """The part of Spark's report that says what a task failed of: Python's own error, else the innermost of the first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if "Error:" in line and not line.startswith("at ")]
    java = [line.rpartition("Exception: ")[2] for line in lines if "Exception: " in line]
    told = python[-1:] or java or [*lines, type(error).__name__]
    return told[0][:500]


@contextmanager
def session(master: str | None, options: Mapping[str, str]) -> Iterator[Any]:
    """A Spark session: the one that is there, else one that ends with the block.

    Raises UsageError where pyspark is not installed, GpucostError where Spark cannot be started.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise UsageError("--engine spark needs pyspark", "pip install 'gpucost[spark]'") from None
    there = SparkSession.getActiveSession()
    if there is not None:
        yield there
        return
    # bars only on a terminal
    builder = SparkSession.builder.appName("gpucost").config("spark.ui.showConsoleProgress", str(sys.stderr.isatty()).lower())
    if master:
        builder = builder.master(master)
    for name, value in options.items():
        builder = builder.config(name, value)
    try:
        made = builder.getOrCreate()
    except Exception as error:
        where = f" at {master}" if master else ""
        raise GpucostError(
            f"Spark cannot be started{where}: {_reason(error)}", "let [engine] spark_master name a cluster that runs"
        ) from error
    try:
        yield made
    finally:
        made.stop()


@contextmanager
def engine(master: str | None, options: Mapping[str, str]) -> Iterator[Callable[[Any], SparkEngine]]:
    """What makes an engine of a session as `session` does; raises what that raises."""
    with session(master, options) as spark:
        yield lambda shelf: SparkEngine(spark, shelf)


def attribute(spark: Any, url: str, config: Config, tell: Callable[[str], None] = lambda _: None) -> Any:
    """Attribute the lake at `url` in a Spark session that is there (Databricks, EMR, Dataproc), as `gpucost lake attribute` does.

    Returns gpucost.lake.attribution.Attributed. The workers need gpucost and pyarrow, and access to the lake.
    """
    from gpucost.lake.attribution import attribute as run

    return run(config, url, lambda shelf: SparkEngine(spark, shelf), tell)
