"""`gpucost schema`: JSON Schemas of what commands print."""

from __future__ import annotations

from typing import Annotated

import typer

from gpucost.cli._common import QuietOption, VerboseOption, handle_errors
from gpucost.cli._exports import OutputOption, deliver


@handle_errors
def schema(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Of which answer; without it, lists them.")] = None,
    output: OutputOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Print the JSON Schema of an answer in --format json, or list what there are schemas of.

    An answer's key `schema` says which one it follows: gpucost.report/1 is `gpucost schema report`. The number grows when
    a property is renamed, removed or means something else.

    \b
    Examples:
      gpucost schema
      gpucost schema report
      gpucost schema unit.epoch -o epoch.schema.json
    """
    from gpucost import schemas

    text = "".join(f"{one}\n" for one in schemas.names()) if name is None else schemas.schema(name)
    deliver(text, output, "JSON Schema", quiet=quiet)
