"""Rules that a fleet should keep, with an exit code for pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Literal

from gpucost.options import Option
from gpucost.pipeline import read_attributed
from gpucost.questions.budget import MISSED
from gpucost.questions.policy.rules import BY, PolicyAnswer, RuleResult, check, read_rules
from gpucost.questions.report.reading import report_of
from gpucost.questions.request import FleetRequest
from gpucost.render.schema import to_dict
from gpucost.render.view import Document, ReportView, Table, count, money, number, text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# lines of the table of who breaks rules
_SHOWN = 40
# From which severity on a broken rule makes the command fail.
FailOn = Literal["warning", "error", "never"]


def policy_check(
    request: FleetRequest,
    rules: Annotated[Path | None, Option("Rules in TOML, instead of those that gpucost has.", "FILE")] = None,
    fail_on: Annotated[
        FailOn,
        Option(
            "Exit with 3 where such a rule is broken; warning: where one cannot be checked, too.",
            is_shown=True,
        ),
    ] = "error",
) -> Document:
    """Hold the fleet against rules, and exit with 3 where one is broken.

    Batch work on spot, quotas for GPUs, idle notebooks, limits of NodePools, priority classes, long training on demand:
    docs/policy.md has all rules and what they can be set to. A rule that metrics tell nothing of is unknown, never
    kept, and so is one of which there was nothing to check. Pods are judged by their whole lives.

    Without a period: the current month so far, or the newest month with data.

    \b
    Examples:
      gpucost policy check
      gpucost policy check --last 7d --team research
      gpucost policy rules > policy.toml && gpucost policy check --rules policy.toml --junit policy.xml
    """
    settings, chosen = request.settings, read_rules(rules)
    query = request.query(by=BY, with_sections=False, period_note=None)

    def checked(con: DuckDBPyConnection) -> tuple[ReportView, PolicyAnswer]:
        view = report_of(con, settings, query)
        return view, check(con, settings, query, view, chosen)

    view, answer = read_attributed(settings, request.store, checked, query.period)
    broken = [
        SimpleNamespace(rule=rule.name, severity=rule.severity, **to_dict(one))
        for rule in answer.rules
        for one in rule.violations
    ]
    columns = ["rule", "severity", "cluster", "namespace", "subject", "evidence", "gpu_hours", "cost"]
    counts = {"error": ("error",), "warning": ("error", "warning"), "never": ()}[fail_on]
    is_broken = any(rule.status == "broken" and rule.severity in counts for rule in answer.rules)
    is_failed = is_broken or (fail_on == "warning" and any(rule.missing for rule in answer.rules))
    return Document(
        title=f"Policy: {request.period_name}",
        subtitle=f"{answer.kept} kept, {answer.broken} broken, {answer.unknown} unknown",
        currency=settings.currency,
        sections=tuple(_sections(answer.rules, broken)),
        coverage=view.coverage,
        name="policy",
        data=answer,
        flat=(columns, [attrgetter(*columns)(one) for one in broken]),
        exit_code=MISSED if is_failed else 0,
    )


def _sections(rules: Sequence[RuleResult], broken: list[SimpleNamespace]) -> list[Table]:
    """How the rules stand, what to do, and who breaks them."""
    several = len({one.cluster for one in broken}) > 1
    sections = [
        Table.of(
            "Rules",
            rules,
            (
                text("name", "Rule"),
                text("severity", weight=2),
                text("status"),
                count("checked", weight=1),
                count(lambda rule: len(rule.violations), "Broken by"),
            ),
        )
    ]
    if open_rules := [rule for rule in rules if rule.status != "kept"]:
        wanted = (text("name", "Rule"), text("to_do", "What to do"))
        sections.append(Table.of("What to do", open_rules, wanted))
    if broken:
        shown = (
            text("rule"),
            *([text("cluster")] if several else []),
            text("namespace", weight=1),
            text("subject", "Who"),
            text("evidence", weight=2),
            number("gpu_hours", "GPU-hours"),
            money("cost"),
        )
        more = f" And {len(broken) - _SHOWN:,} more: --format json has all." if len(broken) > _SHOWN else ""
        note = f"GPU-hours and cost of the period, of what breaks the rule.{more}"
        sections.append(Table.of("Broken", broken[:_SHOWN], shown, note=note))
    return sections
