"""What the commands of `gpucost export` share: where the text goes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpucost.cli._common import note, output_file, put_or_write

OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write here, whole or not at all, instead of stdout.", show_default=False
    ),
]


def deliver(text: str, output: Path | None, what: str, *, quiet: bool) -> None:
    """`text` to the file `output`, with a note that says `what` was written, or to stdout where it is None."""
    target = output_file(output)
    put_or_write(text, target)
    if target:
        note(f"{what} written to {target}", quiet=quiet)
