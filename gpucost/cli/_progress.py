"""The progress bar of a collection: on a terminal only, on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpucost.model import MS_PER_HOUR

if TYPE_CHECKING:
    from rich.progress import TaskID

    from gpucost.collect.result import ProgressState

# About as many characters as the words beside a bar take; a narrower terminal shows the bar and its percentage alone.
_WORDS = 80


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Callable[[ProgressState], None] | None]:
    """What to call with each state of a run, one bar for each source; None where stderr is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    wide = (
        TextColumn("{task.completed:.0f} h"),
        TextColumn("{task.fields[samples]:,} samples"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=max(10, min(40, console.width - _WORDS))),
        TaskProgressColumn(),
        *(wide if console.width > _WORDS else ()),
    )
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=console, transient=True) as bars:

        def show(state: ProgressState) -> None:
            # a total of 0 is not known yet: the bar pulses
            total, done = state.total_ms / MS_PER_HOUR or None, state.done_ms / MS_PER_HOUR
            if state.source not in tasks:
                tasks[state.source] = bars.add_task(state.source, total=total, samples=0, note="")
            bars.update(tasks[state.source], total=total, completed=done, samples=state.samples, note=state.note)

        yield show
