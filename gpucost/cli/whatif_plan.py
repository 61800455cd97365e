"""`gpucost whatif plan`: several changes over named groups of workloads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import typer

from gpucost.cli.whatif import SCOPE, WhatIfContext, capitalized, saved_answers, whatif_command
from gpucost.errors import UsageError
from gpucost.options import Option
from gpucost.periods import MS_PER_HOUR
from gpucost.render.view import Page, Table, Texts, figure, text
from gpucost.texts import readable_json


@whatif_command(without=SCOPE)
def whatif_plan(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="The plan, a TOML file.")] = None,
    example: Annotated[bool, Option("Print a plan to start from.")] = False,
    *,
    run: WhatIfContext,
) -> None:
    """Say what several changes save together, in order, none counted twice: a business case.

    Changes are share, spot, schedule, rightsize, reserve, egress and burst. Groups of workloads are described in the plan, or
    read from the store: the last complete month, or the period named.

    \b
    Examples:
      gpucost whatif plan --example > plan.toml
      gpucost whatif plan plan.toml
      gpucost whatif plan plan.toml --format markdown -o plan.md
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
        run.write(text)
        return

    from gpucost.whatif.fleet import Scope
    from gpucost.whatif.plan import Context, answer, read_plan

    plan = read_plan(file)
    context = Context(run.settings.currency, {}, file=str(file))
    fleets = {
        group.name: run.usage(
            Scope(*map(tuple, (group.teams, group.namespaces, group.workloads, group.clusters)))
        ).fleet
        for group in plan.groups
        if group.is_stored
    }
    if fleets:
        start = run.period.start_ms
        hours = (run.period.end_ms - start) / MS_PER_HOUR
        context = Context(context.currency, fleets, run.period_name, hours, hours / 24, context.file, start)
    elif run.period_flags:
        raise UsageError(
            "a period was named, but no group of the plan is read from the store", "leave the period out"
        )
    run.finish(answer(plan, context))


@whatif_command(without=(*SCOPE, "period", "save"))
def whatif_compare(
    first: Annotated[
        str, typer.Argument(metavar="A", help="A name given to --save, or a file of --format json.")
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="Another.")],
    *,
    run: WhatIfContext,
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

    folder = saved_answers(run.configured)
    comparison = compare((first, second), (read_answer(first, folder), read_answer(second, folder)))
    rows = [(figure, *values.values()) for figure, values in comparison["figures"].items()]
    sides = {column: comparison[key] for column, key in ((first, "a"), (second, "b"))}
    shown = (
        text(
            lambda row: capitalized(row[0].replace(".", ": ")),
            f"In {comparison['currency']}, or the unit named",
        ),
        *(figure(partial(_shown, at), name) for at, name in enumerate((first, second, "Difference"), 1)),
    )
    differing = (
        text(itemgetter("name"), "Assumption"),
        figure(itemgetter("a"), first),
        figure(itemgetter("b"), second),
    )
    page = Page(
        title=f"What-ifs compared: {first} and {second}",
        currency=comparison["currency"],
        sections=(
            Texts(
                "Answers", tuple(f"{name}: {one['title']}, {one['period']}" for name, one in sides.items())
            ),
            Table.of("Figures", rows, shown, note=" ".join(comparison["notes"]) or None),
            Table.of("Assumptions that differ", comparison["assumptions"], differing),
        ),
        whole_in="json",
    )
    run.write_as(("figure", "a", "b", "difference"), rows, readable_json(comparison, indent=2) + "\n", page)


def _shown(at: int, row: Sequence[Any]) -> str:
    value = row[at]
    return "–" if value is None else f"{value:,.4f}".rstrip("0").rstrip(".") if value % 1 else f"{value:,.0f}"
