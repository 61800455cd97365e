"""`gpucost waste`: where GPU time was wasted, by whom, and on what."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, fields, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucost.cli.command import (
    ConfigOption,
    FromOption,
    LastOption,
    MonthOption,
    QuietOption,
    StoreOption,
    ToOption,
    VerboseOption,
    chosen_period,
    handle_errors,
    load,
    note,
    note_gaps,
    output_file,
    put,
    put_or_write,
    write_text,
)
from gpucost.cli.output import FLAT, FormatOption, OutputOption, RowFormat, render_rows, write_rows
from gpucost.cli.whatif import decimal_number
from gpucost.errors import GpucostError
from gpucost.periods import iso
from gpucost.render.view import Column, Figures, Line, ReportView, Table
from gpucost.report.waste import BUCKETS, Waste, WasteRow, WorkloadWaste

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpucost.config.model import Config
    from gpucost.findings import Finding, Findings, Question
    from gpucost.periods import Period
    from gpucost.report.queue import Queue
    from gpucost.store.connection import Store
    from gpucost.whatif.answer import Answer
    from gpucost.whatif.fleet import Scenario

_WASTE = "gpucost.waste/1"


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
    advice = read_findings(settings, opened, period) if findings else None
    _write_waste(replace(view, title=_waste_title(view, named)), found, format, target, advice, findings)
    if target:
        note(f"{_waste_title(view, named)}: written to {target}", quiet=quiet)
    if format in FLAT:
        note_gaps(settings, opened, period, query.clusters, quiet=quiet)


def _write_waste(
    view: ReportView, found: Waste, format: RowFormat, target: Path | None, advice: Findings | None, count: int
) -> None:

    from gpucost.cli.report import ReportFormat, write_report

    if format is RowFormat.json:
        told = {"findings": findings_dict(advice, count)["findings"]} if advice else {}
        text = _waste_json(view, waste_dict(found) | told)
        put_or_write(text, target)
    elif format in FLAT:
        write_rows(*waste_rows(found), format, target)
    else:
        sections = (*waste_tables(found), *((findings_table(advice, count),) if advice else ()))
        write_report(replace(view, sections=sections), ReportFormat(format.value), target)


def _waste_title(view: ReportView, workloads: tuple[str, ...]) -> str:
    about = view.title.split(": ", 1)[1]
    return f"GPU waste: {', '.join((*workloads, about))}"


def _waste_json(view: ReportView, found: dict[str, object]) -> str:
    import json

    from gpucost.periods import iso
    from gpucost.render.data import coverage_dict, number

    head = {"schema": _WASTE, "from": iso(view.period.start), "to": iso(view.period.end), "currency": view.currency}
    whole = head | found | {"coverage": coverage_dict(view.coverage)}
    return json.dumps(whole, indent=2, ensure_ascii=False, default=number) + "\n"


_BUCKETS = {bucket.name: bucket for bucket in BUCKETS}
_BLANK = ""


def with_waste(view: ReportView, waste: Waste) -> ReportView:
    """The report with the anatomy of waste after its own sections, and for programs beside its rows."""
    sections: tuple[Table | Figures, ...] = (*view.sections, *waste_tables(waste)) if view.sections else ()
    return replace(view, sections=sections, waste=waste_dict(waste))


def waste_tables(waste: Waste) -> tuple[Table, ...]:
    """Where GPU time went, the same by the dimensions asked for, and the workloads that waste most."""
    by_rows = (_by_rows(waste),) if waste.by else ()
    workloads = (_workloads(waste.workloads),) if waste.workloads else ()
    return (_anatomy(waste), *by_rows, *workloads)


def waste_dict(waste: Waste) -> dict[str, Any]:
    """What programs read, money still Decimal; ratios 0-1, null for 0/0."""
    return {
        "by": list(waste.by),
        "buckets": [
            {
                "bucket": row.bucket,
                "of": _BUCKETS[row.bucket].whose,
                "is_waste": _BUCKETS[row.bucket].is_waste,
                "gpu_hours": row.gpu_hours,
                "cost": row.cost,
            }
            for row in waste.buckets
        ],
        "rows": [_waste_row(row) for row in waste.rows],
        "totals": {
            "gpu_hours": waste.gpu_hours,
            "cost": waste.cost,
            "wasted_gpu_hours": waste.wasted_gpu_hours,
            "wasted_cost": waste.wasted_cost,
            "waste_ratio": _part(waste.wasted_cost, waste.cost),
        },
        "workloads": [asdict(workload) for workload in waste.workloads],
    }


def waste_rows(waste: Waste) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows for CSV: by the dimensions asked for, else one row per bucket."""
    columns = ["bucket", *waste.by, "gpu_hours", "cost"]
    return columns, [[_waste_row(row)[name] for name in columns] for row in (waste.rows if waste.by else waste.buckets)]


def _waste_row(row: WasteRow) -> dict[str, Any]:
    return {"bucket": row.bucket, **row.keys, "gpu_hours": row.gpu_hours, "cost": row.cost}


def _anatomy(waste: Waste) -> Table:
    lines = [
        Line((kind.title, kind.whose, kind.meaning, row.gpu_hours, row.cost, _part(row.cost, waste.cost)))
        for row in waste.buckets
        if (kind := _BUCKETS[row.bucket]) and (row.gpu_hours or row.cost)
    ]
    wasted = ("Wasted", _BLANK, _BLANK, waste.wasted_gpu_hours, waste.wasted_cost, _part(waste.wasted_cost, waste.cost))
    total = ("Total", _BLANK, _BLANK, waste.gpu_hours, waste.cost, _part(waste.cost, waste.cost))
    return Table(
        "Where GPU time went",
        (
            Column("Kind", "text"),
            Column("Of", "text", weight=1),
            Column("What it is", "text", weight=2),
            Column("GPU-hours", "hours"),
            Column("Cost", "money", 2),
            Column("Share", "ratio"),
        ),
        (*lines, Line(wasted, is_sum=True), Line(total, is_sum=True)),
        note="Every GPU-hour stands in one line.",
    )


def _by_rows(waste: Waste) -> Table:
    return Table(
        f"By {' and '.join(key.replace('_', ' ') for key in waste.by)}",
        (
            *(Column(key.replace("_", " ").capitalize(), "text") for key in waste.by),
            Column("Kind", "text"),
            Column("GPU-hours", "hours"),
            Column("Cost", "money", 2),
        ),
        tuple(Line((*row.keys.values(), _BUCKETS[row.bucket].title, row.gpu_hours, row.cost)) for row in waste.rows),
    )


def _workloads(workloads: tuple[WorkloadWaste, ...]) -> Table:
    many = len({work.cluster for work in workloads}) > 1
    lines = tuple(
        Line(
            (
                work.workload,
                *((work.cluster,) if many else ()),
                work.namespace,
                work.workload_type,
                work.cost,
                work.wasted_cost,
                _part(work.wasted_cost, work.cost),
                _BUCKETS[work.bucket].title if work.bucket else _BLANK,
                work.utilization_p50,
                work.utilization_p95,
                _never_used(work),
                _memory(work),
            )
        )
        for work in workloads
    )
    return Table(
        "Workloads that waste most",
        (
            Column("Workload", "text"),
            *((Column("Cluster", "text"),) if many else ()),
            Column("Namespace", "text"),
            Column("Type", "text", weight=1),
            Column("Cost", "money", 2, weight=1),
            Column("Wasted", "money", 2),
            Column("Share", "ratio", 0, weight=2),
            Column("Most of it", "text"),
            Column("Busy p50", "ratio", 0, weight=3),
            Column("Busy p95", "ratio", 0, weight=3),
            Column("GPUs never used", "text", weight=3),
            Column("Memory used", "text", weight=3),
        ),
        lines,
    )


def _never_used(work: WorkloadWaste) -> str | None:
    return f"{work.gpus_never_used} of {work.gpus_measured}" if work.gpus_never_used else None


def _memory(work: WorkloadWaste) -> str | None:
    """`31 of 80 GiB`."""
    if work.memory_mib_p95 is None:
        return None
    whole = f" of {work.gpu_memory_mib / 1024:.0f}" if work.gpu_memory_mib else ""
    return f"{work.memory_mib_p95 / 1024:.0f}{whole} GiB"


def _part(part: Decimal, whole: Decimal) -> float | None:
    return round(float(part / whole), 6) if whole else None


_FINDINGS = "gpucost.findings/1"


@handle_errors
def findings(
    team: Annotated[list[str] | None, typer.Option("--team", metavar="NAME", help="Only this team's; repeatable.")] = None,
    namespace: Annotated[
        list[str] | None, typer.Option("--namespace", metavar="NAME", help="Only this namespace's; repeatable.")
    ] = None,
    month: MonthOption = None,
    start: FromOption = None,
    end: ToOption = None,
    last: LastOption = None,
    minimum: Annotated[
        Decimal | None,
        typer.Option(
            "--minimum",
            metavar="MONEY",
            parser=decimal_number(),
            help="Leave out what saves less a month. Default: [findings] minimum_per_month.",
            show_default=False,
        ),
    ] = None,
    top: Annotated[int | None, typer.Option("--top", min=1, help="Only the dearest; without it all.", show_default=False)] = None,
    format: FormatOption = RowFormat.table,
    output: OutputOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Say what to do about waste, the dearest first: what, who, evidence, saving, and the command that shows it.

    Each finding's saving is what its `gpucost whatif` command answers on the same store. No GPU-hour's waste is in two findings.
    docs/findings.md tells the kinds, and the order in which they lay claim to GPU-hours.

    Without a period: the current month so far, or the newest month with data.

    \b
    Examples:
      gpucost findings
      gpucost findings --month 2026-10 --top 5
      gpucost findings --team research --minimum 500
      gpucost findings --last 30d --format json
    """
    from datetime import UTC, datetime

    target = output_file(output)
    settings, opened = load(config, store)
    if minimum is not None:
        settings = settings.model_copy(update={"findings": settings.findings.model_copy(update={"minimum_per_month": minimum})})
    now = datetime.now(UTC)
    period, name, _ = chosen_period(opened, settings.tz, now, month=month, start=start, end=end, last=last)
    found = narrowed(read_findings(settings, opened, period), team or (), namespace or ())
    note_gaps(settings, opened, period, quiet=quiet)
    title = f"Findings: {', '.join((*(team or ()), *(namespace or ()), name))}"
    if format in FLAT:
        write_rows(finding_columns(), finding_rows(found, top), format, target)
        return
    if format is RowFormat.json:
        written = _findings_json(found, period, settings.currency, top)
    else:
        write = findings_markdown if format is RowFormat.markdown else findings_text
        written = write(found, title, settings.currency, top)
    put_or_write(written, target)


def _findings_json(found: Findings, period: Period, currency: str, top: int | None) -> str:
    import json

    from gpucost.periods import iso
    from gpucost.render.data import number

    head = {"schema": _FINDINGS, "from": iso(period.start), "to": iso(period.end), "currency": currency}
    return json.dumps(head | findings_dict(found, top), indent=2, ensure_ascii=False, default=number) + "\n"


TITLE = "What to do about it"
_WIDTH = 100
_LABELS = {"begins": "from", "ends": "to"}


def read_findings(config: Config, store: Store, period: Period) -> Findings:
    """The findings of a period, commitments asked of list prices, too."""
    from gpucost import savings

    return savings.findings(config, store, period, lambda question: _commit(config, period, question))


def narrowed(found: Findings, teams: Sequence[str], namespaces: Sequence[str], clusters: Sequence[str] = ()) -> Findings:
    """Those of some teams, namespaces or clusters (none: of all), with the ranks that they have among all."""
    kept = tuple(
        one
        for one in found.findings
        if (not teams or set((one.team or "").split(", ")) & set(teams))
        and (not namespaces or one.namespace in namespaces)
        and (not clusters or one.cluster in clusters)
    )
    return replace(found, findings=kept, passed_over=0 if teams or namespaces or clusters else found.passed_over)


def findings_dict(findings: Findings, top: int | None = None) -> dict[str, Any]:
    """What programs read, money still Decimal; `saving` is of the period."""
    return {
        "minimum_per_month": findings.minimum_per_month,
        "saving_per_month": findings.saving_per_month,
        "passed_over": findings.passed_over,
        "findings": [dict(zip(finding_columns(), values, strict=True)) for values in finding_rows(findings, top)],
    }


def finding_columns() -> list[str]:
    """The figures of a finding, by name."""
    from gpucost.findings import Finding

    return [_LABELS.get(field.name, field.name) for field in fields(Finding)]


def finding_rows(findings: Findings, top: int | None = None) -> list[list[Any]]:
    """One row per finding, as columns() names them."""
    return [[_plain(getattr(one, field.name)) for field in fields(one)] for one in findings.findings[:top]]


def findings_text(findings: Findings, title: str, currency: str, top: int | None = None) -> str:
    """A ranked list: what, who, money a month, evidence, what to do, and the command that shows the saving."""
    parts = [title, headline(findings, currency)]
    for one in findings.findings[:top]:
        head = f"{one.rank:>3}  {_amount(one, currency):>14}  {one.title}: {who(one)}"
        body = [
            *textwrap.wrap(f"{one.evidence}.", _WIDTH - 5),
            *textwrap.wrap(f"{one.advice[:1].upper()}{one.advice[1:]}.", _WIDTH - 5),
        ]
        # a command is never broken: it is there to be copied
        body += [one.command] if one.command else []
        parts += ["", *textwrap.wrap(head, _WIDTH, subsequent_indent=" " * 21), *(f"     {line}" for line in body)]
    return "\n".join(parts) + "\n"


def findings_markdown(findings: Findings, title: str, currency: str, top: int | None = None) -> str:
    """The same as a table."""
    lines = [
        (
            one.rank,
            _amount(one, currency),
            one.title,
            who(one),
            f"{one.evidence}. {one.advice[:1].upper()}{one.advice[1:]}.",
            f"`{one.command}`" if one.command else "",
        )
        for one in findings.findings[:top]
    ]
    table = render_rows(("#", "A month", "What", "Who", "Evidence", "Command"), lines, RowFormat.markdown)
    return f"# {title}\n\n{headline(findings, currency)}\n\n{table}"


def findings_table(findings: Findings, top: int) -> Table:
    """The dearest findings as a table of a report."""
    from gpucost.render.view import Column, Line, Table

    lines = tuple(
        Line((f"{one.rank}", one.title, who(one), "at most" if one.is_bound else "", one.saving_per_month))
        for one in findings.findings[:top]
    )
    return Table(
        TITLE,
        (
            Column("#", "text"),
            Column("Finding", "text"),
            Column("Whose", "text", weight=1),
            Column("", "text"),
            Column("A month", "money", 2),
        ),
        lines,
        note="gpucost findings gives the evidence, and the command that shows each saving.",
    )


def headline(findings: Findings, currency: str) -> str:
    """How many there are, and what their commands show together."""
    if not findings.findings:
        least = _money(findings.minimum_per_month, currency)
        return f"Nothing would save {least} a month or more ([findings] minimum_per_month)."
    count = len(findings.findings)
    less = f"; {findings.passed_over} more under {_money(findings.minimum_per_month, currency)}" if findings.passed_over else ""
    return (
        f"{count} finding{'s' if count > 1 else ''}{less}. Their commands show {_money(findings.saving_per_month, currency)} "
        "a month; amounts after ≤ are what the waste cost, so that no more can be saved."
    )


def who(one: Finding) -> str:
    """What a finding is about, and whose that is."""
    owner = ", ".join(part for part in (one.namespace, f"team {one.team}" if one.team else "") if part)
    return f"{one.subject} ({owner})" if owner else one.subject


def _amount(one: Finding, currency: str) -> str:
    return f"{'≤ ' if one.is_bound else ''}{_money(one.saving_per_month, currency)}"


def _money(amount: Decimal, currency: str) -> str:
    from gpucost.render.formatting import figure_text

    return figure_text(amount, "money", currency, 2)


def _plain(value: Any) -> Any:
    from datetime import datetime

    return iso(value) if isinstance(value, datetime) else value


def _commit(config: Config, period: Period, question: Question) -> Scenario[Answer]:
    """`whatif reserve` about the question's workloads."""
    from gpucost.cli.whatif import Run, StoreOptions
    from gpucost.cli.whatif_commitments import stored_families
    from gpucost.whatif.fleet import PricePer
    from gpucost.whatif.reserve import answer

    asked = StoreOptions(
        namespace=[question.namespace] if question.namespace else None,
        workload=list(question.workloads),
        cluster=[question.cluster] if question.cluster else None,
        start=iso(period.start),
        end=iso(period.end),
    )
    run = Run(lambda: config, asked, quiet=True)
    families, existing, name, assumptions = stored_families(run, (), (), {}, {}, PricePer.node)
    return (yield from answer(families, existing, currency=config.currency, period=name, assumptions=assumptions))


_QUEUE = "gpucost.queue/1"


@handle_errors
def queue(
    name: Annotated[list[str] | None, typer.Option("--queue", metavar="NAME", help="Only this ClusterQueue; repeatable.")] = None,
    cluster: Annotated[list[str] | None, typer.Option("--cluster", metavar="NAME", help="Only this cluster; repeatable.")] = None,
    month: MonthOption = None,
    start: FromOption = None,
    end: ToOption = None,
    last: LastOption = None,
    format: FormatOption = RowFormat.table,
    output: OutputOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show what Kueue's ClusterQueues may use and do use, what they borrow, and how long workloads wait.

    Fair share is told over the last 7 days of the period: a queue's share of its cohort's quota against its share of the use,
    what was used 2 days ago counting half. docs/kueue.md has the formulas.

    Without a period: the current month so far, or the newest month with data.

    \b
    Examples:
      gpucost queue
      gpucost queue --last 7d
      gpucost queue --month 2026-10 --queue research --format json
    """
    from datetime import UTC, datetime

    from gpucost.report.queue import queues

    target = output_file(output)
    settings, opened = load(config, store)
    now = datetime.now(UTC)
    period, period_name, _ = chosen_period(opened, settings.tz, now, month=month, start=start, end=end, last=last)
    with opened.read() as con:
        found = queues(con, period, cluster or (), name or ())
    if not found:
        raise GpucostError(
            f"Kueue told of no such ClusterQueue in {period_name}"
            if name or cluster
            else f"Kueue told of nothing in {period_name}",
            "have Prometheus scrape Kueue's manager, and run gpucost collect prometheus; docs/kueue.md says which metrics",
        )
    if format in FLAT:
        rows = [_queue_row(one) for one in found]
        write_rows(list(rows[0]), [list(row.values()) for row in rows], format, target)
        return
    written = _queue_json(found, period) if format is RowFormat.json else _queue_rows(found, format)
    if target is None:
        if format is RowFormat.table:
            note(f"ClusterQueues, {period_name}; recent: the last 7 days, half-life 2 days", quiet=quiet)
        put(written, nl=False)
    else:
        write_text(written, target)


def _queue_rows(found: list[Queue], format: RowFormat) -> str:
    many = len({one.cluster for one in found}) > 1
    columns = [
        *(["cluster"] if many else []), "queue", "cohort", "resource", "quota", "limit", "used", "p95", "max", "borrowed",
        "pending", "admitted", "wait", "wait p50", "wait p95", "of quota", "of use",
    ]  # fmt: skip
    lines = [
        [
            *([one.cluster] if many else []),
            one.cluster_queue,
            one.cohort or "-",
            one.resource or "-",
            _number(one.quota),
            "none" if one.is_borrowing_unlimited else _number(one.borrowing_limit),
            _number(one.used_average),
            _number(one.used_p95),
            _number(one.used_max),
            _number(one.borrowed_average),
            _number(one.pending_average),
            f"{one.waits.admitted:.0f}",
            _time(one.waits.mean_seconds),
            _time(one.waits.p50_seconds),
            _time(one.waits.p95_seconds),
            _percent(one.share_of_quota),
            _percent(one.share_of_use),
        ]
        for one in found
    ]
    return render_rows(columns, lines, format)


def _queue_row(one: Queue) -> dict[str, Any]:
    """A queue as programs read it: the waits beside the rest."""
    row = asdict(one)
    waits = row.pop("waits")
    return row | {"admitted": waits.pop("admitted")} | {f"wait_{name}": value for name, value in waits.items()}


def _queue_json(found: list[Queue], period: Period) -> str:
    import json

    from gpucost.periods import iso

    whole = {"schema": _QUEUE, "from": iso(period.start), "to": iso(period.end), "queues": [_queue_row(one) for one in found]}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}".removesuffix(".0")


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.0f} %"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
