"""`gpucost whatif plan`: several changes over named groups of workloads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpucost.cli._common import (
    ConfigOption,
    QuietOption,
    StoreOption,
    VerboseOption,
    handle_errors,
    output_file,
    put,
    write_text,
)
from gpucost.cli._periods import FromOption, LastOption, MonthOption, ToOption
from gpucost.cli._whatif import AnswerFormat, write_answer
from gpucost.cli._whatif_options import OutputOption, SaveOption, StoreOptions, cost_of, saved_answer, stored_usage
from gpucost.errors import UsageError


@handle_errors
def whatif_plan(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="The plan, a TOML file.", show_default=False)] = None,
    example: Annotated[bool, typer.Option("--example", help="Print a plan to start from.")] = False,
    month: MonthOption = None,
    start: FromOption = None,
    end: ToOption = None,
    last: LastOption = None,
    format: Annotated[AnswerFormat, typer.Option("--format", help="How to write it.")] = AnswerFormat.table,
    output: OutputOption = None,
    save: SaveOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
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
    target = output_file(output)
    if example == (file is not None):
        raise UsageError(
            "--example prints a plan, FILE runs one" if example else "no plan is named",
            "gpucost whatif plan --example > plan.toml makes one to start from",
        )
    if file is None:
        from importlib.resources import files

        text = (files("gpucost.whatif.plan") / "example-plan.toml").read_text(encoding="utf-8")
        if target is None:
            put(text, nl=False)
        else:
            write_text(text, target)
        return

    from gpucost.config import load_config
    from gpucost.whatif.plan.run import Context, answer
    from gpucost.whatif.plan.schema import read_plan

    settings = load_config(config, store=store)
    plan = read_plan(file)
    saved = saved_answer(settings, save)
    groups = [group for group in plan.groups if group.is_stored]
    context = Context(settings.currency, {})
    if not groups and (month or start or end or last):
        raise UsageError("a period was named, but no group of the plan is read from the store", "leave the period out")
    if groups:
        usages = {
            group.name: stored_usage(
                settings,
                StoreOptions(
                    list(group.teams),
                    list(group.namespaces),
                    list(group.workloads),
                    list(group.clusters),
                    month,
                    start,
                    end,
                    last,
                ),
                quiet=quiet,
            )
            for group in groups
        }
        any_usage = usages[groups[0].name]
        hours = (any_usage.period.end - any_usage.period.start).total_seconds() / 3600
        fleets = {name: usage.fleet for name, usage in usages.items()}
        context = Context(settings.currency, fleets, any_usage.period_name, hours, hours / 24)
    write_answer(answer(plan, context, cost_of(settings)), format, target, saved)
