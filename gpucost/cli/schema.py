"""`gpucost schema`: JSON Schemas of what commands print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpucost.cli._common import QuietOption, VerboseOption, handle_errors, note, output_file, put, write_text


@handle_errors
def schema_report(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of stdout.", show_default=False),
    ] = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Print the JSON Schema of `gpucost report --format json`, the contract gpucost.report/1.

    \b
    Examples:
      gpucost schema report
      gpucost schema report -o gpucost-report.schema.json
    """
    from gpucost.report.schema import report_schema

    text = report_schema()
    target = output_file(output)
    if target is None:
        put(text, nl=False)
        return
    write_text(text, target)
    note(f"JSON Schema written to {target}", quiet=quiet)
