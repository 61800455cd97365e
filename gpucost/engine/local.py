"""Tasks in processes of this machine."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from threading import Thread
from typing import TYPE_CHECKING

from gpucost.errors import GpucostError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# A process that was ended took its task along, which may be run again; one that ends them again and again is too large.
_TRIES = 3


class LocalEngine:
    """Runs tasks in as many processes as are asked for, else as there are cores; they end with the block that this is used in."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or len(os.sched_getaffinity(0))
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> LocalEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def threads(self, tasks: int) -> int:
        """How many threads each of so many tasks may use."""
        return max(1, len(os.sched_getaffinity(0)) // min(self.workers, max(tasks, 1)))

    def run(self, work: Callable[[str], str], tasks: Sequence[str], names: Sequence[str]) -> Iterator[tuple[int, str]]:
        """The number of each task and what `work` makes of it, as they end.

        Raises what a task raises, once those that run have ended; GpucostError where processes were ended again and again.
        """
        if len(tasks) == 1 or self.workers == 1:
            yield from ((number, work(task)) for number, task in enumerate(tasks))
            return
        waiting = dict(enumerate(tasks))
        for _ in range(_TRIES):
            try:
                if self._pool is None:
                    # not forked: DuckDB's threads would not come along
                    self._pool = ProcessPoolExecutor(self.workers, get_context("spawn"), _end_with_parent)
                running = {self._pool.submit(work, task): number for number, task in waiting.items()}
                for one in as_completed(running):
                    result = one.result()
                    del waiting[running[one]]
                    yield running[one], result
                return
            except BrokenProcessPool:
                self._end()
            except BaseException:
                self._end()
                raise
        raise GpucostError(
            f"processes were ended {_TRIES} times while {len(waiting)} tasks were left, of them {names[min(waiting)]}",
            "what is done stays: run it again with fewer [engine] workers, or less [engine] memory",
        )

    def _end(self) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


def _end_with_parent() -> None:
    """Let this worker end when the process that started it is gone; it would wait for tasks for ever."""

    def watch() -> None:
        parent = parent_process()
        if parent and wait([parent.sentinel]):
            os._exit(1)

    Thread(target=watch, daemon=True).start()
