"""Stores that tests have read stay open for the next reader: reopening takes 20 ms, mostly DuckDB's start."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gpucost.store import connection
from gpucost.store.connection import Store
from gpucost.store.schema import _state as state

MOST = 6
# By file: the open connection, the folders visible to its connections, and the file's state.
_kept: dict[Path, tuple[ExitStack, tuple[Path, ...], str]] = {}
OWN_OPEN = Store._open


def let_go(*places: Path) -> None:
    """Close the kept connections of these files, or all."""
    for place in places or tuple(_kept):
        kept = _kept.pop(place, None)
        if kept:
            with suppress(Exception):
                kept[0].close()


@contextmanager
def kept_open() -> Iterator[None]:
    """Keep stores open during the block, but close them before a write, an open without `Store`, or a new process."""
    own_connect, own_process, own_start = duckdb.connect, subprocess.Popen.__init__, BaseProcess.start

    @contextmanager
    def opened(
        store: Store, folders: tuple[Path, ...], *, read_only: bool
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        place = store.path.resolve()
        kept = _kept.get(place)
        # user statements lock the configuration of an open store
        may_keep = read_only and store.sees_catalog and store.exists
        if kept and not (may_keep and set(folders) <= set(kept[1]) and state(place) == kept[2]):
            let_go(place)
            kept = None
        with OWN_OPEN(store, folders, read_only=read_only) as con:
            if may_keep and kept is None:
                stack = ExitStack()
                with suppress(Exception):
                    stack.enter_context(OWN_OPEN(store, (), read_only=True))
                    _kept[place] = (stack, folders, state(place))
                if len(_kept) > MOST:
                    let_go(next(iter(_kept)))
            yield con

    def connect(*args: Any, **more: Any) -> duckdb.DuckDBPyConnection:
        if args and sys._getframe(1).f_code.co_filename not in (connection.__file__, __file__):
            let_go()
        return own_connect(*args, **more)

    def process(self: subprocess.Popen[Any], *args: Any, **more: Any) -> None:
        let_go()
        own_process(self, *args, **more)

    def start(self: BaseProcess) -> None:
        let_go()
        own_start(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "_open", opened)
        patch.setattr(duckdb, "connect", connect)
        patch.setattr(subprocess.Popen, "__init__", process)
        patch.setattr(BaseProcess, "start", start)
        yield
        let_go()
