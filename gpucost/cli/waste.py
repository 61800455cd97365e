"""`gpucost waste`: where GPU time was wasted, by whom, and on what."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.cli._common import (
    ConfigOption,
    QuietOption,
    StoreOption,
    VerboseOption,
    handle_errors,
    load,
    note,
    output_file,
    put_or_write,
)
from gpucost.cli._periods import FromOption, LastOption, MonthOption, ToOption, chosen_period
from gpucost.cli._rows import FLAT, FormatOption, OutputOption, RowFormat, write_rows
from gpucost.cli._strict import note_gaps

if TYPE_CHECKING:
    from gpucost.findings import Findings
    from gpucost.report import ReportView
    from gpucost.waste import Waste

SCHEMA = "gpucost.waste/1"


@handle_errors
def waste(
    team: Annotated[list[str] | None, typer.Option("--team", metavar="NAME", help="Only this team; repeatable.")] = None,
    namespace: Annotated[
        list[str] | None, typer.Option("--namespace", metavar="NAME", help="Only this namespace; repeatable.")
    ] = None,
    cluster: Annotated[list[str] | None, typer.Option("--cluster", metavar="NAME", help="Only this cluster; repeatable.")] = None,
    workload: Annotated[
        list[str] | None,
        typer.Option("--workload", metavar="NAME", help="Only this workload, as Kind/name or by its name; repeatable."),
    ] = None,
    month: MonthOption = None,
    start: FromOption = None,
    end: ToOption = None,
    last: LastOption = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            metavar="A,B",
            help="Also by any of cluster, namespace, team, workload, workload_type, pod, uid, node, gpu_model, capacity_type, "
            "region, zone, month, day, hour.",
            show_default=False,
        ),
    ] = None,
    format: FormatOption = RowFormat.table,
    output: OutputOption = None,
    top: Annotated[int, typer.Option("--top", min=0, help="How many of the workloads that waste most to list.")] = 10,
    findings: Annotated[
        int, typer.Option("--findings", min=0, metavar="COUNT", help="Also list so many of the whole fleet's dearest findings.")
    ] = 0,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show where GPU time was wasted: every held or paid GPU-hour in exactly one bucket.

    Training that waits for data or was lost, serving off its peak or with replicas to spare, notebooks left running, images being
    pulled, GPUs that nobody held and why. docs/waste.md defines each.

    Without a period: the current month so far, or the newest month with data.

    \b
    Examples:
      gpucost waste
      gpucost waste --team research --month 2026-10
      gpucost waste --last 7d --by team,workload_type
      gpucost waste --workload Deployment/chat --format json
      gpucost waste --month 2026-10 --findings 5
    """
    from datetime import UTC, datetime

    from gpucost import pipeline
    from gpucost.cli._findings import found as advise
    from gpucost.errors import UsageError
    from gpucost.report import Query

    if findings and format in FLAT:
        raise UsageError(f"--findings has no place in the columns of {format.value}", f"gpucost findings --format {format.value}")
    target = output_file(output)
    settings, opened = load(config, store)
    now = datetime.now(UTC)
    period, name, why = chosen_period(opened, settings.tz, now, month=month, start=start, end=end, last=last)
    query = Query(
        period=period,
        period_name=name,
        by=tuple(dict.fromkeys(part.strip() for item in by or () for part in item.split(",") if part.strip())),
        teams=tuple(team or ()),
        namespaces=tuple(namespace or ()),
        clusters=tuple(cluster or ()),
        top=0,
        period_note=why,
        now=now,
        with_sections=False,
    )
    named = tuple(workload or ())
    view, found = pipeline.waste_report(settings, opened, query, named, top)
    advice = advise(settings, opened, period) if findings else None
    _write(replace(view, title=_title(view, named)), found, format, target, advice, findings)
    if target:
        note(f"{_title(view, named)}: written to {target}", quiet=quiet)
    if format in FLAT:
        note_gaps(settings, opened, period, query.clusters, quiet=quiet)


def _write(view: ReportView, found: Waste, format: RowFormat, target: Path | None, advice: Findings | None, count: int) -> None:
    from gpucost.cli import _findings
    from gpucost.cli._waste import as_dict, flat_rows, tables
    from gpucost.cli.report import ReportFormat, write_report

    if format is RowFormat.json:
        told = {"findings": _findings.as_dict(advice, count)["findings"]} if advice else {}
        text = _json(view, as_dict(found) | told)
        put_or_write(text, target)
    elif format in FLAT:
        write_rows(*flat_rows(found), format, target)
    else:
        sections = (*tables(found), *((_findings.table(advice, count),) if advice else ()))
        write_report(replace(view, sections=sections), ReportFormat(format.value), target)


def _title(view: ReportView, workloads: tuple[str, ...]) -> str:
    about = view.title.split(": ", 1)[1]
    return f"GPU waste: {', '.join((*workloads, about))}"


def _json(view: ReportView, found: dict[str, object]) -> str:
    import json

    from gpucost.model import iso
    from gpucost.report.render_data import coverage_dict, number

    head = {"schema": SCHEMA, "from": iso(view.period.start), "to": iso(view.period.end), "currency": view.currency}
    whole = head | found | {"coverage": coverage_dict(view.coverage)}
    return json.dumps(whole, indent=2, ensure_ascii=False, default=number) + "\n"
