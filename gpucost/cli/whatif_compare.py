"""`gpucost whatif compare`: two saved answers side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors, output_file, put, write_text
from gpucost.cli._rows import RowFormat, render_rows
from gpucost.cli._whatif import AnswerFormat
from gpucost.cli._whatif_options import OutputOption, saved_answers

if TYPE_CHECKING:
    from gpucost.whatif.compare import Comparison

SCHEMA = "gpucost.whatif-compare/1"


@handle_errors
def whatif_compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A name given to --save, or a file of --format json.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another.")],
    format: Annotated[AnswerFormat, typer.Option("--format", help="How to write it.")] = AnswerFormat.table,
    output: OutputOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Put two saved answers side by side: costs, savings, other figures, and the assumptions in which they differ.

    \b
    Examples:
      gpucost whatif schedule --month 2026-10 --idle-minutes 30 --save thirty
      gpucost whatif schedule --month 2026-10 --idle-minutes 60 --save sixty
      gpucost whatif compare thirty sixty
      gpucost whatif compare thirty other.json --format json
    """
    from gpucost.config import load_config
    from gpucost.whatif.compare import compare, read_answer

    settings = load_config(config, store=store)
    target = output_file(output)
    folder = saved_answers(settings)
    known = sorted(file.stem for file in folder.glob("*.json")) if folder.is_dir() else []
    answers = [read_answer(_file(name, folder), name, known) for name in (first, second)]
    text = _render(compare(*answers), (first, second), format)
    if target is None:
        put(text, nl=False)
        return
    write_text(text, target)


def _file(name: str, folder: Path) -> Path:
    """A file where the name is a path, else the saved answer of that name."""
    path = Path(name)
    if path.suffix == ".json" or len(path.parts) > 1 or path.is_file():
        return path
    return folder / f"{name}.json"


def _render(found: Comparison, names: tuple[str, str], format: AnswerFormat) -> str:
    if format is AnswerFormat.json:
        told = {
            "schema": SCHEMA,
            "currency": found.currency,
            "a": {"name": names[0], "title": found.titles[0], "period": found.periods[0]},
            "b": {"name": names[1], "title": found.titles[1], "period": found.periods[1]},
            "figures": {line.figure: {"a": line.a, "b": line.b, "difference": line.difference} for line in found.lines},
            "assumptions": [{"name": name, "a": a, "b": b} for name, a, b in found.assumptions],
            "notes": list(found.notes),
        }
        return json.dumps(told, indent=2, ensure_ascii=False) + "\n"
    rows = [(line.figure, line.a, line.b, line.difference) for line in found.lines]
    if format is AnswerFormat.csv:
        return render_rows(("figure", "a", "b", "difference"), rows, RowFormat.csv)
    style = RowFormat.markdown if format is AnswerFormat.markdown else RowFormat.table
    heads = "".join(
        f"{mark}: {title}, {period}  \n" if style is RowFormat.markdown else f"{mark}: {title}, {period}\n"
        for mark, title, period in zip(names, found.titles, found.periods, strict=True)
    )
    shown = [(figure, *(_number(value) for value in values)) for figure, *values in rows]
    parts = [heads, render_rows((f"in {found.currency}, or the unit named", *names, "difference"), shown, style)]
    parts += [f"{note}\n" for note in found.notes]
    if found.assumptions:
        parts.append(render_rows(("assumed", *names), found.assumptions, style))
    return "\n".join(parts)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4f}".rstrip("0").rstrip(".") if value % 1 else f"{value:,.0f}"
