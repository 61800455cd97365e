"""`gpucost waste`: where GPU time was wasted, by whom, and on what."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any

from gpucost.cli.command import Call, Comparison, command, count_option, names_in, note_gaps, option, switch
from gpucost.cli.completion import dimensions
from gpucost.cli.whatif import number_parser
from gpucost.errors import GpucostError, StoreError, UsageError
from gpucost.periods import MS_PER_HOUR
from gpucost.render.formatting import figure_text
from gpucost.render.rows import FLAT, RowFormat
from gpucost.render.schema import columns_of, table, to_dict
from gpucost.render.view import (
    Document,
    Item,
    Items,
    Line,
    ReportView,
    Section,
    Shown,
    Table,
    count,
    dimension,
    figure,
    money,
    number,
    ratio,
    share,
    text,
)
from gpucost.report.waste import BUCKETS, Waste, WorkloadWaste
from gpucost.whatif.flags import Option

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpucost.cli.whatif_commitments import StoredCommitments
    from gpucost.config.model import Config
    from gpucost.findings import Finding, FindingChanges, Findings
    from gpucost.periods import Period
    from gpucost.report.queue import SlurmShare, SlurmWait
    from gpucost.store.connection import Store
    from gpucost.whatif.answer import Answer
    from gpucost.whatif.fleet import Scenario, Usage

_WITHOUT_USERS = (
    "SELECT message FROM warnings WHERE code = 'host_without_users' AND to_ms > $1 AND from_ms < $2"
)


@command("team namespace cluster workload period by written * lake")
def waste(
    call: Call,
    by: Annotated[
        list[str] | None,
        option(
            "--by",
            "A,B",
            "Also by any of cluster, namespace, team, workload, workload_type, pod, uid, node, gpu_model, capacity_type, "
            "region, zone, month, day, hour, and of Slurm account, user, partition, qos, reservation.",
            autocompletion=dimensions,
        ),
    ] = None,
    top: Annotated[int, count_option("--top", "How many of the workloads that waste most to list.")] = 10,
    findings: Annotated[
        int, count_option("--findings", "Also list so many of the whole fleet's dearest findings.")
    ] = 0,
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
      gpucost waste --workload Deployment/chat-api --format json
      gpucost waste --month 2026-10 --findings 5
    """
    from gpucost import pipeline
    from gpucost.findings import WasteAnswer

    is_flat = call.format in FLAT
    if findings and is_flat:
        raise UsageError(
            f"--findings has no place in the columns of {call.format}",
            f"gpucost findings --format {call.format}",
        )
    query = call.query(by=tuple(dict.fromkeys(names_in(by))), top=0, with_sections=False)
    view, found = pipeline.waste_report(call.settings, call.store, query, call.workloads, top)
    advice = None
    if findings:
        with call.status() as tell:
            advice = read_findings(call.settings, call.store, call.period, tell)
    shown = advice.findings[:findings] if advice else None
    call.answer(
        Document(
            title=f"GPU waste: {', '.join((*call.workloads, view.title.split(': ', 1)[1]))}",
            subtitle=view.subtitle,
            currency=view.currency,
            sections=(*waste_tables(found), *([finding_items(shown, TITLE)] if shown else [])),
            coverage=view.coverage,
            name="waste",
            answer=WasteAnswer(
                period=view.period,
                currency=view.currency,
                waste=found,
                findings=shown,
                coverage=view.coverage,
            ),
            flat=table(found.rows if found.by else found.buckets, ("bucket", *found.by, "gpu_hours", "cost")),
        )
    )
    if is_flat:
        note_gaps(call.settings, call.store, call.period, call.clusters, quiet=call.quiet)


_BUCKETS = {bucket.name: bucket for bucket in BUCKETS}


def with_waste(view: ReportView, waste: Waste) -> ReportView:
    """The report with the anatomy of waste after its own sections, and for programs beside its rows."""
    sections = (*view.sections, *waste_tables(waste)) if view.sections else ()
    return replace(view, sections=sections, waste=to_dict(waste))


def waste_tables(waste: Waste) -> tuple[Table, ...]:
    """Where GPU time went, the same by the dimensions asked for, and the workloads that waste most."""
    sums = waste.totals
    anatomy = Table.of(
        "Where GPU time went",
        [row for row in waste.buckets if row.gpu_hours or row.cost],
        (
            text(lambda row: _BUCKETS[row.bucket].title, "Kind"),
            text(lambda row: _BUCKETS[row.bucket].whose, "Of", weight=1),
            text(lambda row: _BUCKETS[row.bucket].meaning, "What it is", weight=2),
            number("gpu_hours", "GPU-hours"),
            money("cost"),
            share(lambda row: ratio(row.cost, sums.cost), "Share"),
        ),
        (
            Line(("Wasted", "", "", sums.wasted_gpu_hours, sums.wasted_cost, sums.waste_ratio), is_sum=True),
            Line(("Total", "", "", sums.gpu_hours, sums.cost, ratio(sums.cost, sums.cost)), is_sum=True),
        ),
        "Every GPU-hour stands in one line.",
    )
    found = [anatomy]
    if waste.by:
        kind = text(lambda row: _BUCKETS[row.bucket].title, "Kind")
        title = f"By {' and '.join(key.replace('_', ' ') for key in waste.by)}"
        found.append(
            Table.of(
                title,
                waste.rows,
                (*map(dimension, waste.by), kind, number("gpu_hours", "GPU-hours"), money("cost")),
            )
        )
    if waste.workloads:
        columns = [
            text("workload"),
            *([text("cluster")] if len({work.cluster for work in waste.workloads}) > 1 else []),
            text("namespace"),
            text("workload_type", "Type", weight=2),
            money("cost", weight=1),
            money("wasted_cost", "Wasted"),
            share(lambda work: ratio(work.wasted_cost, work.cost), "Share", decimals=0, weight=2),
            text(lambda work: _BUCKETS[work.bucket].title if work.bucket else "", "Most of it"),
            share("utilization_p50", "Busy p50", decimals=0, weight=3),
            share("utilization_p95", "Busy p95", decimals=0, weight=3),
            text(
                lambda work: (
                    f"{work.gpus_never_used} of {work.gpus_measured}" if work.gpus_never_used else None
                ),
                "GPUs never used",
                weight=3,
            ),
            text(_memory, "Memory used", weight=3),
        ]
        found.append(Table.of("Workloads that waste most", waste.workloads, columns))
    return tuple(found)


def _memory(work: WorkloadWaste) -> str | None:
    """`31 of 80 GiB`."""
    if work.memory_mib_p95 is None:
        return None
    whole = f" of {work.gpu_memory_mib / 1024:.0f}" if work.gpu_memory_mib else ""
    return f"{work.memory_mib_p95 / 1024:.0f}{whole} GiB"


@command("team namespace period * written lake")
def findings(
    call: Call,
    minimum: Annotated[
        Decimal | None,
        option(
            "--minimum",
            "MONEY",
            "Leave out what saves less a month. Default: [findings] minimum_per_month.",
            parser=number_parser(Decimal, Option("")),
        ),
    ] = None,
    top: Annotated[int | None, option("--top", "COUNT", "Only the dearest; without it all.", min=1)] = None,
    show_patches: Annotated[
        bool, switch("--patches", "Also what to apply: Kubernetes YAML, where it is known.")
    ] = False,
    compare: Annotated[
        Comparison | None,
        option("--compare", None, "Also what became of the findings of the period before, as long."),
    ] = None,
) -> None:
    """Say what to do about waste, the dearest first: what, who, evidence, saving, and the command that shows it.

    Savings come first, then upper bounds: what waste cost, or what could be saved once something else is done.
    Each finding's saving is what its `gpucost whatif` command answers on the same store. No GPU-hour's waste is in two findings.
    docs/findings.md tells the kinds, and the order in which they lay claim to GPU-hours.

    Without a period: the current month so far, or the newest month with data.

    \b
    Examples:
      gpucost findings
      gpucost findings --month 2026-10 --top 5
      gpucost findings --team research --minimum 500
      gpucost findings --month 2026-10 --compare previous --patches
      gpucost findings --last 30d --format json
    """
    from gpucost.findings import Finding, FindingsAnswer, changes
    from gpucost.periods import name_of
    from gpucost.report.changes import previous_period
    from gpucost.report.query import newest_data
    from gpucost.store.sqlfiles import column

    settings = call.settings
    if minimum is not None:
        settings = settings.model_copy(
            update={"findings": settings.findings.model_copy(update={"minimum_per_month": minimum})}
        )
    with call.status() as tell:
        found = narrowed(read_findings(settings, call.store, call.period, tell), call.teams, call.namespaces)
        changed = None
        if compare:
            with call.store.read() as con:
                period = previous_period(call.period, newest_data(con) or call.period.end_ms, call.tz)
            try:
                before = narrowed(
                    read_findings(settings, call.store, period, tell), call.teams, call.namespaces
                )
            except StoreError:
                raise
            except GpucostError as error:
                raise GpucostError(
                    f"there is nothing to compare with: {error.message}", "leave out --compare"
                ) from None
            changed = changes(before.findings, found.findings, period)
    note_gaps(settings, call.store, call.period, quiet=call.quiet)
    with call.store.read() as con:
        for message in column(con, _WITHOUT_USERS, [call.period.start_ms, call.period.end_ms]):
            call.note(f"note: {message}")
    shown, columns = found.findings[:top], columns_of(Finding)
    lists = [tuple(one for one in shown if one.is_bound is is_bound) for is_bound in (False, True)]
    sums = found.minimum_per_month, found.saving_per_month, found.at_most_per_month, found.passed_over
    with_patches = show_patches or call.format is RowFormat.markdown
    sections: list[Section] = [
        finding_items(several, title, with_patches=with_patches)
        for several, title in zip(lists, ("Savings", "Upper bounds"), strict=True)
        if several
    ]
    if changed:
        sections.append(_changes_table(changed, name_of(changed.period, call.tz)))
    call.answer(
        Document(
            title=f"Findings: {', '.join((*call.teams, *call.namespaces, call.period_name))}",
            subtitle=headline(found, settings.currency),
            currency=settings.currency,
            sections=tuple(sections),
            name="findings",
            answer=FindingsAnswer(call.period, settings.currency, *sums, lists[0], lists[1], changed),
            flat=(columns, table(shown, columns)[1]),
        )
    )


TITLE = "What to do about it"


def read_findings(
    config: Config, store: Store, period: Period, tell: Callable[[str], None] = lambda _: None
) -> Findings:
    """The findings of a period, commitments asked of list prices, too; `tell` is called with what is being done."""
    from gpucost import savings
    from gpucost.cli.whatif_commitments import StoredCommitments

    return savings.findings(
        config, store, period, partial(_commit, StoredCommitments(config, store, period)), tell
    )


def narrowed(
    found: Findings, teams: Sequence[str], namespaces: Sequence[str], clusters: Sequence[str] = ()
) -> Findings:
    """Those of some teams, namespaces or clusters (none: of all), with the ranks that they have among all."""
    kept = tuple(
        one
        for one in found.findings
        if (not teams or set((one.team or "").split(", ")) & set(teams))
        and (not namespaces or one.namespace in namespaces)
        and (not clusters or one.cluster in clusters)
    )
    return replace(
        found, findings=kept, passed_over=0 if teams or namespaces or clusters else found.passed_over
    )


def _changes_table(changed: FindingChanges, name: str) -> Table:
    """What is gone, new and still there since the period before."""
    return Table.of(
        f"Since {name}",
        changed.findings,
        (
            text("status"),
            text("title", "What"),
            text("subject", "Who"),
            text("namespace", weight=2),
            money("before_per_month", "A month then"),
            money("after_per_month", "Now"),
        ),
        note="Gone: done, or passed by itself.",
    )


def finding_items(findings: Sequence[Finding], title: str = "", *, with_patches: bool = False) -> Items:
    """What each is worth a month, whose it is, its evidence, what to do, and the command that shows the saving."""

    def whose(one: Finding) -> str:
        owner = ", ".join(part for part in (one.namespace, f"team {one.team}" if one.team else "") if part)
        return f" ({owner})" if owner else ""

    return Items(
        tuple(
            Item(
                f"{one.title}: {one.subject}{whose(one)}",
                one.saving_per_month,
                "money",
                "a month",
                f"{one.evidence}. {one.advice[:1].upper()}{one.advice[1:]}. Measured by {one.measured}.",
                one.command,
                one.is_bound,
                one.rank,
                one.patch if with_patches else None,
            )
            for one in findings
        ),
        title,
    )


def headline(findings: Findings, currency: str) -> str:
    """How many there are, and what their commands show together."""
    least, saving = (
        figure_text(one, "money", currency, 2)
        for one in (findings.minimum_per_month, findings.saving_per_month)
    )
    if not findings.findings:
        return f"Nothing would save {least} a month or more ([findings] minimum_per_month)."
    count, most = len(findings.findings), figure_text(findings.at_most_per_month, "money", currency, 2)
    less = f"; {findings.passed_over} more under {least}" if findings.passed_over else ""
    return (
        f"{count} finding{'s' if count > 1 else ''}{less}. Their commands show {saving} "
        f"a month; the upper bounds come to {most}: what waste cost, or what takes work first."
    )


def _commit(known: StoredCommitments, usage: Usage) -> Scenario[Answer]:
    """`whatif reserve` about the usage."""
    from gpucost.cli.whatif_commitments import stored_families
    from gpucost.whatif.reserve import answer

    families, existing, assumptions = stored_families(known, usage)
    currency, period = known.settings.currency, usage.period_name
    return (yield from answer(families, existing, currency=currency, period=period, assumptions=assumptions))


@command("* cluster period written")
def queue(
    call: Call,
    name: Annotated[
        list[str] | None, option("--queue", "NAME", "Only this ClusterQueue; repeatable.")
    ] = None,
    half_life: Annotated[
        str,
        option(
            "--half-life",
            "SPAN",
            "How fast old dollars lose weight beside Slurm's fair share: 7d, 12h. Default: 7d, as Slurm's own.",
        ),
    ] = "7d",
) -> None:
    """Show who waits for GPUs, and whose share of them is fair: Kueue's ClusterQueues, and Slurm's partitions and accounts.

    Of Kueue: what ClusterQueues may use and do use, what they borrow, and how long workloads wait. Fair share is told over the
    last 7 days of the period: a queue's share of its cohort's quota against its share of the use, what was used 2 days ago
    counting half. docs/kueue.md has the formulas.

    Of Slurm: how long jobs waited by partition, QOS and account, what they cost, what preemption threw away, and fair share as
    sshare says it beside the dollars. docs/slurm.md says more.

    Without a period: the current month so far, or the newest month with data.

    \b
    Examples:
      gpucost queue
      gpucost queue --last 7d
      gpucost queue --month 2026-10 --queue research --format json
    """
    from gpucost import pipeline
    from gpucost.report.queue import Queues, queues, slurm

    period = call.period
    with call.store.read() as con:
        found = queues(con, period, call.clusters, name or ())
    waits: list[SlurmWait] = []
    shares: list[SlurmShare] = []
    if not name:
        half_life_ms = _half_life_ms(half_life)
        waits, shares = pipeline.read_attributed(
            call.settings, call.store, lambda con: slurm(con, period, half_life_ms, call.clusters), period
        )
    if not found and not waits:
        what = "no such ClusterQueue" if name or call.clusters else "nothing"
        raise GpucostError(
            f"Kueue told of {what} in {call.period_name}",
            "have Prometheus scrape Kueue's manager, and run gpucost collect prometheus; docs/kueue.md says which metrics",
        )
    several = len({*(one.cluster for one in found), *(one.cluster for one in waits)}) > 1
    cluster = [text("cluster")] if several else []
    columns = (
        *cluster,
        text("cluster_queue", "Queue"),
        text("cohort", weight=2),
        text("resource", weight=1),
        number("quota"),
        number(
            lambda one: "none" if one.is_borrowing_unlimited else one.borrowing_limit,
            "Borrow limit",
            weight=2,
        ),
        number("used_average", "In use"),
        number("used_p95", "In use p95", weight=3),
        number("used_max", "In use max", weight=2),
        number("borrowed_average", "Borrowed"),
        number("pending_average", "Pending"),
        count("waits.admitted", "Admitted", weight=3),
        _time("waits.wait_mean_seconds", "Wait"),
        _time("waits.wait_p50_seconds", "Wait p50", weight=3),
        _time("waits.wait_p95_seconds", "Wait p95", weight=2),
        share("share_of_quota", "Share of quota", decimals=0),
        share("share_of_use", "Share of use", decimals=0),
    )
    of_jobs = (
        *cluster,
        text("name"),
        count("started"),
        _time("wait_p50_seconds", "Wait p50"),
        _time("wait_p95_seconds", "Wait p95"),
        _time("eligible_wait_p95_seconds", "Once eligible p95", weight=2),
        number("gpu_hours", "GPU-hours"),
        money("cost"),
        count("preempted", weight=2),
        money("preempted_cost", "Lost to preemption", weight=1),
    )
    of_shares = (
        *cluster,
        text("account"),
        text("user"),
        share("norm_shares", "Granted", decimals=1),
        share("effective_usage", "Used", decimals=1),
        figure(lambda one: None if one.fair_share is None else f"{one.fair_share:.3f}", "Factor"),
        money("cost"),
        share("cost_share", "Share of cost", decimals=1),
    )
    titles = {"partition": "Jobs by partition", "qos": "Jobs by QOS", "account": "Jobs by account"}
    last = next(reversed(titles))
    call.answer(
        Document(
            title=f"{'Queues' if waits else 'ClusterQueues'}: {call.period_name}",
            currency=call.settings.currency,
            sections=(
                *([Table.of("Quota, use and waits", found, columns, note=_OF_QUEUES)] if found else []),
                *(
                    Table.of(
                        title,
                        [one for one in waits if one.by == by],
                        of_jobs,
                        note=_OF_JOBS if by == last else None,
                    )
                    for by, title in titles.items()
                    if waits
                ),
                *(
                    [
                        Table.of(
                            "Fair share, from sshare", shares, of_shares, note=_OF_SHARES.format(half_life)
                        )
                    ]
                    if shares
                    else []
                ),
            ),
            name="queue",
            answer=Queues(period, found, waits or None, shares or None),
            flat=table(found or waits),
        )
    )


def _half_life_ms(span: str) -> int:
    match = re.fullmatch(r"([1-9]\d{0,3})([hdw])", span)
    if match is None:
        raise UsageError(f"--half-life {span!r} is no span of time", "7d, 12h or 2w")
    return int(match[1]) * {"h": 1, "d": 24, "w": 168}[match[2]] * MS_PER_HOUR


_OF_QUEUES = (
    "Averages over the period, in units of the resource. Wait: from creation to admission. The shares are of the cohort's quota "
    "and of its use in the last 7 days, use of 2 days ago counting half: a queue with more use than quota lives on what others "
    "lend."
)
_OF_JOBS = (
    "Wait: from submission to start. Once eligible: without the time that dependencies and limits held a job back. "
    "Lost to preemption: what runs cost that were preempted."
)
_OF_SHARES = (
    "Granted and used: of the siblings, as sshare gives them. The higher the factor, the sooner the next job starts. "
    "Share of cost: of the cluster's dollars, those of {} ago counting half."
)


def _time(name: str, title: str, weight: int = 0) -> Shown:
    """A column of the seconds that `name` has, in the unit that suits them."""
    read = attrgetter(name)

    def shown(row: Any) -> str | None:
        seconds: float | None = read(row)
        if seconds is None:
            return None
        if seconds < 120:
            return f"{seconds:.0f} s"
        return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"

    return figure(shown, title, weight=weight)
