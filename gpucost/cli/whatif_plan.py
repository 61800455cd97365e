"""`gpucost whatif plan`: several changes over named groups of workloads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpucost.cli._common import put_or_write
from gpucost.cli._whatif_run import SCOPE, Run, whatif_command
from gpucost.errors import UsageError


@whatif_command(without=SCOPE)
def whatif_plan(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="The plan, a TOML file.", show_default=False)] = None,
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

        text = (files("gpucost.whatif.plan") / "example-plan.toml").read_text(encoding="utf-8")
        put_or_write(text, run.target)
        return

    from dataclasses import replace

    from gpucost.whatif.plan.run import Context, answer
    from gpucost.whatif.plan.schema import read_plan

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
    run.write(answer(plan, context, run.cost_of))
