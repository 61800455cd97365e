"""Findings: advice about waste, the largest saving first, each with the command that shows its saving."""

from __future__ import annotations

import logging
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

from gpucost.errors import UsageError
from gpucost.options import WHOSE, Names, Option
from gpucost.periods import Period
from gpucost.questions.report.reading import report
from gpucost.questions.request import LabeledFleetRequest
from gpucost.render.formatting import figure_text
from gpucost.render.schema import columns_of, table
from gpucost.render.view import Document, Item, Items

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpucost.config.model import Config
    from gpucost.questions.findings.kinds import Finding, Findings
    from gpucost.questions.report.query import Query
    from gpucost.store.connection import Store


def findings(
    request: LabeledFleetRequest,
    workload: Annotated[
        Names, Option("Only findings about this workload; repeatable.", "KIND/NAME", panel=WHOSE)
    ] = (),
    minimum: Annotated[
        Decimal | None,
        Option(
            "Leave out savings under this amount a month (default: [findings] minimum_per_month).",
            "MONEY",
            flag="--min-cost",
        ),
    ] = None,
    top: Annotated[
        int | None,
        Option("Number of findings to list, the largest saving first (default: all).", "COUNT", least=1),
    ] = None,
) -> Document:
    """List advice about waste, the largest saving first, each with the command that shows the saving.

    Savings come first. Upper bounds follow: the cost of waste, or savings that need preparation. Each saving is the result of
    its `gpucost whatif` command on the same store. No GPU-hour is in two findings. Markdown, HTML and JSON contain patches to
    apply. docs/findings.md lists the kinds.

    Without a period: the current month so far, or the newest month with data.

    \b
    Examples:
      gpucost findings
      gpucost findings --month 2026-10 --top 5
      gpucost findings --team research --min-cost 500
      gpucost findings --last 30d --format json
    """
    from gpucost.questions.findings.kinds import Finding

    settings, query = request.settings, request.query(workloads=workload)
    if minimum is not None:
        limits = settings.findings.model_copy(update={"minimum_per_month": minimum})
        settings = settings.model_copy(update={"findings": limits})
    request.check_names(query)
    with request.status() as show_progress:
        found = findings_of(settings, request.store, query, show_progress)
    request.note_gaps(request.clusters)
    displayed = found.findings[:top]
    savings = tuple(finding for finding in displayed if not finding.is_bound)
    answer = replace(found, savings=savings, upper_bounds=displayed[len(savings) :])
    parts = ("Savings", answer.savings), ("Upper bounds", answer.upper_bounds)
    return Document(
        title=f"Findings: {', '.join(filter(None, (request.scope_name, request.period_name)))}",
        subtitle=headline(found, settings.currency),
        currency=settings.currency,
        sections=tuple(
            finding_items(several, settings.currency, title) for title, several in parts if several
        ),
        name="findings",
        data=answer,
        flat=table(displayed, columns_of(Finding)),
    )


_log = logging.getLogger(__name__)
_OWNER = ("cluster", "namespace", "workload")
TITLE = "What to do about it"


def read_findings(
    config: Config, store: Store, period: Period, show_progress: Callable[[str], None] = lambda _: None
) -> Findings:
    """The findings of a period; `show_progress` gets the current step."""
    from gpucost.questions.findings import savings

    return savings.findings(config, store, period, show_progress)


def findings_of(
    config: Config, store: Store, query: Query, show_progress: Callable[[str], None] = lambda _: None
) -> Findings:
    """The findings about the query's part of the fleet. Raises UsageError for users: findings name none."""
    if query.users:
        raise UsageError("--findings cannot be narrowed to users", "leave out --findings or --user")
    found = read_findings(config, store, query.period, show_progress).narrowed(query)
    if not query.labels:
        return found
    by_owner = replace(query, by=_OWNER, with_sections=False, with_series=False)
    held = report(config, store, by_owner)
    for notice in held.coverage.warnings:
        if notice.code.startswith("label_"):
            _log.warning("%s", notice.message)
    return found.about({tuple(row.keys.values()) for row in held.rows})


def finding_items(findings: Sequence[Finding], currency: str, title: str = "") -> Items:
    """The saving a month of each, its owner, evidence, advice, and the command that shows the saving."""

    def item(finding: Finding) -> Item:
        owner = ", ".join(filter(None, (finding.namespace, finding.team and f"team {finding.team}")))
        freed = ""
        if finding.freed_capacity_per_month:
            amount = figure_text(finding.freed_capacity_per_month, "money", currency, 2)
            freed = f"GPUs worth {amount} a month would be free on nodes that stay. "
        advice = finding.advice[0].upper() + finding.advice[1:]
        return Item(
            f"{finding.title}: {finding.subject}{f' ({owner})' if owner else ''}",
            finding.saving_per_month,
            "money",
            "a month",
            f"{finding.evidence}. {freed}{advice}. Measured by {finding.measured}.",
            finding.command,
            finding.is_bound,
            finding.rank,
            finding.patch,
        )

    return Items(tuple(map(item, findings)), title)


def headline(found: Findings, currency: str) -> str:
    """The number of findings and the sums of their savings."""
    amounts = (
        found.minimum_per_month,
        found.saving_per_month,
        found.freed_capacity_per_month,
        found.at_most_per_month,
    )
    least, saving, freed, most = (figure_text(amount, "money", currency, 2) for amount in amounts)
    count = len(found.findings)
    if not count:
        return f"No finding saves {least} a month or more ([findings] minimum_per_month)."
    less = f"; {found.passed_over} more under {least}" if found.passed_over else ""
    return (
        f"{count} finding{'s' if count > 1 else ''}{less}. Savings: {saving} a month in cash, and GPUs worth {freed} freed on "
        f"nodes that stay. Upper bounds: {most}, for waste without a calculation and savings that need preparation."
    )
