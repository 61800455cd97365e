"""`gpucost waste`: where GPU time was wasted, by whom, and on what."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

from gpucost.cli.command import Call, command, count_option, names_in, note_gaps, option
from gpucost.cli.whatif import amount_option
from gpucost.errors import GpucostError, UsageError
from gpucost.periods import iso
from gpucost.render.rows import FLAT, RowFormat, render_rows
from gpucost.render.schema import columns_of, table, to_dict, to_json
from gpucost.render.view import Column, Figures, Line, ReportView, Table
from gpucost.report.waste import BUCKETS, Waste, WorkloadWaste

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpucost.config.model import Config
    from gpucost.findings import Finding, Findings, Question
    from gpucost.periods import Period
    from gpucost.report.queue import Queue
    from gpucost.store.connection import Store
    from gpucost.whatif.answer import Answer
    from gpucost.whatif.fleet import Scenario


@command("team namespace cluster workload period by written")
def waste(
    call: Call,
    by: Annotated[
        list[str] | None,
        option(
            "--by",
            "A,B",
            "Also by any of cluster, namespace, team, workload, workload_type, pod, uid, node, gpu_model, capacity_type, "
            "region, zone, month, day, hour.",
        ),
    ] = None,
    top: Annotated[int, count_option("--top", "How many of the workloads that waste most to list.")] = 10,
    findings: Annotated[int, count_option("--findings", "Also list so many of the whole fleet's dearest findings.")] = 0,
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
    from gpucost import pipeline
    from gpucost.cli.report import write_report
    from gpucost.findings import WasteAnswer

    how, is_flat = call.format, call.format in FLAT
    if findings and is_flat:
        raise UsageError(f"--findings has no place in the columns of {how}", f"gpucost findings --format {how}")
    query = call.query(by=tuple(dict.fromkeys(names_in(by))), top=0, with_sections=False)
    view, found = pipeline.waste_report(call.settings, call.store, query, call.workloads, top)
    title = f"GPU waste: {', '.join((*call.workloads, view.title.split(': ', 1)[1]))}"
    advice = read_findings(call.settings, call.store, call.period) if findings else None
    if how is RowFormat.json:
        shown = advice.findings[:findings] if advice else None
        whole = WasteAnswer(period=view.period, currency=view.currency, waste=found, findings=shown, coverage=view.coverage)
        call.write(to_json(whole, "waste"))
    elif is_flat:
        call.write_rows(*waste_rows(found))
    else:
        sections = (*waste_tables(found), *((findings_table(advice, findings),) if advice else ()))
        write_report(replace(view, title=title, sections=sections), how, call.target)
    call.note_written(title)
    if is_flat:
        note_gaps(call.settings, call.store, call.period, call.clusters, quiet=call.quiet)


_BUCKETS = {bucket.name: bucket for bucket in BUCKETS}
_BLANK = ""


def with_waste(view: ReportView, waste: Waste) -> ReportView:
    """The report with the anatomy of waste after its own sections, and for programs beside its rows."""
    sections: tuple[Table | Figures, ...] = (*view.sections, *waste_tables(waste)) if view.sections else ()
    return replace(view, sections=sections, waste=to_dict(waste))


def waste_tables(waste: Waste) -> tuple[Table, ...]:
    """Where GPU time went, the same by the dimensions asked for, and the workloads that waste most."""
    by_rows = (_by_rows(waste),) if waste.by else ()
    workloads = (_workloads(waste.workloads),) if waste.workloads else ()
    return (_anatomy(waste), *by_rows, *workloads)


def waste_rows(waste: Waste) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows for CSV: by the dimensions asked for, else one row per bucket."""
    return table(waste.rows if waste.by else waste.buckets, ("bucket", *waste.by, "gpu_hours", "cost"))


def _anatomy(waste: Waste) -> Table:
    lines = [
        Line((kind.title, kind.whose, kind.meaning, row.gpu_hours, row.cost, _part(row.cost, waste.totals.cost)))
        for row in waste.buckets
        if (kind := _BUCKETS[row.bucket]) and (row.gpu_hours or row.cost)
    ]
    sums = waste.totals
    wasted = ("Wasted", _BLANK, _BLANK, sums.wasted_gpu_hours, sums.wasted_cost, sums.waste_ratio)
    total = ("Total", _BLANK, _BLANK, sums.gpu_hours, sums.cost, _part(sums.cost, sums.cost))
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


@command("team namespace period * written")
def findings(
    call: Call,
    minimum: Annotated[
        Decimal | None,
        amount_option("--minimum", "Leave out what saves less a month. Default: [findings] minimum_per_month."),
    ] = None,
    top: Annotated[int | None, option("--top", "COUNT", "Only the dearest; without it all.", min=1)] = None,
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
    from gpucost.findings import Finding, FindingsAnswer

    settings = call.settings
    if minimum is not None:
        settings = settings.model_copy(update={"findings": settings.findings.model_copy(update={"minimum_per_month": minimum})})
    found = narrowed(read_findings(settings, call.store, call.period), call.teams, call.namespaces)
    note_gaps(settings, call.store, call.period, quiet=call.quiet)
    if call.format in FLAT:
        columns = columns_of(Finding)
        call.write_rows(columns, table(found.findings[:top], columns)[1])
    elif call.format is RowFormat.json:
        sums = found.minimum_per_month, found.saving_per_month, found.passed_over
        call.write(to_json(FindingsAnswer(call.period, settings.currency, *sums, found.findings[:top]), "findings"))
    else:
        write = findings_markdown if call.format is RowFormat.markdown else findings_text
        title = f"Findings: {', '.join((*call.teams, *call.namespaces, call.period_name))}"
        call.write(write(found, title, settings.currency, top))


TITLE = "What to do about it"
_WIDTH = 100


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


def _commit(config: Config, period: Period, question: Question) -> Scenario[Answer]:
    """`whatif reserve` about the question's workloads."""
    from gpucost.cli.whatif import Run, StoreOptions
    from gpucost.cli.whatif_commitments import stored_families
    from gpucost.whatif.reserve import answer

    asked = StoreOptions(
        namespace=[question.namespace] if question.namespace else None,
        workload=list(question.workloads),
        cluster=[question.cluster] if question.cluster else None,
        start=iso(period.start),
        end=iso(period.end),
    )
    run = Run(lambda: config, asked, quiet=True)
    families, existing, name, assumptions = stored_families(run)
    return (yield from answer(families, existing, currency=config.currency, period=name, assumptions=assumptions))


@command("* cluster period written")
def queue(
    call: Call,
    name: Annotated[list[str] | None, option("--queue", "NAME", "Only this ClusterQueue; repeatable.")] = None,
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
    from gpucost.report.queue import Queues, queues

    period = call.period
    with call.store.read() as con:
        found = queues(con, period, call.clusters, name or ())
    if not found:
        what = "no such ClusterQueue" if name or call.clusters else "nothing"
        raise GpucostError(
            f"Kueue told of {what} in {call.period_name}",
            "have Prometheus scrape Kueue's manager, and run gpucost collect prometheus; docs/kueue.md says which metrics",
        )
    if call.format in FLAT:
        call.write_rows(*table(found))
        return
    if call.target is None and call.format is RowFormat.table:
        call.note(f"ClusterQueues, {call.period_name}; recent: the last 7 days, half-life 2 days")
    call.write(to_json(Queues(period, found), "queue") if call.format is RowFormat.json else _queue_rows(found, call.format))


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
            _time(one.waits.wait_mean_seconds),
            _time(one.waits.wait_p50_seconds),
            _time(one.waits.wait_p95_seconds),
            _percent(one.share_of_quota),
            _percent(one.share_of_use),
        ]
        for one in found
    ]
    return render_rows(columns, lines, format)


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
