"""How far a run over exports is: bytes of files, and within a file what DuckDB says of its own progress."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

_EVERY_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class BillProgress:
    """How far a run is: bytes of files read and in all, and what it does now."""

    done: int
    total: int
    note: str


Progress = Callable[[BillProgress], None]


class Meter:
    """Tells `progress`, where there is one, of each step."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._done = 0
        self.total = 0

    def tell(self, note: str, part: int = 0) -> None:
        """Says what is done now, and how many bytes of the file in hand are read."""
        if self._progress is not None:
            self._progress(BillProgress(self._done + part, self.total, note))

    def advance(self, size: int) -> None:
        """A file of `size` bytes is done."""
        self._done += size
        self.tell("")

    @contextmanager
    def reading(self, con: duckdb.DuckDBPyConnection, name: str, size: int) -> Iterator[None]:
        """While a file is read on `con`, tells every moment how far that is."""
        self.tell(f"reading {name}")
        if self._progress is None:
            yield
            return
        # DuckDB counts its progress only where it would show a bar.
        con.execute("SET enable_progress_bar = true")
        con.execute("SET enable_progress_bar_print = false")
        over = threading.Event()

        def watch() -> None:
            while not over.wait(_EVERY_SECONDS):
                if (percent := con.query_progress()) > 0:
                    self.tell(f"reading {name}", round(size * percent / 100))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
