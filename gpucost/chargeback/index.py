"""The index over all teams, from its manifest, as Markdown and as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from gpucost.reconcile import CENT, class_words, in_cents
from gpucost.report.html import Block
from gpucost.report.html.frame import environment, frame
from gpucost.report.html.parts import part
from gpucost.report.render_markdown import environment as markdown
from gpucost.report.view import Coverage
from gpucost.report.words import coverage_lines, figure_text
from gpucost.resources import reports_dir

# What stands between the charge and the invoice, besides the classes of the bill's rows.
_LINES = {
    "charged": "charged to teams",
    "estimated": "of it, estimates: on no bill",
    "shared": "of it, shares of unallocated and shared costs",
    "other_bills": "of it, hours of other bills and time zones",
    "billed_less_effective": "billed less effective cost: fees of commitments, covered usage, amortized amounts",
}


def to_markdown(manifest: dict[str, Any], coverage: Coverage) -> str:
    """The index for people who read text; names cannot break out of their cells."""
    return markdown(reports_dir() / "chargeback").get_template("index.md.j2").render(_told(manifest, coverage))


def to_html(manifest: dict[str, Any], coverage: Coverage, blocks: Sequence[Block]) -> str:
    """The index as one page that needs nothing else, with `blocks` after its teams; names are escaped."""
    parts = [part(block, manifest["currency"]) for block in blocks]
    return environment().get_template("index.html.j2").render(_told(manifest, coverage) | {"blocks": parts} | frame())


def _told(manifest: dict[str, Any], coverage: Coverage) -> dict[str, Any]:
    """What the templates print: every figure in words."""
    currency, totals = manifest["currency"], manifest["totals"]
    replaces = manifest["replaces"] or {"state": "", "teams": [], "totals": {}}
    adjusted = {one["team"]: one["adjustment"] for one in replaces["teams"]}
    gone = [one for one in replaces["teams"] if one["team"] not in {team["team"] for team in manifest["teams"]}]

    def money(value: float | None, *, signed: bool = False) -> str:
        text = figure_text(value, "money", currency, 2)
        return f"+{text}" if signed and value and value > 0 and text.strip("0.,-").strip() else text

    def line(one: dict[str, Any], adjustment: float | None) -> list[str]:
        return [
            figure_text(one["allocated_gpu_hours"], "hours", "", 1),
            money(one["charge"]),
            *([money(one["cost"]), money(one["shared_cost"])] if totals["shared_cost"] else []),
            figure_text(_ratio(one["charge"], totals["charge"]), "ratio", "", 1),
            money(one["estimated_cost"]),
            money(one["idle_cost"]),
            figure_text(one["efficiency"], "ratio", "", 1),
            figure_text(one["spot_ratio"], "ratio", "", 1),
            *([money(adjustment or 0.0, signed=True)] if manifest["replaces"] else []),
        ]

    whole = replaces["totals"]
    return {
        "month": manifest["month"],
        "period": f"{manifest['from']} to {manifest['to']}, {manifest['timezone']}",
        "currency": currency,
        "state": manifest["state"],
        "reasons": manifest["reasons"],
        "missing": manifest["missing"],
        "titles": [
            "GPU-hours",
            "Charged",
            *(["Cost", "Shared"] if totals["shared_cost"] else []),
            "Share",
            "Estimate",
            "Idle cost",
            "Efficiency",
            "Spot",
            *(["Adjustment"] if manifest["replaces"] else []),
        ],
        "teams": [
            {"name": team["team"], "file": team["file"], "cells": line(team, adjusted.get(team["team"]))}
            for team in manifest["teams"]
        ],
        "gone": [{"name": one["team"], "adjustment": money(one["adjustment"], signed=True)} for one in gone],
        # of what teams are charged; the total beside it is of all nodes
        "total": line(
            totals | {"estimated_cost": _sum(manifest["teams"], "estimated_cost")},
            whole["charge"]["adjustment"] if whole else None,
        ),
        "unallocated": money(totals["unallocated_cost"]),
        "unseen": money(totals["not_collected_cost"]) if totals["not_collected_cost"] else None,
        "node_cost": money(totals["node_cost"]),
        "estimated": money(totals["estimated_cost"]),
        "invoice": [
            {"what": what, "rows": "" if rows is None else f"{rows:,}", "cost": money(float(cost))}
            for what, rows, cost in _invoice_lines(manifest["invoice"])
        ],
        "invoice_total": manifest["invoice"]
        and {
            "rows": f"{manifest['invoice']['rows']:,}",
            "cost": money(manifest["invoice"]["billed_cost"]),
        },
        "replaced_state": replaces["state"],
        "adjustments": [
            {
                "what": what,
                "before": money(one["before"]),
                "after": money(one["after"]),
                "adjustment": money(one["adjustment"], signed=True),
            }
            for what, one in (
                ("charged to teams", whole.get("charge")),
                ("unallocated", whole.get("unallocated_cost")),
                ("not collected", whole.get("not_collected_cost")),
                ("all nodes", whole.get("node_cost")),
            )
            if one
        ],
        "coverage": [line for line in coverage_lines(coverage, currency) if line[0] != "Reconciled"],
        "reconciliation": (manifest["reconciliation"] or {}).get("sentence"),
        "warnings": manifest["coverage"]["warnings"],
        "focus": manifest["focus"],
    }


def _invoice_lines(invoice: dict[str, Any] | None) -> list[tuple[str, int | None, Decimal]]:
    """From the charge to the invoice, in cents that add up."""
    if invoice is None:
        return []
    lines = [(one["line"], one["rows"], Decimal(str(one["cost"]))) for one in invoice["lines"]]
    shown = [
        (_LINES.get(name) or class_words(name, "effective"), rows, cost)
        for name, rows, cost in lines
        if name != "rounding" and (rows or abs(cost) >= CENT)
    ]
    difference = Decimal(str(invoice["difference"]))
    shown += [("not explained", None, difference)] if difference else []
    return in_cents(shown, Decimal(str(invoice["billed_cost"])))


def _sum(rows: list[dict[str, Any]], name: str) -> float:
    return float(sum((Decimal(str(row[name])) for row in rows), Decimal(0)))


def _ratio(part: float, whole: float) -> float | None:
    return float(Decimal(str(part)) / Decimal(str(whole))) if whole else None
