"""`gpucost sql`: ask the store anything, read-only."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors, load, output_file
from gpucost.cli._rows import FormatOption, OutputOption, RowFormat, write_rows


@handle_errors
def sql(
    statement: Annotated[str, typer.Argument(metavar="SQL", help="One statement in DuckDB's dialect; - reads it from stdin.")],
    format: FormatOption = RowFormat.table,
    output: OutputOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Ask the store anything in SQL, read-only.

    Statements see the store alone: they cannot write, and reach neither other files nor the network.

    \b
    Examples:
      gpucost sql "select source, count(*) as series from series group by source"
      gpucost sql --format csv -o nodes.csv "from nodes"
      gpucost sql - < question.sql
    """
    target = output_file(output)
    _, opened = load(config, store)
    columns, rows = opened.query(sys.stdin.read() if statement == "-" else statement)
    write_rows(columns, rows, format, target)
