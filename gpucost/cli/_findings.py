"""Findings for people, as text, Markdown and a table of reports, and for programs."""

from __future__ import annotations

import textwrap
from dataclasses import fields, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpucost.cli._rows import RowFormat, render_rows
from gpucost.model import iso

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpucost.config import Config
    from gpucost.findings import Finding, Findings, Question
    from gpucost.model import Period
    from gpucost.report.view import Table
    from gpucost.savings import Ask
    from gpucost.store import Store

TITLE = "What to do about it"
_WIDTH = 100
_LABELS = {"begins": "from", "ends": "to"}


def found(config: Config, store: Store, period: Period) -> Findings:
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


def as_dict(findings: Findings, top: int | None = None) -> dict[str, Any]:
    """What programs read, money still Decimal; `saving` is of the period."""
    return {
        "minimum_per_month": findings.minimum_per_month,
        "saving_per_month": findings.saving_per_month,
        "passed_over": findings.passed_over,
        "findings": [dict(zip(columns(), values, strict=True)) for values in rows(findings, top)],
    }


def columns() -> list[str]:
    """The figures of a finding, by name."""
    from gpucost.findings import Finding

    return [_LABELS.get(field.name, field.name) for field in fields(Finding)]


def rows(findings: Findings, top: int | None = None) -> list[list[Any]]:
    """One row per finding, as columns() names them."""
    return [[_plain(getattr(one, field.name)) for field in fields(one)] for one in findings.findings[:top]]


def text(findings: Findings, title: str, currency: str, top: int | None = None) -> str:
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


def markdown(findings: Findings, title: str, currency: str, top: int | None = None) -> str:
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


def table(findings: Findings, top: int) -> Table:
    """The dearest findings as a table of a report."""
    from gpucost.report.view import Column, Line, Table

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
    from gpucost.report.words import figure_text

    return figure_text(amount, "money", currency, 2)


def _plain(value: Any) -> Any:
    from datetime import datetime

    return iso(value) if isinstance(value, datetime) else value


def _commit(config: Config, period: Period, question: Question) -> Ask:
    """`whatif reserve` about the question's workloads."""
    from gpucost.cli._whatif_commitments import stored_families
    from gpucost.cli._whatif_run import Run, StoreOptions
    from gpucost.whatif.described import PricePer
    from gpucost.whatif.reserve import answer

    asked = StoreOptions(
        namespace=[question.namespace] if question.namespace else None,
        workload=list(question.workloads),
        cluster=[question.cluster] if question.cluster else None,
        start=iso(period.start),
        end=iso(period.end),
    )
    run = Run(lambda: config, asked, quiet=True)

    def ask(cost_of: Any) -> Any:
        families, existing, name, assumptions = stored_families(run, (), (), {}, {}, PricePer.node)
        return answer(families, existing, cost_of, currency=config.currency, period=name, assumptions=assumptions)

    return ask
