"""What a command that asks clouds is doing: one line that changes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpucost.cli._common import note


@contextmanager
def status(*, quiet: bool, verbose: bool) -> Iterator[Callable[[str], None]]:
    """What to call with what is being done: one line that changes on a terminal, lines on stderr under -v, else nothing.

    Nothing may be written to stdout meanwhile.
    """
    if quiet or verbose or not sys.stderr.isatty():

        def line(words: str) -> None:
            note(words, quiet=quiet or not verbose)

        yield line
        return
    from rich.console import Console

    with Console(stderr=True).status("") as shown:

        def show(words: str) -> None:
            shown.update(words)

        yield show
