"""Rules for a fleet, with an exit code for pipelines."""

from pathlib import Path
from types import SimpleNamespace
from typing import Annotated

from gpucost.options import Option
from gpucost.pipeline import read_attributed
from gpucost.questions.budget import MISSED
from gpucost.questions.policy.rules import BY, PolicyAnswer, Violation, check, read_rules
from gpucost.questions.report.reading import report_of
from gpucost.questions.request import FleetRequest
from gpucost.records import DuckDBPyConnection
from gpucost.render.schema import columns_of, to_dict
from gpucost.render.view import Document, ReportView, Table, count, money, number, text


def policy_check(
    request: FleetRequest,
    rules: Annotated[Path | None, Option("TOML file of rules (default: the built-in rules).", "FILE")] = None,
) -> Document:
    """Check the fleet against rules, and exit with 3 if a rule of severity error is broken.

    Examples of rules: batch work on spot, idle notebooks, long training on demand. docs/policy.md lists the rules and
    their settings. A rule is unknown if data is missing or if no workload was checked. Pods are judged by their whole
    lives.

    Without a period: the current month so far, or the newest month with data.

    \b
    Examples:
      gpucost policy check
      gpucost policy check --last 7d --team research
      gpucost policy rules > policy.toml && gpucost policy check --rules policy.toml
    """
    settings, chosen = request.settings, read_rules(rules)
    query = request.query(by=BY, with_sections=False, period_note=None)

    def checked(con: DuckDBPyConnection) -> tuple[ReportView, PolicyAnswer]:
        view = report_of(con, settings, query)
        return view, check(con, settings, query, view, chosen)

    view, answer = read_attributed(settings, request.store, checked, query.period)
    broken = [
        SimpleNamespace(rule=rule.name, severity=rule.severity, **to_dict(violation))
        for rule in answer.rules
        for violation in rule.violations
    ]
    is_failed = any(rule.violations and rule.severity == "error" for rule in answer.rules)
    return Document(
        title=f"Policy: {request.period_name}",
        subtitle=f"{answer.kept} kept, {answer.broken} broken, {answer.unknown} unknown",
        currency=settings.currency,
        sections=_sections(answer, broken),
        coverage=view.coverage,
        name="policy",
        data=answer,
        flat=(
            ["rule", "severity", *columns_of(Violation)],
            [list(vars(violation).values()) for violation in broken],
        ),
        exit_code=MISSED if is_failed else 0,
    )


def _sections(answer: PolicyAnswer, broken: list[SimpleNamespace]) -> tuple[Table, ...]:
    """The state of the rules with the next step, and the violations."""
    rules = Table.of(
        "Rules",
        answer.rules,
        (
            text("name", "Rule"),
            text("severity", weight=2),
            text("status"),
            count("checked", weight=1),
            count(lambda rule: len(rule.violations), "Broken by"),
            text("to_do", "What to do"),
        ),
    )
    violations = Table.of(
        "Broken",
        broken,
        (
            text("rule"),
            text("cluster", weight=3),
            text("namespace", weight=1),
            text("subject", "Workload"),
            text("evidence", weight=2),
            number("gpu_hours", "GPU-hours"),
            money("cost"),
        ),
        note="GPU-hours and cost are for the period.",
    )
    return (rules, violations) if broken else (rules,)
