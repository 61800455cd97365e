"""`gpucost whatif plan`: several changes over named groups of workloads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.cli.output import put_or_write, write_rows
from gpucost.cli.whatif import SCOPE, Run, saved_answers, whatif_command
from gpucost.errors import UsageError
from gpucost.render.rows import FLAT, RowFormat, render_rows

if TYPE_CHECKING:
    from gpucost.whatif.compare import Comparison


@whatif_command(without=SCOPE)
def whatif_plan(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="The plan, a TOML file.")] = None,
    example: Annotated[bool, typer.Option("--example", help="Print a plan to start from.")] = False,
    *,
    run: Run,
) -> None:
    """Say what several changes save together: shared GPUs, spot, schedules and other GPUs, in order, none counted twice.

    Groups of a plan are described in it, or read from the store: the last complete month, or the period named.

    \b
    Examples:
      gpucost whatif plan --example > plan.toml
      gpucost whatif plan plan.toml
      gpucost whatif plan plan.toml --month 2026-10 --format markdown -o plan.md
      gpucost whatif plan plan.toml --save october
    """
    if example == (file is not None):
        raise UsageError(
            "--example prints a plan, FILE runs one" if example else "no plan is named",
            "gpucost whatif plan --example > plan.toml makes one to start from",
        )
    if file is None:
        from importlib.resources import files

        text = (files("gpucost.whatif") / "example-plan.toml").read_text(encoding="utf-8")
        put_or_write(text, run.target)
        return

    from dataclasses import replace

    from gpucost.whatif.plan import Context, answer, read_plan

    settings = run.settings
    plan = read_plan(file)
    groups = [group for group in plan.groups if group.is_stored]
    context = Context(settings.currency, {})
    if not groups and any(run.asked.period().values()):
        raise UsageError("a period was named, but no group of the plan is read from the store", "leave the period out")
    if groups:
        usages = {
            group.name: run.usage(
                replace(
                    run.asked,
                    team=list(group.teams),
                    namespace=list(group.namespaces),
                    workload=list(group.workloads),
                    cluster=list(group.clusters),
                )
            )
            for group in groups
        }
        any_usage = usages[groups[0].name]
        hours = (any_usage.period.end - any_usage.period.start).total_seconds() / 3600
        fleets = {name: usage.fleet for name, usage in usages.items()}
        context = Context(settings.currency, fleets, any_usage.period_name, hours, hours / 24)
    run.write(run.evaluate(answer(plan, context)))


SCHEMA = "gpucost.whatif-compare/1"


@whatif_command(without=(*SCOPE, "period", "save"))
def whatif_compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A name given to --save, or a file of --format json.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another.")],
    *,
    run: Run,
) -> None:
    """Put two saved answers side by side: costs, savings, other figures, and the assumptions in which they differ.

    \b
    Examples:
      gpucost whatif schedule --month 2026-10 --idle-minutes 30 --save thirty
      gpucost whatif schedule --month 2026-10 --idle-minutes 60 --save sixty
      gpucost whatif compare thirty sixty
      gpucost whatif compare thirty other.json --format json
    """
    from gpucost.whatif.compare import compare, read_answer

    folder = saved_answers(run.settings)
    known = sorted(file.stem for file in folder.glob("*.json")) if folder.is_dir() else []
    answers = [read_answer(_file(name, folder), name, known) for name in (first, second)]
    found = compare(*answers)
    if run.format in FLAT:
        rows = [(line.figure, line.a, line.b, line.difference) for line in found.lines]
        write_rows(("figure", "a", "b", "difference"), rows, run.format, run.target)
        return
    put_or_write(_render(found, (first, second), run.format), run.target)


def _file(name: str, folder: Path) -> Path:
    """A file where the name is a path, else the saved answer of that name."""
    path = Path(name)
    if path.suffix == ".json" or len(path.parts) > 1 or path.is_file():
        return path
    return folder / f"{name}.json"


def _render(found: Comparison, names: tuple[str, str], format: RowFormat) -> str:
    if format is RowFormat.json:
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
    heads = "".join(
        f"{mark}: {title}, {period}  \n" if format is RowFormat.markdown else f"{mark}: {title}, {period}\n"
        for mark, title, period in zip(names, found.titles, found.periods, strict=True)
    )
    shown = [(figure, *(_number(value) for value in values)) for figure, *values in rows]
    parts = [heads, render_rows((f"in {found.currency}, or the unit named", *names, "difference"), shown, format)]
    parts += [f"{note}\n" for note in found.notes]
    if found.assumptions:
        parts.append(render_rows(("assumed", *names), found.assumptions, format))
    return "\n".join(parts)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4f}".rstrip("0").rstrip(".") if value % 1 else f"{value:,.0f}"
