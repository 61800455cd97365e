"""`gpucost diff`: what changed between two periods, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors, load, note, output_file
from gpucost.cli._rows import FormatOption, OutputOption, RowFormat


@handle_errors
def diff(
    before: Annotated[
        str, typer.Argument(metavar="A", help="The earlier period: a month (2026-09), a day (2026-09-05), or FROM..TO.")
    ],
    after: Annotated[str, typer.Argument(metavar="B", help="The later period, the same way.")],
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            metavar="A,B",
            help="Rows by any of team, namespace, workload, cluster, gpu_model, capacity_type. Default: team; with --team or "
            "--namespace workload.",
            show_default=False,
        ),
    ] = None,
    team: Annotated[list[str] | None, typer.Option("--team", metavar="NAME", help="Only this team; repeatable.")] = None,
    namespace: Annotated[
        list[str] | None, typer.Option("--namespace", metavar="NAME", help="Only this namespace; repeatable.")
    ] = None,
    cluster: Annotated[list[str] | None, typer.Option("--cluster", metavar="NAME", help="Only this cluster; repeatable.")] = None,
    top: Annotated[int, typer.Option("--top", min=0, help="How many of the workloads that changed most to list.")] = 10,
    format: FormatOption = RowFormat.table,
    output: OutputOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show what changed between two periods and why: price, volume, mix, idle time, new and gone workloads, unallocated GPUs.

    The parts add up to the change, exactly; docs/diff.md has the arithmetic. TO is exclusive; periods of different length are
    compared as they are, with the cost a day beside.

    \b
    Examples:
      gpucost diff 2026-09 2026-10
      gpucost diff 2026-09 2026-10 --by gpu_model,capacity_type
      gpucost diff 2026-10-01..2026-10-08 2026-10-08..2026-10-15 --team research
      gpucost diff 2026-10-05 2026-10-12 --format json
    """
    from datetime import UTC, datetime

    from gpucost import comparisons
    from gpucost.cli._diff import chosen_dimensions, write
    from gpucost.cli._spans import parse_span
    from gpucost.report import Query

    target = output_file(output)
    narrowed = bool(team or namespace)
    dimensions = chosen_dimensions(by, narrowed=narrowed)
    settings, opened = load(config, store)
    now = datetime.now(UTC)
    queries = [
        Query(
            period=period,
            period_name=name,
            teams=tuple(team or ()),
            namespaces=tuple(namespace or ()),
            clusters=tuple(cluster or ()),
            now=now,
            with_sections=False,
        )
        for period, name in (parse_span(text, settings.tz, now) for text in (before, after))
    ]
    view, found = comparisons.compare(settings, opened, queries[0], queries[1], dimensions)
    whose = ", ".join((*(team or ()), *(namespace or ()), *(cluster or ()))) or "all teams"
    write(view, found, whose, format, target, top)
    if target:
        note(f"what changed from {found.before.name} to {found.after.name}: written to {target}", quiet=quiet)
